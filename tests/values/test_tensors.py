"""Tensors of PyTorch on the host, stood in for: their bits, digests, memory, and modules that hold them."""

from __future__ import annotations

import sys
import types
from dataclasses import dataclass

import numpy as np
import pytest

from disco_magic.core.device import Device
from disco_magic.errors import UsageMistake
from disco_magic.functions.arrays import read_array
from disco_magic.functions.places import HOST_PLACE
from disco_magic.values import divergence
from disco_magic.values.describe import describe
from disco_magic.values.divergence import look, survey
from disco_magic.values.fingerprint import fingerprint
from disco_magic.values.peek import statistics_of
from disco_magic.values.sizes import nbytes_of
from disco_magic.values.tensors import array_of, bits_of, numbers_of, read_out
from tests.doubles import arrays
from tests.doubles.arrays import tensor

ml_dtypes = pytest.importorskip("ml_dtypes")


@pytest.fixture(autouse=True)
def torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", arrays.torch())


def on_host(array, dtype=None):
    return tensor(array, dtype, "cpu")


def half(*numbers):
    return on_host(np.array(numbers, ml_dtypes.bfloat16), "torch.bfloat16")


def parameter(array):
    made = on_host(np.asarray(array))
    made.requires_grad = True
    return made


class Held:
    def __init__(self, weight):
        self.weight = weight

    def __repr__(self):
        return "Held"


class Placement(str):
    """How it is split along an axis of the mesh."""

    __slots__ = ()

    def is_replicate(self):
        return self == "R"


class Mesh:
    """Of PyTorch's: two workers along each axis, unless `sizes` says otherwise."""

    def __init__(self, at, names=None, sizes=None):
        self.at, self.ndim, self.mesh_dim_names = at, len(at or names), names
        self.size = lambda axis: 2 if sizes is None else sizes[axis]

        self.mesh = np.arange(2**self.ndim)

    def get_coordinate(self):
        return self.at


class Split:
    """A DTensor of PyTorch's: a worker's part, and what it is a part of."""

    def __init__(self, part, whole, *placements, mesh=None, dtype="f4"):
        self._local_tensor, self.shape = on_host(np.asarray(part, dtype)), whole
        self.placements = tuple(map(Placement, placements))
        self.device_mesh = mesh or Mesh([0] * len(placements))
        self.device, self.dtype, self.nbytes = "cpu", "torch.float32", 4 * int(np.prod(whole))


Split.__module__, Split.__name__ = "torch.distributed.tensor", "DTensor"


# --- what is in them -------------------------------------------------------------------------------


def test_bits_are_the_memory_of_a_tensor():
    array = np.zeros(3)
    assert np.shares_memory(bits_of(on_host(array)), array)


def test_bits_of_numbers_that_numpy_lacks_are_integers_of_their_size():
    assert bits_of(half(1, 2)).tolist() == [0x3F80, 0x4000]
    assert numbers_of(half(1, 2)).tolist() == [1.0, 2.0]


def test_a_tensor_has_no_numbers_where_pytorch_makes_none_of_them():
    made = half(1)
    made.detach = lambda: types.SimpleNamespace(view=lambda _: on_host(np.zeros(1, "i2")))
    assert bits_of(made) is not None
    assert numbers_of(made) is None


@pytest.mark.parametrize(
    "value",
    [tensor(np.ones(2)), on_host(np.ones(2), "torch.quint8"), on_host(np.ones(2), "torch.bfloat16").detach],
    ids=["on a GPU", "quantized", "no tensor"],
)
def test_what_is_elsewhere_or_quantized_has_no_bits(value):
    assert bits_of(value) is None
    assert numbers_of(value) is None


# --- checks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make", [on_host, lambda array: on_host(array.astype(ml_dtypes.bfloat16), "torch.bfloat16")]
)
def test_tensors_on_the_host_are_compared_bit_for_bit(make):
    one, same, other = (look(make(np.array(held)), values=True) for held in ([0.0, 1], [0.0, 1], [-0.0, 1]))
    assert one.digest == same.digest != other.digest
    assert (one.opaque, one.text, other.text) == ("", "[0. 1.]", "[-0. 1.]")


def test_the_strides_of_a_tensor_are_no_part_of_its_value():
    array = np.arange(6.0).reshape(2, 3)
    one, other = (look(on_host(each), values=True) for each in (array, np.asfortranarray(array)))
    assert one == other


def test_a_tensor_elsewhere_says_which_ones_are_compared():
    found = look(tensor(np.ones(2)), values=True)
    assert found.digest == b""
    assert found.opaque.endswith("cannot be compared: only those on the CPU, neither sparse nor quantized")


def test_a_tensor_is_not_read_unless_its_value_is_asked_for(monkeypatch):
    monkeypatch.setattr(divergence, "bits_of", None)
    assert look(on_host(np.ones(2)), values=False).kind.endswith("Tensor torch.float64 (2,)")


