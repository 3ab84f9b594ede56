"""Which names a cell has bound."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from disco_magic.functions.execution.bindings import Watch, deleted_names, loop_names, stored_names
from disco_magic.functions.execution.cells import compile_cell


def codes(source):
    return compile_cell(source).codes


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("a = 1; b += 1; c[0] = 1; d.e = 1", {"a", "b"}),
        ("import os, sys as s; from math import pi", {"os", "s", "pi"}),
        ("for i in []: pass\nwith f() as g: pass", {"i", "g"}),
        ("del x", {"x"}),
        (
            "def f():\n    global g\n    g = local = 1\n    def h():\n        global k\n        del k",
            {"f", "g", "k"},
        ),
        ("class A:\n    x = 1", {"A"}),
        ("[y := n for n in range(3)]", {"y"}),
    ],
)
def test_the_code_says_which_names_a_cell_binds(source, names):
    assert set().union(*map(stored_names, codes(source))) == names


def test_names_that_code_unbinds_are_found():
    assert deleted_names(*codes("a = 1; del b, c[0]")) == {"b"}
    assert deleted_names(*codes("a = 1")) == set()


def bound(before, after, source="0"):
    namespace = dict(before)
    watch = Watch(namespace)
    namespace.clear()
    namespace.update(after)
    return watch.bound(codes(source))


def test_names_that_hold_another_object_than_before_were_bound():
    one, other = np.zeros(2), np.zeros(2)
    assert bound({"a": one, "b": one}, {"a": one, "b": other, "c": 1}) == {"b", "c"}
    assert bound({"a": one, "n": None}, {"n": None}) == {"a"}
    assert bound({"_a": 1}, {"_a": 2}) == frozenset()


def test_an_array_that_became_none_was_bound():
    namespace = {"a": np.zeros(2)}
    watch = Watch(namespace)
    namespace["a"] = None
    assert watch.bound(()) == {"a"}


def test_names_that_the_code_stores_were_bound_also_with_the_object_of_before():
    assert bound({"a": 1, "b": 1}, {"a": 1, "b": 1}, "a = 1; gone = 1; del gone") == {"a"}


def test_arrays_that_a_cell_replaces_are_not_kept_alive():
    namespace = {"a": np.zeros(2)}
    seen = weakref.ref(namespace["a"])
    watch = Watch(namespace)
    namespace["a"] = 1
    gc.collect()
    assert seen() is None
    assert watch.bound(()) == {"a"}


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("for a in x: pass", {"a"}),
        ("for a, (b, c) in x: d = 1", {"a", "b", "c"}),
        ("for a in x:\n    for b in a: c = 1", {"a", "b"}),
        ("for x[0] in y: z = 1", set()),
        ("for a.b in y: z = 1", set()),
        ("[a for a in x]; b = 1", set()),
        ("while x: a = 1", set()),
        ("def f():\n    for a in x: pass", set()),
        ("def f():\n    global a\n    for a in x: pass\nf()", set()),
        ("\n".join(f"n{i} = {i}.5" for i in range(300)) + "\nfor late in x: pass", {"late"}),
    ],
)
def test_the_code_says_which_names_are_variables_of_its_loops(source, names):
    assert set().union(*map(loop_names, codes(source))) - {".0"} == names
