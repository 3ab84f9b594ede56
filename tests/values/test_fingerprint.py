"""Which values count as equal between workers."""

from __future__ import annotations

import datetime as dt
import threading
import tracemalloc
import types

import numpy as np
import pytest

from disco_magic.callers import namespaces
from disco_magic.values.fingerprint import fingerprint

ml_dtypes = pytest.importorskip("ml_dtypes")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.ma.array([1, 2], mask=[1, 0]), np.ma.array([1, 2], mask=[0, 0])),
        (np.array([(1,)], [("a", "i4")]), np.array([(1,)], [("b", "i4")])),
        (np.array([(1065353216,)], [("a", "i4")]), np.array([(1.0,)], [("a", "f4")])),
        (
            np.array([56], np.uint8).view(ml_dtypes.float8_e4m3fn),
            np.array([56], np.uint8).view(ml_dtypes.float8_e5m2),
        ),
        (np.zeros(2), np.array([0.0, -0.0])),
        (np.zeros((2, 3)), np.zeros((3, 2))),
        ({1, 2}, frozenset({1, 2})),
        ([1, 2], (1, 2)),
        ([1, True], [1, 1]),
        ([1.0], [1]),
        ([0.0], [-0.0]),
        (["1"], [b"1"]),
        (["a", "b"], ["ab"]),
        ([1, 2], [1, 2, None]),
        ({1: 2, 3: 4}, {1: 2, 3: 5}),
        ({1: 2}, [1, 2]),
        ({1: 2, 3: 4}, {3: 4, 1: 2}),
        ({"a": 1.0}, {"a": 1}),
        ({1, 2}, {1, 3}),
        ({"a", "bc"}, {"ab", "c"}),
        ({1, 2}, {True, 2}),
        ({0.0, 1}, {-0.0, 1}),
        ([0.5, 1], [0.5, True]),
        ([0.5, 10**5000], [0.5, 10**5000 + 1]),
        (1, True),
        (1, 1.0),
        ("1", b"1"),
        (np.zeros(2, "f4"), np.zeros(2, "i4")),
        (np.float32(0), np.zeros((), "f4")),
        ([[1], [2]], [[1, 2]]),
        (0.1 + 0.2, 0.3),
        ("\ud800", "\ud801"),
        (dt.time(2), dt.time(2, fold=1)),
        (
            types.SimpleNamespace(at=dt.datetime(2026, 1, 1)),  # noqa: DTZ001
            types.SimpleNamespace(at=dt.datetime(2026, 1, 1, fold=1)),  # noqa: DTZ001
        ),
    ],
    ids=range(34),
)
def test_values_that_differ_are_told_apart(one, other):
    assert fingerprint(one) != fingerprint(other)


def padded(value, noise):
    made = np.full(4 * np.dtype(np.longdouble).itemsize, noise, np.uint8).view(np.longdouble)
    made[:] = value
    return made


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (padded(1.5, 0), padded(1.5, 255)),
        ({8, 0}, {0, 8}),
        ({"8", "0"}, {"0", "8"}),
        ({8, "a", 0.5, None}, {None, 0.5, "a", 8}),
        ({float("nan"): 1}, {-float("nan"): 1}),
        ({0.5: 10**5000}, {0.5: 10**5000}),
        (set(), set()),
        (np.array([np.nan]), np.array([np.nan])),
    ],
    ids=["longdouble", "sets", "sets of text", "sets of anything", "dict", "huge", "empty", "nan"],
)
def test_equal_values_count_as_equal(one, other):
    assert fingerprint(one) == fingerprint(other)


def test_long_lists_are_equal_whoever_shares_their_strings():
    words = ["word", "wordy"[:4], "\udcff"]
    assert fingerprint(words) == fingerprint(["word", "word", "\udcff"])
    assert fingerprint([float("nan"), 1e300]) == fingerprint([-float("nan"), 1e300])
    assert fingerprint([10**5000, None]) == fingerprint([10**5000, None])


def test_what_is_too_long_to_be_taken_at_once_is_taken_one_by_one(monkeypatch):
    def refuse(*_):
        raise ValueError("unmarshallable object")  # as of two gigabytes in one piece

    monkeypatch.setattr("marshal.dumps", refuse)
    for make in (lambda each: [each], lambda each: {each}, lambda each: {1: each}):
        assert fingerprint(make(b"text")) == fingerprint(make(b"text"))
        assert fingerprint(make(b"text")) != fingerprint(make(b"test"))


def test_instances_of_a_class_that_every_worker_defined_count_as_equal(session):
    s = session(3)
    s.run("from dataclasses import dataclass\n@dataclass\nclass Point:\n    x: int")
    assert [workers for workers, _ in s.run("Point(1)").groups()] == [(0, 1, 2)]
    assert [workers for workers, _ in s.run("Point(worker_id // 2)").groups()] == [(0, 1), (2,)]


@pytest.mark.parametrize(
    ("same", "apart"),
    [
        ("lambda: 3", "(lambda x: x + 3) if worker_id else (lambda x: x - 3)"),
        ("lambda x, *, y=[1]: x", "lambda x, y=[worker_id]: x"),
        ("[lambda: worker_id]", "[(lambda: 1) if worker_id else (lambda: 2)]"),
        ("made(1)", "made(worker_id)"),
        ("{'act': made(np.ones(2))}", "{'act': made(np.full(2, worker_id))}"),
        ("itself(1)", "itself(worker_id)"),
        ("former[0]", "attributed"),
    ],
)
def test_functions_that_have_no_name_are_equal_by_their_code_and_what_it_was_given(session, same, apart):
    s = session(2)
    s.run(
        "def made(k):\n    def inner(x):\n        return x + k\n    return inner\n"
        "def itself(k):\n    def inner(x):\n        return inner(x - k), late\n"
        "    return inner\n    late = 1\n"
        "def replaced():\n    return 1\n"
        "former = [replaced]\ndef replaced():\n    return 2\n"
        "attributed = lambda: 1\nattributed.rank = worker_id"
    )
    assert [len({fingerprint(value) for value in s.run(each).values}) for each in (same, apart)] == [1, 2]