# --- modules ---------------------------------------------------------------------------------------


class Module:
    def __init__(self, weight=None, **modules):
        self._parameters, self._buffers = {"weight": weight, "bias": None}, {"passing": 1, "mean": weight}
        self._modules = {**modules, "none": None}
        self._non_persistent_buffers_set = {"passing"}

    def __getattribute__(self, name):
        if name.startswith("_") and not name.startswith("__init"):
            raise AssertionError(name)
        return object.__getattribute__(self, name)


Module.__module__ = "torch.nn.modules.module"


class Net(Module):
    pass


def test_a_module_is_compared_by_what_is_in_its_state_dict():
    found = dict(survey("net", Net(on_host(np.ones(1)), inner=Net(on_host(np.ones(2)))), values=True))
    assert list(found) == ["net", "net.weight", "net.mean", "net.inner.weight", "net.inner.mean"]
    assert not any(part.opaque or part.unseen for part in found.values())
    assert found["net.inner.weight"].shape == (2,)


@pytest.mark.parametrize("hidden", ["_parameters", "_modules"])
def test_a_module_that_keeps_its_parameters_elsewhere_is_not_looked_into(hidden):
    net, inner = Net(), Net()
    vars_of(inner)[hidden] = None
    vars_of(net)["_modules"]["inner"] = inner
    assert look(net, values=True).opaque.endswith("Net cannot be compared")


def test_a_module_that_contains_itself_is_not_looked_into():
    net = Net()
    vars_of(net)["_modules"]["inner"] = net
    assert look(net, values=True).opaque.endswith("Net cannot be compared")


def vars_of(module):
    return object.__getattribute__(module, "__dict__")


# --- values of cells -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrap", [lambda t: t, lambda t: [t, {"a": t}], Held], ids=["alone", "in a list", "in an object"]
)
def test_equal_tensors_have_equal_fingerprints(wrap):
    one, same, other = (fingerprint(wrap(half(*numbers))) for numbers in ([1, 2], [1, 2], [1, 3]))
    assert one == same != other


def test_tensors_that_show_a_history_differ_from_those_that_have_none():
    assert fingerprint(parameter(np.ones(2))) != fingerprint(on_host(np.ones(2)))


def test_a_tensor_elsewhere_counts_as_its_library_pickles_it(monkeypatch):
    monkeypatch.setattr(type(tensor(0)), "__reduce_ex__", lambda *_: (list, ()))
    assert fingerprint(tensor(np.ones(2))) == fingerprint(tensor(np.zeros(2)))


# --- collectives -----------------------------------------------------------------------------------


def test_a_tensor_is_read_as_its_own_memory():
    array = np.ones(2)
    assert np.shares_memory(read_array("send", on_host(array)), array)


def test_numbers_that_numpy_lacks_are_read_as_ml_dtypes_has_them():
    found = array_of(half(1, 2))
    assert found.dtype == ml_dtypes.bfloat16
    assert found.tolist() == [1.0, 2.0]


def test_without_ml_dtypes_they_are_refused_with_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(
        UsageMistake, match=r"send: Tensor cannot be .*NumPy has no torch.bfloat16 - use .float\(\)"
    ):
        read_array("send", half(1))


def test_what_pytorch_lends_to_nobody_is_refused_in_its_words():
    made = on_host(np.ones(2), "torch.qint8")

    def numpy(**_):
        raise TypeError("cannot be lent")

    made.numpy = numpy
    with pytest.raises(UsageMistake, match="cannot be lent"):
        array_of(made)


def test_a_tensor_that_requires_grad_is_refused_with_what_to_do():
    with pytest.raises(UsageMistake, match=r"allreduce: nothing can be .* requires grad - use .detach\(\)"):
        read_out("allreduce", parameter(np.ones(2)), HOST_PLACE)


@pytest.mark.parametrize("kind", ["alltoall", "reduce_scatter", "send"])
def test_a_collective_that_needs_a_gradient_is_told_where_to_be_called(kind):
    # After `.detach()` alone a model trains on without a word, but not what is in front of the collective.
    with pytest.raises(UsageMistake, match=rf"^{kind}: .*\.detach\(\).*has to come back, call it in"):
        read_array(kind, parameter(np.ones(2)))


def test_where_no_gradients_are_recorded_it_is_taken(torch):
    array = np.ones(2)
    sys.modules["torch"].is_grad_enabled = lambda: False
    assert np.shares_memory(array_of(parameter(array)), array)
    assert np.shares_memory(read_out("allreduce", parameter(array), HOST_PLACE), array)


@pytest.mark.parametrize("out", [3, "no", tensor(np.ones(2))], ids=["number", "text", "on a GPU"])
def test_what_is_no_tensor_on_the_host_is_left_to_the_plane(out):
    assert read_out("allreduce", out, HOST_PLACE) is out


