"""Shard info: which functions cut a parameter, where they are found, and what is a mistake."""

from __future__ import annotations

import json
import types

import numpy as np
import pytest

import disco_magic as disco
from disco_magic.errors import UnknownName, UsageMistake
from disco_magic.functions.modules import Module
from disco_magic.loader.shard_info import read_shard_info


@pytest.fixture(autouse=True)
def registered():
    """A shard function that every session knows."""
    disco.register_func("test.rows", rows, override=True)
    yield
    disco.remove_func("test.rows")


def rows(whole, parts, out):
    out[:] = whole.reshape(parts, -1, whole.shape[1])


def doubled(whole, out):
    out[:] = 2 * whole


def read(info, module=None, count=2):
    text = info if isinstance(info, str) else json.dumps(info)
    return read_shard_info(text, module, ["p", "q"], count)


def test_steps_are_called_with_input_numbers_and_output():
    (step,) = read({"p": [["test.rows", [[2, 1, 3], "float32"], 2]]})["p"]
    assert (step.name, step.numbers, step.shape, step.dtype) == ("test.rows", (2,), (2, 1, 3), np.dtype("f4"))
    out = np.empty(step.shape, step.dtype)
    assert step.apply(np.arange(6, dtype="f4").reshape(2, 3), out) is out
    assert out.tolist() == [[[0, 1, 2]], [[3, 4, 5]]]


class Loaded(Module):
    """A module as `load_vm_module` makes it."""

    def find(self, name, *, imports=True):
        return {"double": doubled}.get(name)

    def function_names(self):
        return ["double"]


@pytest.mark.parametrize(
    "module",
    [types.SimpleNamespace(double=doubled), {"double": doubled}, Loaded("x")],
    ids=["python", "mapping", "loaded"],
)
def test_functions_are_looked_for_in_the_module_first(module):
    steps = read({"p": [["double", [[2, 3], "float32"]], ["test.rows", [[2, 1, 3], "float32"], 2]]}, module)[
        "p"
    ]
    assert [step.function for step in steps] == [doubled, rows]


def test_without_text_the_module_is_asked():
    info = json.dumps({"p": [["test.rows", [[2, 1, 3], "float32"], 2]]})
    assert list(read("", types.SimpleNamespace(get_shard_info=lambda: info))) == ["p"]
    assert read("", types.SimpleNamespace(get_shard_info="no function")) == {}
    assert read("") == {}


def test_a_parameter_without_functions_is_not_cut():
    assert read({"p": []}) == {"p": ()}


STEP = ["test.rows", [[2, 1, 3], "float32"], 2]


@pytest.mark.parametrize(
    ("info", "words"),
    [
        ("[", "shard info is not valid JSON"),
        ({"r": [STEP]}, r"shard info: there is no parameter 'r'$"),
        ({"pp": [STEP]}, r"there is no parameter 'pp'; did you mean 'p'\?"),
        ({"p": STEP[0]}, "shard info: 'p' is text, expected a list"),
        ({"p": ["test.rows"]}, "shard info: 'p': a function is text, expected a list"),
        (
            {"p": [["test.rows", [[2, 2**62, 9], "float32"], 2]]},
            "'test.rows': there is no array of shape .*: it takes 2.6. bytes",
        ),
        ({"p": [["test.rows"]]}, r"a function is \['test.rows'\], expected \[name, \[shape, dtype\]"),
        ({"p": [["test.rows", 3]]}, "expected \\[name"),
        ({"p": [["test.rows", [[2]]]]}, "expected \\[name"),
        ({"p": [["test.rows", [[2], 3]]]}, "expected \\[name"),
        ({"p": [[3, [[2], "float32"]]]}, "expected \\[name"),
        ({"p": [[*STEP[:2], 0.5]]}, "function 'test.rows': an argument is 0.5, expected a whole number"),
        ({"p": [[*STEP[:2], True]]}, "an argument is True, expected a whole number"),
        ({"p": [["test.rows", [2, "float32"]]]}, "the output's shape is 2, expected a list"),
        ({"p": [["test.rows", [[2, -1], "float32"]]]}, "the output's shape is -1, expected a whole number"),
        ({"p": [["test.rows", [[2], "float7"]]]}, "function 'test.rows': the dtype is 'float7'"),
        (
            {"p": [["test.rows", [[3, 1], "float32"]]]},
            r"has shape \[3, 1\], expected a first axis of 2, one part per",
        ),
        ({"p": [["test.rows", [[], "float32"]]]}, r"has shape \[\], expected a first axis of 2"),
    ],
    ids=range(18),
)
def test_a_mistake_is_refused(info, words):
    with pytest.raises(UsageMistake, match=words):
        read(info)


@pytest.mark.parametrize("module", [None, types.SimpleNamespace(rws=3)])
def test_a_function_that_is_nowhere_is_refused_with_near_misses(module):
    with pytest.raises(UnknownName, match=r"'test\.rws'; did you mean 'test\.rows'"):
        read({"p": [["test.rws", [[2, 1, 3], "float32"], 2]]}, module)
