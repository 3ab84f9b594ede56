"""What is in a value, part by part."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

from disco_magic.functions.insides import MOST, describe_inside


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
    return [path for path, _ in describe_inside(value, 100)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, []),
        (np.ones(3), []),
        ([1, 2], []),
        ({}, []),
        ({"a": np.ones(2), "b": 1}, ["['b']", "['a']"]),
        ([np.ones(2), 1], ["[1]", "[0]"]),
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
def test_what_has_no_parts_is_listed_in_its_order(value, expected):
    assert paths(value) == expected


def test_each_part_is_described():
    found = dict(describe_inside({"w": np.array([1.0, np.nan, 3.0]), "lr": 0.1}, 100))
    assert (found["['w']"].mean, found["['w']"].nans, found["['lr']"].text) == (2.0, 1, "0.1")
    without = dict(describe_inside({"w": np.ones(3)}, 0))["['w']"]
    assert (without.kind, without.mean, without.fingerprint) == ("float64 3", None, b"")


def test_so_many_are_listed_and_no_more():
    assert len(paths({n: np.ones(1) for n in range(MOST + 5)})) == MOST
    assert len(paths(dict.fromkeys(range(MOST + 5), 1.0))) == MOST


def test_what_contains_itself_comes_to_an_end():
    value = {"a": np.ones(2)}
    value["me"] = value
    assert paths(value)[0] == "['a']"


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_of_data_frames_are_parts(library):
    frames = pytest.importorskip(library)
    frame = frames.DataFrame({"n": [1, 2, 6], "x": [1.0, float("nan"), 3.0], "t": ["a", "b", "c"]})
    found = dict(describe_inside({"d": frame}, 100))
    numbers, floats, text = (found[f"['d']['{name}']"] for name in "nxt")
    assert (numbers.type, numbers.shape, numbers.mean, numbers.nbytes) == ("column", (3,), 3.0, 24)
    assert (floats.mean, floats.nans, bool(floats.fingerprint)) == (2.0, 1, True)
    assert (text.kind.partition(" ")[0], text.shape, text.mean, text.fingerprint) == (
        "column",
        (3,),
        None,
        b"",
    )


def test_columns_with_gaps_and_of_extensions_have_no_statistics():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"i": pandas.array([1, None], dtype="Int64"), "o": [object(), 1]})
    assert [info.mean for _, info in describe_inside(frame, 100)] == [None, None]
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"i": [1, None], "l": [[1], [2]], "d": [1.5, 2.5]})
    assert [info.mean for _, info in describe_inside(frame, 100)] == [None, None, 2.0]
