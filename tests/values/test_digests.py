"""Digests of arrays: equal for equal bits, whatever the strides and whatever lies in the gaps."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.values import digests
from disco_magic.values.digests import digest_of, has_gaps

ml_dtypes = pytest.importorskip("ml_dtypes")

ml_dtypes = pytest.importorskip("ml_dtypes")

BASE = np.arange(60, dtype="float32").reshape(3, 4, 5)


@pytest.mark.parametrize(
    "layout",
    [
        np.asfortranarray(BASE),
        BASE[::-1][::-1],
        np.repeat(BASE, 2, axis=1)[:, ::2],
        np.ascontiguousarray(BASE.transpose(2, 0, 1)).transpose(1, 2, 0),
    ],
    ids=["fortran", "reversed twice", "strided", "transposed"],
)
def test_equal_arrays_have_one_digest_whatever_their_strides(layout):
    assert np.array_equal(layout, BASE)
    assert digest_of(layout) == digest_of(BASE)


def test_arrays_larger_than_a_block_have_one_digest_whatever_their_strides(monkeypatch):
    monkeypatch.setattr(digests, "_BLOCK", 1 << 10)
    monkeypatch.setattr(digests, "_ELEMENTS", 100)
    large = np.arange(10_000.0).reshape(100, 100)
    whole = digests.hashlib.blake2b(large.data, digest_size=16).digest()
    assert digest_of(large) == digest_of(np.asfortranarray(large)) == whole


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.array([0.0]), np.array([-0.0])),
        (np.array([0x7FF8000000000000]).view("f8"), np.array([0x7FF8000000000001]).view("f8")),
        (np.array([1, 2]), np.array([2, 1])),
        (np.array([1, 2], ml_dtypes.bfloat16), np.array([1, 3], ml_dtypes.bfloat16)),
        (np.array(["a", "b"]), np.array(["a", "c"])),
        (np.array(["2024-01-01"], "M8[D]"), np.array(["2024-01-02"], "M8[D]")),
        (np.array([(1, 2)], "i4,i4"), np.array([(1, 3)], "i4,i4")),
        (np.ones(3, np.longdouble), np.ones(3, np.longdouble) * 2),
    ],
    ids=["zeros", "nans", "order", "bfloat16", "text", "dates", "records", "longdouble"],
)
def test_arrays_that_differ_in_a_bit_have_different_digests(one, other):
    assert digest_of(one) != digest_of(other)


@pytest.mark.parametrize("dtype", ["f8", "u1", "i2", "f4", "c16", "S3", "M8[s]", "i4,i4"])
@pytest.mark.parametrize("repeated", [[0], [1], [2], [0, 2], [0, 1, 2], []])
def test_elements_that_repeat_have_the_digest_of_any_array_with_them(monkeypatch, dtype, repeated):
    monkeypatch.setattr(digests, "_LARGE", 1)
    monkeypatch.setattr(digests, "_ELEMENTS", 50)
    shape = tuple(1 if axis in repeated else length for axis, length in enumerate((3, 40, 5)))
    own = np.zeros(shape, dtype)
    own.view("u1").reshape(-1)[:] = np.random.default_rng(0).integers(0, 9, own.nbytes)
    expanded = np.broadcast_to(own, (3, 40, 5))
    laid_out = np.array(expanded, order="C")
    assert digest_of(expanded) == digest_of(laid_out) == digest_of(np.asfortranarray(expanded))
    laid_out.view("u1").reshape(-1)[-1] ^= 1
    assert digest_of(expanded) != digest_of(laid_out)


def test_which_axes_repeat_and_their_bits_count(monkeypatch):
    monkeypatch.setattr(digests, "_LARGE", 1)
    rows = np.arange(3.0)
    assert digest_of(np.broadcast_to(rows, (3, 3))) != digest_of(np.broadcast_to(rows[:, None], (3, 3)))
    nans = np.array([0x7FF8000000000000, 0x7FF8000000000001]).view("f8")
    assert digest_of(nans) != digest_of(nans[::-1])
    assert digest_of(np.array([0.0, 0.0])) != digest_of(np.array([0.0, -0.0]))


def test_of_an_expanded_array_its_own_memory_is_read(monkeypatch):
    large = np.broadcast_to(np.arange(1024.0), (1 << 22, 1024))  # 32 GiB
    read = []
    monkeypatch.setattr(digests.hashlib, "blake2b", lambda **_: Reader(read))
    digest_of(large)
    assert sum(read) < 2 * large.base.nbytes


class Reader:
    def __init__(self, read):
        self.read = read

    def update(self, data):
        self.read.append(len(memoryview(data).cast("B")))

    def digest(self):
        return b""


def test_bits_that_mean_nothing_do_not_count():
    def filled(dtype, noise):
        made = np.full(4 * np.dtype(dtype).itemsize, noise, np.uint8).view(dtype)
        made[:] = np.ones(4, dtype)
        return made

    gaps = np.dtype([("a", "i1"), ("b", "f8"), ("c", [("d", "i1"), ("e", "i4")], 2)], align=True)
    for dtype in (np.longdouble, np.clongdouble, gaps, np.dtype([("x", np.longdouble, 2)])):
        assert digest_of(filled(dtype, 0)) == digest_of(filled(dtype, 255))


def test_an_array_without_elements_has_a_digest():
    assert digest_of(np.zeros((0, 3))) == digest_of(np.zeros(0)[::2])


def test_a_contiguous_array_is_read_without_a_copy(monkeypatch):
    seen = []

    class Digest:
        def update(self, block):
            seen.append(block)

        def digest(self):
            return b""

    monkeypatch.setattr(digests.hashlib, "blake2b", lambda **_: Digest())
    array = np.zeros((4, 4))
    digest_of(array)
    (block,) = seen
    assert np.shares_memory(np.asarray(block), array)


@pytest.mark.parametrize("size", [24, 32])
def test_numbers_of_other_libraries_may_have_the_letter_of_long_ones(size):
    eight = np.arange(size, dtype="u1").view(ml_dtypes.float8_e4m3fnuz)
    assert eight.dtype.char == "G"
    assert not has_gaps(eight.dtype)
    other = eight.copy()
    other.view("u1")[11] = 99
    assert digest_of(eight) == digest_of(eight.copy()) != digest_of(other)
    assert digest_of(eight[::2]) == digest_of(eight[::2].copy())


def test_fields_that_overlap_may_leave_a_gap():
    layout = {"names": ["a", "b"], "formats": ["f8", "i8"], "offsets": [0, 0], "itemsize": 16}
    one, other = np.zeros(2, np.dtype(layout)), np.zeros(2, np.dtype(layout))
    other.view("u1").reshape(2, 16)[:, 8:] = 7
    assert has_gaps(one.dtype)
    assert digest_of(one) == digest_of(other)
