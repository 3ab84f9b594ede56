"""Arrays and other values that cross between NumPy and TVM."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from disco_magic.core.device import Device
from disco_magic.errors import UsageMistake
from disco_magic.functions.aligned import ALIGNMENT, aligned, aligned_empty
from disco_magic.functions.tvm_values import TVMFunction, to_numpy


def misaligned(values, dtype="float32"):
    """An array 16 bytes behind a multiple of 64, as all large ones of NumPy's."""
    values = np.asarray(values, dtype)
    raw = aligned_empty((values.nbytes + 16,), np.uint8)
    array = raw[16:].view(dtype).reshape(values.shape)
    array[...] = values
    assert array.ctypes.data % ALIGNMENT == 16
    return array


def fill(tensor):
    """Write into a tensor, from TVM's side."""
    to_numpy(tensor)[...] = 7


def test_an_aligned_array_goes_in_and_comes_back_without_a_copy(through):
    array = aligned(np.arange(6, dtype="float32").reshape(2, 3))
    back = through(lambda tensor: tensor)(array)
    assert type(back) is np.ndarray
    assert back.ctypes.data == array.ctypes.data
    assert (back.shape, back.dtype, back.flags.writeable) == ((2, 3), np.float32, True)
    back[0, 0] = 42
    assert array[0, 0] == 42


@pytest.mark.parametrize("dtype", ["bool", "int8", "float32", "complex64"])
def test_results_can_be_written_also_where_numpy_forbids_it(through, ffi, monkeypatch, dtype):
    def borrow(tensor, borrow=np.from_dlpack):
        array = borrow(tensor)
        array.flags.writeable = False
        return array

    monkeypatch.setattr(np, "from_dlpack", borrow)  # what that of NumPy before 2.2 does
    array = aligned(np.ones((2, 3), dtype))
    back = to_numpy(ffi.from_dlpack(array))
    assert (back.dtype, back.shape, back.ctypes.data) == (dtype, (2, 3), array.ctypes.data)
    back[1, 2] = 0
    assert array.sum() == 5
    alone = to_numpy(ffi.from_dlpack(aligned(np.arange(10_000.0))))
    assert alone.sum() == 49_995_000


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float32", "float64"])
def test_dtypes_survive(through, dtype):
    array = np.array([0, 1, 1]).astype(dtype)
    back = through(lambda tensor: tensor)(array)
    assert back.dtype == dtype
    assert back.tolist() == array.tolist()


def test_a_result_lives_as_long_as_its_array(ffi, through):
    back = through(lambda: ffi.from_dlpack(aligned(np.arange(1000.0))))()
    assert back.sum() == 499500


@pytest.mark.parametrize(
    "make",
    [
        lambda: aligned(np.zeros(4, "float32")),
        lambda: misaligned(np.zeros(4)),
        lambda: np.zeros((4, 4), "float32")[:, 1],
        lambda: np.zeros(4, ">f4"),
    ],
    ids=["aligned", "misaligned", "strides", "byte order"],
)
def test_what_a_function_writes_is_in_the_array_also_if_it_was_copied(through, make):
    array = make()
    through(fill)(array)
    assert array.tolist() == [7.0] * 4


@pytest.mark.parametrize("count", [1, 3, 100, 100_000])
def test_a_copy_begins_where_compiled_code_expects_it(through, count):
    offset = through(lambda tensor: to_numpy(tensor).ctypes.data % ALIGNMENT)
    kept = [misaligned(np.zeros(count)) for _ in range(8)]
    assert [offset(array) for array in kept] == [0] * 8


def test_a_read_only_array_is_read_and_not_written(through):
    array = np.zeros(4)
    array.flags.writeable = False
    assert through(lambda tensor: float(np.from_dlpack(tensor).sum()))(array) == 0
    through(fill)(array)
    assert array.tolist() == [0.0] * 4


def test_an_array_given_twice_is_one_for_the_function(through):
    array = misaligned([1, 2])

    def same(a, b):
        to_numpy(a)[...] = 5
        return float(np.from_dlpack(b).sum())

    assert through(same)(array, array) == 10
    assert array.tolist() == [5.0, 5.0]


@pytest.mark.parametrize(
    "array",
    [np.array([None]), np.array(["text"]), np.array(["2020-01-01"], "M8[D]"), np.zeros(2, "i4,f4")],
    ids=lambda array: str(array.dtype),
)
def test_an_array_that_tvm_cannot_read_is_refused(through, array):
    with pytest.raises(UsageMistake, match="an array of dtype"):
        through(lambda tensor: None)(array)


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        (None, None),
        (3, 3),
        (2.5, 2.5),
        ("text", "text"),
        ("long text " * 20, "long text " * 20),
        (b"bytes", b"bytes"),
        (b"many bytes" * 20, b"many bytes" * 20),
        (np.float32(2.5), 2.5),
        (np.int64(3), 3),
        (np.bool_(True), True),
        ((1, (2, 3)), (1, (2, 3))),
        ([1, 2], (1, 2)),
        ({"a": 1, "b": [2]}, {"a": 1, "b": (2,)}),
    ],
    ids=repr,
)
def test_values_without_arrays_survive(through, value, seen):
    back = through(lambda x: x)(value)
    assert type(back) is type(seen)
    assert back == seen


def test_arrays_in_containers_are_lent_and_come_back(through):
    array = aligned(np.arange(3.0))
    (first, (second,)) = through(lambda x: x)([array, (array,)])
    assert first.ctypes.data == second.ctypes.data == array.ctypes.data
    back = through(lambda x: x)({"w": array})["w"]
    assert back.ctypes.data == array.ctypes.data


def test_dtypes_devices_and_objects_of_tvm_are_handed_on(ffi, through):
    assert through(str)(np.dtype("float32")) == "float32"
    assert through(lambda device: str(device).startswith("cuda:1"))(Device("cuda", 1)) is True
    shape = ffi.Shape((1, 2))
    assert isinstance(through(lambda x: x)(shape), ffi.Shape)


def test_a_callback_gets_arrays_and_gives_them(through):
    seen = []

    def double(x):
        seen.append(type(x))
        return x * 2

    assert through(lambda f, x: f(x))(double, np.arange(3.0)).tolist() == [0, 2, 4]
    assert seen == [np.ndarray]


def test_functions_of_tvm_travel_both_ways(through):
    add = through(lambda a, b: a + b)
    assert through(lambda f: f(1, 2))(add) == 3
    back = through(lambda f: f)(add)
    assert isinstance(back, TVMFunction)
    assert back(3, 4) == 7


def test_an_exception_comes_back_as_itself(through):
    def fail():
        raise IndexError("in a callback")

    with pytest.raises(IndexError, match="in a callback"):
        through(fail)()


def test_a_function_is_a_handle_with_a_name(through):
    function = through(len)
    assert copy.deepcopy(function) is function
    assert repr(function) == "<TVM function test>"
    with pytest.raises(TypeError, match="unexpected keyword"):
        function(x=1)
