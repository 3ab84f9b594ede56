"""Rows about what travels as an argument, at what cost, and what is refused before anything is sent."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest

import disco_magic as disco
from tests.surface.conftest import give, unchanged_by, who


@dataclass
class Point:
    """Something a user defined; it notes every copy that is made of it."""

    x: int
    copies: list[None] = field(default_factory=list)

    def __deepcopy__(self, memo):
        self.copies.append(None)
        return Point(self.x, self.copies)


PLAIN = {
    "None": None,
    "bool": True,
    "int": 7,
    "int of 64 bits": -(2**63),
    "larger int": 2**100,
    "float": 0.1,
    "infinity": float("-inf"),
    "complex": 1j,
    "str": "Größe \N{SNOWMAN}",
    "bytes": b"\x00\xff",
    "dtype": np.dtype("float16"),
    "Shape": (2, 3, 4),
    "tuple": (1, (2.5, "a")),
    "list": [1, [2, None]],
    "dict": {"a": [1], 2: {3}},
    "numpy number": np.float32(1.5),
    "class": dict,
    "picklable object": Fraction(1, 3),
}


@pytest.mark.parametrize("way", ["positional", "keyword"])
@pytest.mark.parametrize("kind", PLAIN)
def test_argument_types(session, kind, way):
    s = session(2)
    value = PLAIN[kind]
    ref = (
        s.call_packed(lambda x: (x, type(x)), value) if way == "positional" else s.call_packed(give, x=value)
    )
    expected = (value, type(value)) if way == "positional" else ((), {"x": value})
    assert ref.get_all() == [expected, expected]


@pytest.mark.parametrize("dtype", ["float64", "int8", "bool", "complex64", "U3", "datetime64[s]"])
def test_argument_types_arrays(session, dtype):
    s = session(2)
    host = np.arange(6).astype(dtype).reshape(2, 3)
    for value in s.call_packed(lambda x: x, host).get_all():
        assert value.dtype == host.dtype
        assert value.tolist() == host.tolist()


def test_argument_types_dref(session):
    s = session(3)
    ref = s.call_packed(who)
    assert s.call_packed(give, ref, ref, key=ref).get(2) == ((2, 2), {"key": 2})


def test_argument_types_picklable_objects(session):
    s = session(2)
    mine = Point(1)
    ref = s.call_packed(lambda p: setattr(p, "x", p.x + who()) or p, mine)
    assert [p.x for p in ref.get_all()] == [1, 2]
    assert mine.x == 1


def test_argument_types_plain_ones_are_handed_over_without_a_copy(session):
    s = session(3)
    text = "x" * 100
    assert s.call_packed(lambda x: x is text, text).get_all() == [True] * 3


def test_argument_types_others_are_copied_once_here_and_once_per_worker(session):
    s = session(3)
    mine = Point(1)
    s.call_packed(lambda p: p.x, mine)
    s.sync_all()
    assert len(mine.copies) == 1 + 3


@pytest.mark.parametrize("make", [lambda: np.zeros(3), lambda: [0, 0, 0]], ids=["array", "list"])
def test_argument_types_are_values_the_caller_may_reuse_at_once(session, gate, make):
    s = session(2)
    s.call_packed(gate)
    gate.arrived(2)
    mine = make()
    ref = s.call_packed(lambda x: x, mine)
    mine[0] = 7
    gate.open()
    assert [list(value) for value in ref.get_all()] == [[0, 0, 0]] * 2


def test_argument_types_are_every_workers_own(session):
    s = session(2)
    lists = s.call_packed(lambda x: x.append(who()) or x, [])
    arrays = s.call_packed(lambda x: x.__iadd__(who()), np.zeros(2))
    assert lists.get_all() == [[0], [1]]
    assert [x.tolist() for x in arrays.get_all()] == [[0, 0], [1, 1]]


def cannot_travel():
    return {
        "lock": threading.Lock(),
        "generator": (step for step in range(2)),
        "lock inside of a list": [threading.Lock()],
        "lock inside of an object": Point(threading.Lock()).__dict__,
    }


@pytest.mark.parametrize("way", ["positional", "keyword", "debug_copy_from"])
@pytest.mark.parametrize("kind", cannot_travel())
def test_argument_types_that_cannot_travel_are_refused_before_anything_is_sent(session, kind, way):
    s = session(2)
    value, ref = cannot_travel()[kind], s.call_packed(who)
    ways = {
        "positional": lambda: s.call_packed(give, value),
        "keyword": lambda: s.call_packed(give, x=value),
        "debug_copy_from": lambda: ref.debug_copy_from(0, value),
    }

    def refused():
        with pytest.raises(disco.UsageMistake, match="cannot be copied between controller and worker"):
            ways[way]()

    assert unchanged_by(s, refused)


def test_argument_types_a_dref_inside_of_a_container_is_refused_before_anything_is_sent(session):
    s = session(2)
    ref = s.call_packed(who)

    def refused():
        with pytest.raises(disco.UsageMistake, match="pass it as an argument of its own"):
            s.call_packed(give, {"x": [ref]})

    assert unchanged_by(s, refused)


@pytest.mark.parametrize("use", ["argument", "keyword", "function", "source", "copy"])
def test_argument_types_a_dref_of_another_session_is_refused_before_anything_is_sent(session, use):
    s, other = session(2), session(2)
    ref = other.call_packed(who)
    uses = {
        "argument": lambda: s.call_packed(give, ref),
        "keyword": lambda: s.call_packed(give, x=ref),
        "function": lambda: s.call_packed(ref),
        "source": lambda: s.allreduce(ref),
        "copy": lambda: s.copy_to_worker_0(np.zeros(2), ref),
    }

    def refused():
        with pytest.raises(
            disco.UsageMistake, match=f"belongs to session {other.id}, this is session {s.id}"
        ):
            uses[use]()

    assert unchanged_by(s, refused)


def test_argument_types_records_are_every_workers_own(session):
    # A record is a scalar whose fields can be set, and it may be part of an array.
    s = session(4)
    record = np.zeros(1, dtype=[("a", "i4")])[0]

    def add(x):
        x["a"] += 1
        return int(x["a"])

    assert s.call_packed(add, record).get_all() == [1] * 4
    assert record["a"] == 0
    s.run("import numpy as np\narray = np.zeros(2, dtype=[('a', 'i4')])\nrecord = array[0]")
    s["record"].get(0)["a"] = 7
    assert s["array"].get(0)["a"].tolist() == [0, 0]
