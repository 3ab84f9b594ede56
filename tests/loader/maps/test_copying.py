"""What the kernel copies out of a map, and what is read where it does not."""

from __future__ import annotations

import errno

import numpy as np
import pytest

from disco_magic.loader import pages
from disco_magic.loader.pages import Reader
from tests.loader.maps.reading import part


@pytest.mark.parametrize("width", [1, 3, 1000])
@pytest.mark.parametrize("rows", [1, 2, 1024, 2500])
@pytest.mark.parametrize("ranks", [1, 2, 5])
class TestRowsOfAllWidths:
    def test_are_copied(self, stored_as, copied, width, rows, ranks):
        self.compare(stored_as, (rows, ranks * width), ranks)
        assert copied

    def test_are_read(self, stored_as, monkeypatch, width, rows, ranks):
        monkeypatch.setattr(pages, "_libc", None)
        self.compare(stored_as, (rows, ranks * width), ranks)

    @staticmethod
    def compare(stored_as, shape, ranks):
        array = np.random.default_rng(0).integers(0, 255, shape, "u1").astype("u4")
        tensor, reader = stored_as(array), Reader()
        for rank, expected in enumerate(np.split(array, ranks, 1)):
            np.testing.assert_array_equal(part(tensor, 1, rank, ranks, reader), expected)


def test_the_kernel_is_asked_for_many_rows_at_once(stored_as, copied):
    tensor = stored_as(np.zeros((2500, 2048), "f4"))
    part(tensor, 1, 1, 2)
    assert copied == [(1024, 4096), (1024, 4096), (452, 4096)]


def test_narrow_rows_are_copied_with_what_lies_between_them(stored_as, copied):
    tensor = stored_as(np.zeros((10_000, 64), "u1"))
    part(tensor, 1, 0, 4)
    assert copied == [(1, 2**13 * 64), (1, (10_000 - 2**13) * 64)]
    copied.clear()
    part(tensor, 1, 3, 4)  # whose last row is the end of the file
    assert copied == [(1, 2**13 * 64), (1, (9999 - 2**13) * 64), (1, 16)]


@pytest.mark.parametrize("wrong", [errno.EPERM, errno.ENOSYS])
def test_a_kernel_that_does_not_copy_is_asked_once(tensor, monkeypatch, wrong):
    asked, reader = [], Reader()
    monkeypatch.setattr(pages, "_libc", object())
    monkeypatch.setattr(pages, "_copy_out", lambda address, stride, out: asked.append(out) or wrong)
    assert part(tensor, 0, 3, 16, reader)[0, 0] == 3 * 2**20
    assert part(tensor, 1, 3, 16, reader)[1, 0] == 2**20 + 3 * 2**16
    assert len(asked) == 1


def test_errors_are_the_kernel_s(copied):
    out = np.zeros((1025, 1), "u1")
    assert pages._copy_out(out.ctypes.data, 1, out) == errno.EINVAL  # more rows than it takes
    assert pages._copy_out(1, 1, out[:1]) == errno.EFAULT
    assert pages._copy_out(out.ctypes.data, 2**48, out[:2]) == errno.EFAULT  # the first row is there


def test_a_copy_that_fails_is_read_and_the_next_one_is_tried_again(tensor, monkeypatch):
    asked, reader = [], Reader()
    monkeypatch.setattr(pages, "_libc", object())
    monkeypatch.setattr(pages, "_copy_out", lambda address, stride, out: asked.append(out) or errno.EFAULT)
    for rank in (3, 4):
        assert part(tensor, 0, rank, 16, reader)[0, 0] == rank * 2**20
    assert len(asked) == 2
