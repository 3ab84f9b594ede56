"""What is looked at where a path ends with an index of an array."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.values.subscripts import NOTHING, has_part, on_part, on_parts, seen_at
from tests.doubles.arrays import jax_array, tensor
from tests.values.values import Touchy

CUBE = np.arange(24).reshape(2, 3, 4)
TREE = {"w": CUBE, 0: [CUBE]}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("['w'][0]", CUBE[0]),
        ("['w'][0,1]", CUBE[0, 1]),
        ("['w'][(0, 1)]", CUBE[0, 1]),
        ("['w'][0][1:]", CUBE[0, 1:]),
        ("['w'][..., ::2]", CUBE[..., ::2]),
        ("['w'][-1, None]", CUBE[-1, None]),
        ("[0][0][1]", CUBE[1]),
    ],
)
def test_numbers_and_slices_select_a_view_of_an_array(written, expected):
    seen = seen_at(TREE, written)
    assert np.array_equal(seen, expected)
    assert seen.base is CUBE or np.shares_memory(seen, CUBE)
    assert has_part(TREE, written)


def test_all_numbers_select_an_element():
    assert seen_at(TREE, "['w'][1,2,3]") == 23


@pytest.mark.parametrize(
    "written",
    [
        "['w'][2]",
        "['w'][0,0,0,0]",
        "['w'][[0, 1]]",
        "['w'][True]",
        "['w'][i]",
        "['w'][0:]x",
        "['w'][0.5]",
        "['w'][:,]]",
    ],
)
def test_what_selects_nothing_or_a_copy_is_nothing(written):
    assert seen_at(TREE, written) is NOTHING


@pytest.mark.parametrize(
    "value",
    ["text", [1, 2, 3], np.ma.masked_array([1, 2]), jax_array(np.ones(2))],
    ids=["text", "list", "masked", "JAX"],
)
def test_of_other_values_no_slices_are_taken(value):
    assert seen_at(value, "[0:1]") is NOTHING


class Indexed(Touchy):
    __getitem__ = Touchy._no


def test_no_code_of_a_value_runs():
    assert seen_at(Indexed(), "[0]") is NOTHING
    # An array of objects has views, but what is in it need have none.
    objects = np.empty(2, object)
    objects[0] = inner = Indexed()
    assert seen_at(objects, "[0]") is inner
    assert seen_at(objects, "[0:1][0][0]") is NOTHING


def test_of_a_tensor_what_has_no_history_is_indexed():
    made = tensor(np.arange(4), device="cpu")
    made.detach = lambda: np.arange(4) * 10
    assert seen_at(made, "[1:3]").tolist() == [10, 20]


def test_of_a_sparse_tensor_nothing_is_computed():
    made = tensor(np.arange(4), device="cpu")
    made.layout = "torch.sparse_coo"
    made.detach = lambda: made
    assert seen_at(made, "[1]") is NOTHING


def test_arrays_on_a_gpu_are_indexed_there():
    kind = type("ndarray", (), {"__module__": "cupy", "__getitem__": lambda _, index: index})
    assert seen_at(kind(), "[1:2,...]") == (slice(1, 2), ...)


def test_functions_are_called_with_what_is_selected():
    first, second = {"a": np.arange(3)}, {"a": np.arange(3) * 10}
    assert on_part("['a'][2]", float, first) == 2.0
    assert on_parts("['a'][1]", lambda *given: given, first, second) == (1, 10)
    assert on_part("['a'][3]", float, first) is None
