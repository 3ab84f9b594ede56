"""Which rows are read, in how many pieces."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from disco_magic.loader import reading, stored
from tests.loader.reads.part import part
from tests.sampled import in_turn


@pytest.fixture
def runs(monkeypatch):
    """What is read: (number of rows, bytes of one)."""
    asked, read = [], reading._read

    def noted(file, opened, begin, stride, out):
        asked.append((len(out), out[0].nbytes))
        read(file, opened, begin, stride, out)

    monkeypatch.setattr(reading, "_read", noted)
    return asked


@pytest.mark.parametrize(
    ("case", "ranks"), in_turn([*product([1, 3, 1000, 3000], [1, 2, 1024, 2500])], [1, 2, 5])
)
def test_rows_of_all_widths_are_read(stored_as, case, ranks):
    width, rows = case
    array = np.random.default_rng(0).integers(0, 255, (rows, ranks * width), "u1").astype("u4")
    tensor = stored_as(array)
    for rank, expected in enumerate(np.split(array, ranks, 1)):
        np.testing.assert_array_equal(part(tensor, 1, rank, ranks), expected)


def test_narrow_rows_are_read_with_what_lies_between_them(stored_as, runs):
    tensor = stored_as(np.zeros((10_000, 64), "u1"))
    part(tensor, 1, 0, 4)
    assert runs == [(2**13, 64), (10_000 - 2**13, 64)]
    runs.clear()
    part(tensor, 1, 3, 4)  # whose last row is the end of the file
    assert runs == [(2**13, 64), (9999 - 2**13, 64), (1, 16)]


def test_of_rows_with_more_between_them_only_the_wanted_part_is_read(stored_as, runs):
    part(stored_as(np.zeros((100, 2048), "f4")), 1, 1, 2)
    assert runs == [(100, 4096)]


def test_rows_with_nothing_between_them_are_read_at_once(stored_as, monkeypatch):
    sought, tensor = [], stored_as(np.zeros((100, 8), "f4"))
    opens = stored.StoredFile.open

    def noted(file):
        opened = opens(file)

        class Noted:
            readinto, __enter__ = opened.readinto, lambda self: self
            seek = staticmethod(lambda place: sought.append(place) or opened.seek(place))
            __exit__ = staticmethod(lambda *raised: opened.close())

        return Noted()

    monkeypatch.setattr(stored.StoredFile, "open", noted)
    part(tensor, 1, 0, 1)  # of one worker
    assert sought == [tensor.offset]
