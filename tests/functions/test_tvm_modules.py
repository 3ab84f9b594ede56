"""Arrays that cross between NumPy and TVM, TVM's global functions, libraries that it compiled."""

from __future__ import annotations

import copy
import shutil
import sys

import numpy as np
import pytest

from disco_magic.core.device import Device
from disco_magic.errors import MissingDependency, UnknownName, UsageMistake
from disco_magic.functions import installed, modules, tvm_modules
from disco_magic.functions.aligned import ALIGNMENT, aligned, aligned_empty
from disco_magic.functions.modules import load, locate
from disco_magic.functions.registry import find_func, list_funcs, register_func, remove_func
from disco_magic.functions.tvm_modules import TVMFunction, to_numpy


def misaligned(values, dtype="float32"):
    """An array 16 bytes behind a multiple of 64, as all large ones of NumPy's."""
    values = np.asarray(values, dtype)
    raw = aligned_empty((values.nbytes + 16,), np.uint8)
    array = raw[16:].view(dtype).reshape(values.shape)
    array[...] = values
    assert array.ctypes.data % ALIGNMENT == 16
    return array


# --- without TVM ---------------------------------------------------------------------------------------


def test_a_compiled_library_without_tvm_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setattr(installed, "has_package", lambda name: False)
    for name in ("lib.so", "lib.dylib", "lib.tar"):
        (tmp_path / name).touch()
        with pytest.raises(MissingDependency, match=r'pip install "disco-magic\[tvm\]"'):
            locate(tmp_path / name)


def test_a_directory_is_no_library(tmp_path):
    (tmp_path / "lib.so").mkdir()
    with pytest.raises(UsageMistake, match="a directory without"):
        locate(tmp_path / "lib.so")


def test_a_mistyped_name_does_not_import_tvm(monkeypatch):
    for absent in ({}, {"tvm_ffi": None}):
        monkeypatch.delitem(sys.modules, "tvm_ffi", raising=False)
        for name, value in absent.items():
            monkeypatch.setitem(sys.modules, name, value)
        with pytest.raises(UnknownName):
            find_func("test.no_such_function")
        assert sys.modules.get("tvm_ffi") is None


# --- the values of a call ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tvm():
    found = pytest.importorskip("tvm", reason="apache-tvm is not installed")
    if found.support.cc.get_cc() is None:
        pytest.skip("TVM links what it exports with a C compiler, and there is none")
    return found


@pytest.fixture
def ffi():
    return pytest.importorskip("tvm_ffi", reason="apache-tvm is not installed")


@pytest.fixture
def through(ffi):
    """``through(function)``: a Python function as TVM calls it."""
    return lambda function: TVMFunction("test", ffi.convert(function))


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


# --- global functions ----------------------------------------------------------------------------------


@pytest.fixture
def registered(ffi):
    """Functions registered with tvm_ffi: ``disco_test.scale``, ``runtime.disco.of_tvm``."""
    names = ["disco_test.scale", "runtime.disco.of_tvm"]
    for name in names:
        ffi.register_global_func(name, lambda x, by: to_numpy(x) * by, override=True)
    yield
    for name in names:
        ffi.registry.remove_global_func(name)


def test_a_name_that_only_tvm_knows_is_found_there(registered):
    scale = find_func("disco_test.scale")
    assert scale(np.arange(3.0), 2).tolist() == [0, 2, 4]
    assert "disco_test.scale" not in list_funcs()


def test_ours_comes_first(registered):
    register_func("disco_test.scale", len)
    try:
        assert find_func("disco_test.scale") is len
    finally:
        remove_func("disco_test.scale")
    assert isinstance(find_func("disco_test.scale"), TVMFunction)
    with pytest.raises(UnknownName):
        remove_func("disco_test.scale")


def test_near_misses_are_of_both_kinds(registered):
    register_func("disco_test.scald", len)
    try:
        with pytest.raises(UnknownName) as caught:
            find_func("disco_test.scal")
    finally:
        remove_func("disco_test.scald")
    assert "'disco_test.scale'" in str(caught.value)
    assert "'disco_test.scald'" in str(caught.value)


def test_functions_of_tvms_own_disco_are_not_ours(registered):
    with pytest.raises(UnknownName) as caught:
        find_func("runtime.disco.of_tvm")
    assert "'runtime.disco.of_tvm' or" not in str(caught.value)
    assert "runtime.disco.of_tvm" not in tvm_modules.global_names()


