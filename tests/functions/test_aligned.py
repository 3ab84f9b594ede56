"""Arrays that begin at a multiple of 64 bytes."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.errors import UsageMistake
from disco_magic.functions.aligned import aligned, aligned_empty


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5), (1000, 1000)], ids=str)
@pytest.mark.parametrize("dtype", ["uint8", "float32", "complex128"])
def test_aligned_memory_begins_at_a_multiple_of_64_bytes(shape, dtype):
    array = aligned_empty(shape, dtype)
    assert (array.shape, array.dtype, array.ctypes.data % 64) == (shape, np.dtype(dtype), 0)
    assert array.flags.carray


def test_an_array_that_can_be_lent_is_not_copied():
    array = aligned_empty((3,), "float32")
    assert aligned(array) is array


@pytest.mark.parametrize(
    "make",
    [
        lambda x: aligned(np.array([0, 0, 0, 0, *x], "float32"))[4:],
        lambda x: aligned(np.array(x, ">f4")).astype(">f4"),
        lambda x: np.array([x, x], "float32").T.copy()[:, 0],
        lambda x: np.broadcast_to(aligned(np.array(x, "float32")), (2, 3))[1],
    ],
    ids=["misaligned", "byte order", "strides", "read-only"],
)
def test_other_arrays_are_copied_into_aligned_memory(make):
    array = make([1, 2, 3])
    result = aligned(array)
    assert not np.shares_memory(result, array)
    assert result.flags.carray
    assert result.dtype.isnative
    assert result.ctypes.data % 64 == 0
    assert result.tolist() == [1, 2, 3]


def test_python_objects_cannot_be_aligned():
    with pytest.raises(UsageMistake, match="dtype object holds Python objects"):
        aligned(np.array([None]))


@pytest.mark.parametrize("dtype", [object, [("a", "O"), ("b", "f4")]])
def test_an_array_of_objects_holds_none_and_no_garbage(dtype):
    junk = [bytearray(b"\xff" * 256) for _ in range(100)]
    del junk
    array = aligned_empty((3,), dtype)
    assert array.shape == (3,)
    assert all(value is None for value in (array if dtype is object else array["a"]))
