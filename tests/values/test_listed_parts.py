"""What is in a value, part by part."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

from disco_magic.values.parts import MOST_PARTS, describe_parts, list_parts


class Pair(NamedTuple):
    a: int
    b: np.ndarray


@dataclass
class Config:
    lr: float
    layers: list


class NoCode:
    """Of a library's class, as far as can be told."""

    __slots__ = ("x",)

    def __repr__(self):
        raise AssertionError("no code of it is to run")


def paths(value):
    return list(list_parts(value).parts)


def described(value):
    """Part -> what is said of it."""
    names = list(list_parts(value).parts)
    return dict(zip(names, describe_parts(value, names, 100), strict=True))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, []),
        (np.ones(3), []),
        ([1, 2], []),
        ({}, []),
        ({"a": np.ones(2), "b": 1}, ["['a']", "['b']"]),
        ([np.ones(2), 1], ["[0]", "[1]"]),
        ({"a": {}, "b": [], "c": 1}, ["['a']", "['b']", "['c']"]),
        ([np.ones(2), [1, 2], (3, 4), []], ["[0]", "[1]", "[2]", "[3]"]),
        ({"losses": [0.1] * 9, "seen": {1, 2}, "pairs": {(1, 2)}}, ["['losses']", "['seen']", "['pairs']"]),
        (Pair(1, np.ones(2)), [".a", ".b"]),
        (Config(0.1, [np.ones(2), {"w": np.ones(2)}]), [".lr", ".layers[0]", ".layers[1]['w']"]),
        (OrderedDict(a=np.ones(1), b={"c": deque([1])}), ["['a']", "['b']['c'][0]"]),
        ({"o": NoCode(), "f": len}, ["['o']", "['f']"]),
        ({object(): 1, 2: 3}, []),
        ({"d": {object(): 1}}, ["['d']"]),
    ],
)
def test_parts_are_listed_in_their_order(value, expected):
    assert paths(value) == expected


def test_each_part_is_described():
    found = described({"w": np.array([1.0, np.nan, 3.0]), "lr": 0.1})
    assert (found["['w']"].mean, found["['w']"].nans, found["['lr']"].text) == (2.0, 1, "0.1")
    without = list_parts({"w": np.ones(3)}).parts["['w']"]
    assert (without.kind, without.mean, without.fingerprint) == ("float64 3", None, b"")


@pytest.mark.parametrize("part", [np.ones(1), 1.0, {"w": np.ones(1)}])
def test_so_many_are_listed_and_it_is_said_whether_there_are_more(part):
    for count, is_all in [(MOST_PARTS, True), (MOST_PARTS + 1, False)]:
        found = list_parts(dict.fromkeys(range(count), part))
        assert (len(found.parts), found.is_all) == (MOST_PARTS, is_all)


def test_what_contains_itself_is_not_listed_in_itself():
    value = {"a": np.ones(2)}
    value["me"], value["b"] = value, [value, 1]
    assert paths(value) == ["['a']", "['b'][1]"]


def test_what_lies_very_deep_is_listed_as_one():
    value = np.ones(2)
    for _ in range(10):
        value = {"d": value}
    assert paths(value) == ["['d']" * 8]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_of_data_frames_are_parts(library):
    frames = pytest.importorskip(library)
    frame = frames.DataFrame({"n": [1, 2, 6], "x": [1.0, float("nan"), 3.0], "t": ["a", "b", "c"]})
    found = described({"d": frame})
    numbers, floats, text = (found[f"['d']['{name}']"] for name in "nxt")
    assert (numbers.type, numbers.shape, numbers.mean, numbers.nbytes) == ("column", (3,), 3.0, 24)
    assert (floats.mean, floats.nans, bool(floats.fingerprint)) == (2.0, 1, True)
    assert (text.kind.partition(" ")[0], text.shape, text.mean) == ("column", (3,), None)
    assert text.fingerprint


def test_columns_with_gaps_and_of_extensions_have_no_statistics():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"i": pandas.array([1, None], dtype="Int64"), "o": [object(), 1]})
    assert [info.mean for info in described(frame).values()] == [None, None]
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"i": [1, None], "l": [[1], [2]], "d": [1.5, 2.5]})
    assert [info.mean for info in described(frame).values()] == [None, None, 2.0]
