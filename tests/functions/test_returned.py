"""Results as arrays of other libraries, which are stood in for."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from disco_magic.functions.returned import as_array_of, library_of
from tests.doubles import arrays
from tests.doubles.arrays import cupy_array, jax_array, tensor
from tests.values.test_gpu_values import foreign


@pytest.fixture
def torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", arrays.torch())


@pytest.fixture
def jax(monkeypatch):
    """Its module, which writes down what it is asked for."""
    library = SimpleNamespace(backend="cpu", asked=[])

    def note(what, given):
        library.asked.append((what, given))
        return given

    library.default_backend = lambda: library.backend
    library.numpy = SimpleNamespace(asarray=lambda array: note("asarray", array))
    library.dlpack = SimpleNamespace(from_dlpack=lambda array: note("from_dlpack", array))
    library.local_devices = lambda backend: [f"{backend}:0", f"{backend}:1"]
    library.device_put = lambda array, device: note(device, array)
    monkeypatch.setitem(sys.modules, "jax", library)
    return library


class OnGpu:
    """An array of cupy's, in so far."""

    device = "cuda:0"

    def __init__(self, dtype, views=(), is_copy=False):
        self.dtype = np.dtype(dtype)
        self.views = [*views]
        self.is_copy = is_copy

    def view(self, dtype):
        return OnGpu(self.dtype, [*self.views, dtype], self.is_copy)

    def clone(self):
        return OnGpu(self.dtype, self.views, is_copy=True)


def test_arrays_of_two_libraries_are_known():
    assert library_of(type(tensor(np.ones(1)))) == "torch"
    assert library_of(type(foreign("jaxlib._jax"))) == "jax"
    assert library_of(type(foreign("jax.core"))) == "jax"


@pytest.mark.parametrize("other", [1, [1.0], np.ones(1), cupy_array(np.ones(1)), foreign("tvm_ffi")])
def test_of_all_others_planes_results_are_what_is_wanted(other):
    assert library_of(type(other)) == ""


def test_a_class_that_is_derived_from_a_tensor_is_none_of_ours():
    assert library_of(type("Boxes", (type(tensor(np.ones(1))),), {"__module__": "torchvision"})) == ""


# --- PyTorch -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (3,), (2, 0)])
@pytest.mark.parametrize("dtype", ["float64", "int8", "complex64"])
def test_a_tensor_has_the_memory_of_the_result(torch, shape, dtype):
    array = np.ones(shape, dtype)
    made = as_array_of("torch", array)
    assert (made.shape, made.dtype, made.device) == (shape, f"torch.{dtype}", "cpu")
    assert made.numpy() is array


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn"])
def test_what_numpy_lacks_is_a_tensor_of_that_dtype_again(torch, dtype):
    array = np.array([1, 2], getattr(pytest.importorskip("ml_dtypes"), dtype))
    made = as_array_of("torch", array)
    assert made.dtype == f"torch.{dtype}"
    assert np.shares_memory(made._array, array)
    assert made._array.dtype == array.dtype
    assert made._array.tolist() == [1, 2]


def test_a_dtype_that_was_swapped_and_swapped_back_is_numpy_s_own(torch):
    array = np.ones(2, np.dtype(">f8").newbyteorder("="))
    assert as_array_of("torch", array).numpy() is array


def test_truth_goes_by_its_bits_which_every_version_takes(torch):
    assert as_array_of("torch", np.array([True, False])).dtype == "torch.bool"


@pytest.mark.parametrize(("dtype", "views"), [("float32", []), ("bool", ["i1", "torch.bool"])])
def test_on_a_gpu_it_goes_by_dlpack(torch, dtype, views):
    array = OnGpu(dtype)
    library, waited = sys.modules["torch"], []
    library.from_dlpack = lambda given: given
    library.cuda = SimpleNamespace(
        current_stream=lambda device: SimpleNamespace(synchronize=lambda: waited.append(device))
    )
    made = as_array_of("torch", array)
    assert made.views == views
    assert made.is_copy, "cupy frees its memory as soon as nobody there has it"
    assert waited == ["cuda:0"], "and may do so when this has returned"


# --- JAX ---------------------------------------------------------------------------------------------


def test_jax_takes_an_array_where_it_computes(jax):
    array = np.ones(2)
    assert as_array_of("jax", array) is array
    assert jax.asked == [("asarray", array)]


def test_on_the_host_it_stays_there_although_jax_computes_elsewhere(jax):
    jax.backend = "gpu"
    array = np.ones(2)
    as_array_of("jax", array)
    assert jax.asked == [("cpu:0", array)]


def test_it_goes_where_the_array_is_that_was_brought(jax):
    brought, array = jax_array(np.ones(2)), np.ones(3)
    brought.committed, brought.device = True, "cpu:2"
    brought.devices = lambda: {"cpu:2"}
    as_array_of("jax", array, brought)
    assert jax.asked == [("cpu:2", array)]


@pytest.mark.parametrize("devices", [1, 2])
def test_where_jax_chose_the_place_or_there_are_several_it_chooses_again(jax, devices):
    jax.backend = "gpu"
    brought, array = jax_array(np.ones(2)), np.ones(3)
    brought.committed, brought.devices = devices > 1, lambda: set(range(devices))
    as_array_of("jax", array, brought)
    assert jax.asked == [("asarray", array)]


@pytest.mark.parametrize(("dtype", "views"), [("float32", []), ("bool", ["i1", np.dtype(bool)])])
def test_jax_takes_what_is_on_a_gpu_by_dlpack(jax, dtype, views):
    array = OnGpu(dtype)
    assert as_array_of("jax", array).views == views
    assert [what for what, _ in jax.asked] == ["from_dlpack"]
