"""The memory of PyTorch's tensors as arrays, on stand-ins for them."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from disco_magic.errors import UsageMistake
from disco_magic.functions.process_groups.memory import flat, near, written
from tests.doubles.arrays import tensor, torch


def on_host(array, **more):
    return tensor(array, device="cpu", **more)


def test_a_tensor_is_seen_as_its_own_memory_of_any_strides():
    for array in (
        np.arange(6.0),
        np.arange(12)[::2],
        np.arange(6, dtype="i2").reshape(2, 3).T,
        np.array(1.5),
    ):
        mine = on_host(array)
        seen = near(mine)
        assert np.shares_memory(seen, array)
        assert seen.dtype == array.dtype
        assert seen.tolist() == array.tolist()
        with written(mine) as target:
            target[...] = 7
        assert (array == 7).all()
        assert flat(mine).shape == (array.size,)


def test_an_empty_one_has_no_memory_to_be_seen():
    assert near(on_host(np.empty((0, 3), "f4"))).shape == (0, 3)


def test_what_numpy_lacks_is_moved_as_integers_and_not_computed_with():
    halves = on_host(np.arange(4, dtype="i2"), dtype="torch.bits16")
    assert near(halves, bits=True).tolist() == [0, 1, 2, 3]
    assert near(on_host(np.empty(0, "i2"), dtype="torch.bits16"), bits=True).dtype == np.int16
    with pytest.raises(UsageMistake, match=r"NumPy has no torch.bits16 to compute with - use .float()"):
        near(halves)


def test_what_ml_dtypes_has_is_computed_with():
    kinds = pytest.importorskip("ml_dtypes")
    ones = np.ones(3, kinds.bfloat16)
    seen = near(on_host(ones.view("i2"), dtype="torch.bfloat16"))
    assert seen.dtype == kinds.bfloat16
    assert seen.tolist() == [1, 1, 1]


def test_what_is_elsewhere_is_left_to_the_worker(monkeypatch):
    there = tensor(np.ones(3))
    assert near(there)._array is near(there, bits=True)._array is there._array
    monkeypatch.setitem(sys.modules, "torch", torch())
    halves = tensor(np.arange(3, dtype="i2"), "torch.bfloat16")
    assert near(halves).dtype == "torch.bfloat16"
    assert near(halves, bits=True).dtype == "torch.int16"


def test_what_stands_for_a_tensor_that_is_still_to_come_is_waited_for():
    class Coming(type(on_host(np.ones(1)))):
        def trigger_wait(self):
            return on_host(self._array)

    there = np.ones(2)
    assert np.shares_memory(near(Coming(there, "torch.float64", "cpu")), there)


@pytest.mark.parametrize(
    ("name", "instead"),
    [("data_ptr", lambda: 0), ("untyped_storage", lambda: SimpleNamespace(nbytes=lambda: 0))],
)
def test_what_has_no_memory_of_its_own_is_refused(name, instead):
    empty = on_host(np.ones(3))
    setattr(empty, name, instead)
    empty.detach = lambda: empty
    with pytest.raises(UsageMistake, match="this Tensor has no memory of its own, or has given it back - "):
        near(empty)


@pytest.mark.parametrize(
    ("layout", "negated", "said"),
    [
        (
            "torch.sparse_coo",
            False,
            r"a sparse tensor .* - use x.to_dense\(\); .* nn.Embedding needs sparse=False",
        ),
        (
            "torch.strided",
            True,
            r"conjugated or negated as it is read .* - use x.resolve_conj\(\) or x.resolve_neg",
        ),
    ],
)
def test_what_is_sparse_or_changed_as_it_is_read_is_refused_and_says_what_to_do(layout, negated, said):
    other = on_host(np.ones(3))
    other.detach = lambda: SimpleNamespace(
        device="cpu", layout=layout, is_conj=lambda: False, is_neg=lambda: negated
    )
    with pytest.raises(UsageMistake, match=said):
        near(other)
