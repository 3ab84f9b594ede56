"""TVM's global functions, and libraries that it compiled."""

from __future__ import annotations

import shutil
import sys

import numpy as np
import pytest

from disco_magic.errors import MissingDependency, UnknownName, UsageMistake
from disco_magic.functions import modules, tvm_modules
from disco_magic.functions.aligned import aligned_empty
from disco_magic.functions.modules import load, locate
from disco_magic.functions.registry import find_func, list_funcs, register_func, remove_func
from disco_magic.functions.tvm_values import TVMFunction, to_numpy

# --- without TVM ---------------------------------------------------------------------------------------


def test_a_compiled_library_without_tvm_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setattr(modules, "has_package", lambda name: False)
    for name in ("lib.so", "lib.dylib", "lib.tar"):
        (tmp_path / name).touch()
        with pytest.raises(MissingDependency, match=r'pip install "disco-magic\[tvm\]"'):
            locate(tmp_path / name)


def test_a_directory_is_no_library(tmp_path):
    (tmp_path / "lib.so").mkdir()
    with pytest.raises(UsageMistake, match="a directory without"):
        locate(tmp_path / "lib.so")


def test_a_mistyped_name_imports_no_tvm_that_is_not_there(monkeypatch):
    monkeypatch.setitem(sys.modules, "tvm_ffi", None)
    with pytest.raises(UnknownName):
        find_func("test.no_such_function")
    assert sys.modules["tvm_ffi"] is None


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