def test_what_cannot_be_pickled_is_compared_by_its_text():
    lock = types.SimpleNamespace(x=iter([1]), f=lambda: 0)
    assert fingerprint(lock) == fingerprint(lock)


def test_a_list_that_contains_itself_many_times_is_looked_at_once():
    # Each level took the number of its parts times as long as the one above: this one took hours.
    own, other = [], []
    own += [own] * 4 + [1]
    other += [other] * 4 + [1]
    assert fingerprint(own) == fingerprint(other)
    shared = [[]] * 50
    for _ in range(12):
        shared = [shared] * 50
    assert fingerprint(shared) != fingerprint(own)


def test_records_whose_fields_lie_in_another_order_than_they_are_named_have_a_fingerprint():
    a = np.zeros(3, [("a", "i4"), ("b", "f8"), ("c", "i2")])
    assert fingerprint(a[["c", "a"]]) != fingerprint(a[["a", "c"]])
    overlapping = np.dtype({"names": ["x", "y"], "formats": ["i4", "i2"], "offsets": [0, 0]})
    assert fingerprint(np.zeros(2, overlapping)) == fingerprint(np.zeros(2, overlapping))


def test_which_of_the_lists_around_it_one_contains_is_told_apart():
    def circle(inner):
        first, second = [1], [2]
        first.append(second)
        second.append(second if inner else first)
        return first

    assert fingerprint(circle(True)) == fingerprint(circle(True))
    assert fingerprint(circle(True)) != fingerprint(circle(False))


def test_the_gaps_between_the_fields_of_records_are_no_part_of_them():
    dtype = np.dtype({"names": ["a", "b"], "formats": ["i1", "i4"], "offsets": [0, 4]})
    one, other = np.zeros(2, dtype), np.zeros(2, dtype)
    other.view("u1")[1] = 7
    assert fingerprint(one) == fingerprint(other)


def looped(value):
    loop = [value]
    loop.append(loop)
    return loop


class Twin:
    """Shows every value alike."""

    def __init__(self, value):
        self.value = value

    def __repr__(self):
        return "Twin"


class Locked:
    def __init__(self, name):
        self.lock = threading.Lock()
        self.name = name

    def __repr__(self):
        return f"Locked {self.name}"


MAKERS = [
    lambda v: v,
    lambda v: np.full(3, v),
    lambda v: np.full(100_000, v),
    lambda v: np.array([v], object),
    np.float64,
    lambda v: [1, v],
    lambda v: (v, [v, {"k": v}]),
    lambda v: {v: 1},
    lambda v: "text" * v,
    Twin,
    Locked,
    looped,
]


@pytest.mark.parametrize("make", MAKERS, ids=range(len(MAKERS)))
def test_fingerprints_are_equal_for_equal_values_and_differ_for_others(make):
    assert fingerprint(make(1)) == fingerprint(make(1))
    assert fingerprint(make(1)) != fingerprint(make(2))


def test_strides_do_not_matter():
    array = np.arange(6).reshape(2, 3)
    assert fingerprint(array) == fingerprint(np.asfortranarray(array))


def test_a_deep_container_is_compared_to_its_end():
    def deep(value):
        for _ in range(100):
            value = [value]
        return value

    assert fingerprint(deep(1)) == fingerprint(deep(1))
    assert fingerprint(deep(1)) != fingerprint(deep(2))


def test_objects_of_cells_classes_that_are_equal_have_one_fingerprint_whoever_asks():
    made = [namespaces.add(9998, worker) for worker in range(2)]
    try:
        for names in made:
            exec("class Point:\n    def __init__(self, x): self.x = x", names)
        one, other, different = made[0]["Point"](1), made[1]["Point"](1), made[1]["Point"](2)
        assert fingerprint(one) == fingerprint(other) != fingerprint(different)
        assert fingerprint([one]) == fingerprint([other])
    finally:
        for worker, names in enumerate(made):
            namespaces.drop(9998, worker, names)


class Meta(type):  # noqa: PLW1641 - its classes have no hash
    def __eq__(cls, other):
        raise AssertionError("its own code was called")


class Odd(metaclass=Meta):
    def __repr__(self):
        return "Odd"

    def __reduce__(self):
        return str, ("odd",)


def test_classes_are_told_apart_without_asking_their_metaclass():
    assert fingerprint([Odd(), 1]) == fingerprint([Odd(), 1]) != fingerprint([Odd(), 2])


def test_equal_ranges_are_equal():
    assert fingerprint(range(0, 3, 2)) == fingerprint(range(0, 4, 2)) != fingerprint(range(0, 5, 2))
    assert fingerprint(range(0)) == fingerprint(range(5, 1)) != fingerprint(())


def test_arrays_in_objects_are_not_pickled_and_how_they_lie_does_not_matter():
    box, other = types.SimpleNamespace(x=np.ones((3, 2))), types.SimpleNamespace(x=np.ones((2, 3)).T)
    assert fingerprint(box) == fingerprint(other)
    big = types.SimpleNamespace(x=np.ones(1 << 22))
    tracemalloc.start()
    fingerprint(big)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < big.x.nbytes / 4