def test_a_tensor_of_a_dtype_that_numpy_lacks_stays_tvms_own(tvm, through):
    tensor = through(lambda: tvm.runtime.empty((3,), "bfloat16"))()
    assert isinstance(tensor, tvm.runtime.Tensor)
    assert through(lambda x: tuple(x.shape))(tensor) == (3,)


# --- compiled libraries --------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def nothing_loaded():
    yield
    modules._loaded.clear()


def kernels(factor):
    """A kernel that multiplies 64 floats by `factor`, and one that adds it to them, with aligned vectors."""
    import tvm
    from tvm.script import tirx as T  # noqa: N812 - TVM's parser knows it by this name

    @T.prim_func(s_tir=True)
    def scale(a: T.Buffer((64,), "float32"), c: T.Buffer((64,), "float32")):
        for i in range(4):
            for j in T.vectorized(16):
                c[i * 16 + j] = a[i * 16 + j] * T.float32(factor)

    @T.prim_func(s_tir=True)
    def shift(a: T.Buffer((64,), "float32"), c: T.Buffer((64,), "float32")):
        for i in range(4):
            for j in T.vectorized(16):
                c[i * 16 + j] = a[i * 16 + j] + T.float32(factor)

    return tvm.IRModule({"scale": scale, "shift": shift})


@pytest.fixture(scope="module")
def exports(tvm, tmp_path_factory):
    """``lib.so`` and ``lib.tar`` of kernels that double, and ``edited.so`` of ones that triple."""
    folder = tmp_path_factory.mktemp("exports")
    doubling = tvm.compile(kernels(2.0), target="llvm")
    doubling.export_library(str(folder / "lib.so"))
    doubling.export_library(str(folder / "lib.tar"))
    tvm.compile(kernels(3.0), target="llvm").export_library(str(folder / "edited.so"))
    return folder


def scaled(library, x):
    out = np.zeros(64, "float32")
    library.get_function("scale")(x, out)
    return out


@pytest.mark.parametrize("name", ["lib.so", "lib.tar"])
def test_kernels_of_a_library_write_into_their_last_argument(exports, name):
    library = load(exports / name)
    x = np.arange(64, dtype="float32")
    assert (scaled(library, x) == 2 * x).all()
    assert library.on("cpu") is library


@pytest.mark.parametrize("offset", [1, 2, 4, 8])
def test_vector_code_that_would_end_the_process_reads_a_copy(exports, offset):
    raw = aligned_empty((64 + offset,), "float32")
    x, out = raw[offset:], aligned_empty((64 + offset,), "float32")[offset:]
    x[...] = np.arange(64)
    load(exports / "lib.so").get_function("scale")(x, out)
    assert (out == 2 * np.arange(64)).all()


def test_functions_of_a_library_are_listed_and_near_misses_told(exports):
    library = load(exports / "lib.so")
    assert {"scale", "shift"} <= set(library.function_names())
    assert library.find("gone") is None
    with pytest.raises(UnknownName, match=r"no function 'scal' in .*lib\.so'; did you mean 'scale'\?"):
        library.get_function("scal")


def test_a_library_that_was_compiled_again_is_the_new_one(exports, tmp_path):
    path = tmp_path / "lib.so"
    x = np.ones(64, "float32")
    shutil.copy(exports / "lib.so", path)
    former = load(path)
    assert load(path) is former
    path.unlink()  # as linkers do: to write into a library that is in use ends the process
    shutil.copy(exports / "edited.so", path)
    assert scaled(load(path), x)[0] == 3
    assert scaled(former, x)[0] == 2


def test_what_is_no_library_is_refused_by_tvm(tvm, tmp_path):
    (tmp_path / "lib.so").write_text("not a library")
    with pytest.raises(RuntimeError, match="Failed to load dynamic shared library"):
        load(tmp_path / "lib.so")


def test_an_archive_without_a_compiler_says_what_to_export_instead(tvm, exports, monkeypatch):
    monkeypatch.setattr(tvm.support.cc, "get_cc", lambda: None)
    with pytest.raises(UsageMistake, match=r"takes a C compiler, .* export the module as \.so instead"):
        load(exports / "lib.tar")


def test_a_module_object_of_tvm_is_a_module_of_ours(exports, through):
    library = load(exports / "lib.so")
    back = through(lambda module: module)(library)
    x = np.ones(64, "float32")
    assert scaled(back, x)[0] == 2
    assert back.function_names() == []
    assert modules.module_get_function(back, "scale", True)
