"""Parts of values by what is written behind a name."""

from __future__ import annotations

import pickle
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest

from disco_magic.values.parts import (
    MOST_ARRAYS,
    NOTHING,
    arrays_in,
    part_at,
    split,
)
from disco_magic.values.subscripts import has_part, on_part, on_parts
from tests.doubles.arrays import cupy_array, jax_array, tensor
from tests.values.values import Touchy, net


class Pair(NamedTuple):
    left: object
    right: object


ARRAY = np.arange(3)
TREE = {
    "w": ARRAY,
    3: [ARRAY, (4, "text", Pair(ARRAY, {"deep": 5}))],
    "none": None,
    '["w"]': 6,
    'it\'s["w"]': 7,
}


@pytest.mark.parametrize(
    ("label", "parts"),
    [
        ("x", ("x", "")),
        ("#5", ("#5", "")),
        ("#5.0.weight", ("#5", ".0.weight")),
        ("p['a.b'][0]", ("p", "['a.b'][0]")),
        ("m.a['b']", ("m", ".a['b']")),
        ("", ("", "")),
    ],
)
def test_a_label_is_a_register_and_what_is_written_behind(label, parts):
    assert split(label) == parts


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("", TREE),
        ("['w']", ARRAY),
        ('["w"]', ARRAY),
        ("[3][0]", ARRAY),
        ("[3][1][0]", 4),
        ("[3][1][1]", "text"),
        ("[3][1][2].left", ARRAY),
        ("[3][1][2].right['deep']", 5),
        ("""['["w"]']""", 6),
        (r"""["[\"w\"]"]""", 6),
        (r"""['it\'s["w"]']""", 7),
    ],
)
def test_what_is_written_leads_to_the_part(written, expected):
    assert part_at(TREE, written) is expected
    assert has_part(TREE, written)


@pytest.mark.parametrize(
    "written", ["['v']", "[0]", ".w", "['w'][9]", "['w']x", "[3][1][2]", "x", "[3][1][2].middle"]
)
def test_what_leads_nowhere_is_nothing(written):
    tree = TREE if written != "[3][1][2]" else {3: [0]}
    assert part_at(tree, written) is NOTHING
    assert not has_part(tree, written)


def test_a_module_s_parts_are_called_as_in_its_state_dict_or_as_in_python():
    module = net()
    weight = module._modules["0"]._parameters["weight"]
    assert part_at(module, ".0.weight") is part_at(module, "[0].weight") is weight
    assert part_at(module, ".0") is part_at(module, "[0]") is module._modules["0"]
    assert part_at(module, ".0.bias") is part_at(module, ".1") is part_at(module, "0") is NOTHING
    assert part_at([module], "[0].out") is module._modules["out"]
    assert part_at([module, module], "[1].0.weight") is part_at([module, module], "[1][0].weight") is weight
    assert part_at({"x.0": ARRAY}, "['x[0]']") is part_at([module], ".0[0].weight") is NOTHING
    assert part_at({"net": module}, "['net'].out.weight") is module._modules["out"]._parameters["weight"]


def test_the_first_names_are_no_others_beginning():
    assert part_at({"a": 1, "ab": 2}, "['ab']") == 2
    assert part_at([*range(11)], "[10]") == 10
    assert part_at(net(), ".out.weight") is not NOTHING


def test_arrays_of_all_libraries_are_listed_in_order():
    held = [
        ARRAY,
        {"t": tensor(np.ones((2, 3))), "n": 1},
        cupy_array(np.ones(2)),
        jax_array(np.ones(1)),
        "text",
    ]
    assert [tuple(part) for part in arrays_in(held)] == [
        ("[0]", "int64 3"),
        ("[1]['t']", "Tensor torch.float64 2\u00d73"),
        ("[2]", "float64 2"),
        ("[3]", "ArrayImpl float64 1"),
    ]


def test_what_holds_none_has_an_empty_list():
    for value in (ARRAY, 1, "text", None, Touchy(), [1, 2], {}):
        assert arrays_in(value) == []


def test_of_many_the_first_are_listed():
    assert [part.written for part in arrays_in([ARRAY] * 999)] == [f"[{i}]" for i in range(MOST_ARRAYS)]


def test_one_that_contains_itself_comes_to_an_end():
    held = [ARRAY]
    held.append(held)
    assert arrays_in(held)[0].written == "[0]"
    assert part_at(held, "[1][1][1][0]") is ARRAY


def test_functions_are_called_with_parts_and_travel():
    first, second = {"a": [1]}, {"a": [2]}
    assert pickle.loads(pickle.dumps(partial(on_part, "['a']", len)))(first) == 1  # noqa: S301 - our own
    assert on_part("['a'][0]", lambda *given: given, first, "more") == (1, "more")
    assert on_parts("['a'][0]", lambda *given: given, first, second, "more") == (1, 2, "more")
    assert on_part("['b']", len, first) is None
    assert on_parts("['b']", lambda *given: given, {"b": 1}, second) is None