def test_numbers_that_numpy_lacks_have_statistics_too():
    made = half(1, 2, 3)
    assert (describe(made).minimum, describe(made).mean, describe(made).maximum) == (1, 2, 3)
    made.requires_grad = True
    assert describe(made).mean == 2


# --- tensors on a mesh -----------------------------------------------------------------------------


def test_of_a_tensor_on_a_mesh_the_workers_part_is_described():
    info = describe(Split([[1, 2], [3, 6]], (4, 2), "S(0)", "R"))
    assert info.type == "DTensor(4\u00d72, S(0), R)"
    assert (info.shape, info.dtype, info.nbytes, info.device) == ((2, 2), "torch.float32", 16, "cpu")
    assert (info.minimum, info.mean, info.maximum) == (1, 3, 6)
    assert statistics_of(Split([1, 5], (4,), "S(0)")).maximum == 5


def test_in_a_container_it_counts_with_its_part():
    held = [Split([1, np.nan], (8,), "S(0)")]
    assert nbytes_of(held) == 8
    assert describe(held).nans == 1


def test_containers_do_not_differ_by_which_parts_of_tensors_a_worker_has():
    def holding(part, *placements, bias=0.0, **also):
        weight = Split(part, (4,), *placements, **also)
        return describe({"weight": weight, "bias": np.full(2, bias)}).fingerprint

    assert holding([1, 2], "S(0)") == holding([3, 4], "S(0)") != b""
    assert holding([1, 2], "S(0)") != holding([3, 4], "S(0)", dtype="f8")
    assert holding([1, 2], "S(0)") != holding([1, 2], "S(0)", bias=1.0)
    assert holding([1, 2], "S(0)") != holding([1, 2], "R", "S(0)")
    assert holding([1, 2], "R") != holding([3, 4], "R")  # all have all of it, and should have the same


def test_checks_compare_parts_and_how_they_are_split():
    one, same = (look(Split([1, 2], (4,), "S(0)"), values=True) for _ in range(2))
    assert one == same
    assert (one.type, one.shape, one.opaque) == ("torch.DTensor(4, S(0))", (2,), "")
    assert look(Split([1, 3], (4,), "S(0)"), values=True).digest != one.digest
    assert look(Split([1, 2], (2,), "R"), values=True).type != one.type


def test_checks_are_told_which_part_of_it_a_worker_has():
    def part(*placements, **mesh):
        return look(Split([1, 2], (4,), *placements, mesh=Mesh(**mesh) if mesh else None), values=False).shard

    assert part("R") == part("R", "R") == ""
    assert part("S(0)") == "axis 0=0"
    assert part("R", "S(0)", at=[1, 3]) == "axis 1=3"
    assert part("R", "S(0)", at=[1, 3], names=("dp", "tp")) == "tp=3"
    assert part("P(sum)", "S(0)", at=[1, 3], names=("dp", "tp")) == "dp=1, tp=3"
    assert part("S(0)", at=None, names=("dp",)) == "outside of the mesh"
    assert look(np.ones(3), values=False).shard is None


def test_a_look_says_which_part_of_it_a_worker_has():
    def part(*placements, **mesh):
        return describe(Split([1, 2], (4,), *placements, mesh=Mesh(**mesh) if mesh else None)).part

    assert part("S(0)", at=[0]) == part("S(0)", at=[0]) != part("S(0)", at=[1])
    assert part("R", "S(0)", at=[0, 1]) == part("R", "S(0)", at=[1, 1]) != ()
    assert describe(np.ones(3)).part == ()


@pytest.mark.parametrize(
    ("split", "digested"),
    [
        (Split([1, 2], (2,), "R"), True),
        (Split([1, 2], (4,), "R", "S(0)"), True),
        (Split([1, 2], (4,), "S(0)"), False),
        (Split([1, 2], (4,), "R", "S(0)", mesh=Mesh([0, 0], sizes=[1, 2])), False),
    ],
)
def test_those_that_several_workers_have_alike_are_looked_at_by_value_without_being_asked(split, digested):
    looked = survey("w", {"a": split, "b": np.ones(2)}, values=False, replicas=True)
    assert [bool(held.digest) for _, held in looked] == [False, digested, False]
    assert not any(held.digest for _, held in survey("w", [split], values=False))


def test_the_worker_s_own_gpu_is_the_same_device_on_all_workers(monkeypatch):
    @dataclass
    class OfTorch:
        index: int

        def __repr__(self):
            return f"cuda:{self.index}"

    OfTorch.__module__, OfTorch.__qualname__, OfTorch.__name__ = "torch", "device", "device"
    monkeypatch.setattr(sys.modules["torch"], "device", OfTorch, raising=False)
    first, second, elsewhere = (
        survey("at", OfTorch(index), values=True, own=Device("cuda", own))[0][1]
        for index, own in ((0, 0), (1, 1), (0, 1))
    )
    assert first == second
    assert first.digest != elsewhere.digest
