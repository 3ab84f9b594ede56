"""What is in containers, named tuples, dataclasses and data frames, without running the user's code."""

from __future__ import annotations

import abc
import sys
import types
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest

from disco_magic.core.registers import register_of
from disco_magic.values import inside
from disco_magic.values.divergence import look, survey
from disco_magic.values.kinds import type_name


def parts(value, *, values=False):
    return dict(survey("v", value, values=values))


def kinds(value):
    return {path: part.kind for path, part in parts(value).items()}


def refuse(*_):
    raise AssertionError("code of the user's was run")


Point = namedtuple("Point", ["x", "y"])  # noqa: PYI024 - as users write it


class Pair(NamedTuple):
    one: Any
    other: Any = None


@dataclass
class Config:
    rate: float
    weights: Any = None
    cache: Any = field(default=None, init=False)


@dataclass(slots=True)
class Slim:
    rate: float
    weights: Any
    late: Any = field(init=False)


class Counted:
    __slots__ = ("_never", "step")

    def __init__(self, step):
        self.step = step


@dataclass
class State(Counted):
    rate: float = 0.5


def state(step):
    made = State()
    made.step = step
    return made


class Base(abc.ABC):  # noqa: B024 - a metaclass of Python's own
    pass


@dataclass
class Derived(Base):
    weights: Any
    length: Any = field(init=False, default=3)
    asked: Any = field(init=False)


Derived.asked = property(refuse)


W = np.zeros(2)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (OrderedDict(w=W, n=3), {"v": "collections.OrderedDict of 2 (int)", "v['w']": "float64 (2,)"}),
        (defaultdict(list, w=W), {"v": "collections.defaultdict of 1", "v['w']": "float64 (2,)"}),
        (Counter("aab"), {"v": "collections.Counter of 2 (int)"}),
        (deque([W, "a"]), {"v": "collections.deque of 2 (str)", "v[0]": "float64 (2,)"}),
        (Point(W, 1), {"v": "{}.Point (int)", "v.x": "float64 (2,)"}),
        (Pair([W]), {"v": "{}.Pair (NoneType)", "v.one": "list of 1", "v.one[0]": "float64 (2,)"}),
        (Config(0.5, {"a": W}), {"v": "{}.Config (NoneType, float)", "v.weights": "dict of 1"}),
        (Slim(0.5, W), {"v": "{}.Slim (float)", "v.weights": "float64 (2,)"}),
        (Derived(W), {"v": "{}.Derived (int)", "v.weights": "float64 (2,)"}),
    ],
    ids=lambda part: type(part).__name__ if not isinstance(part, dict) else "",
)
def test_parts_of_what_python_brings_along_are_looked_at(value, expected):
    found = kinds(value)
    assert expected.items() <= {path: kind.replace(__name__, "{}") for path, kind in found.items()}.items()
    assert not any(part.unseen for part in parts(value).values())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (OrderedDict(a=1, b=2), OrderedDict(b=2, a=1)),
        (OrderedDict(a=1, b=W), OrderedDict(b=W, a=1)),
        (defaultdict(int, a=1), defaultdict(int, a=2)),
        (deque([1, 2]), deque([2, 1])),
        (Point(1, 2), Point(2, 1)),
        (Config(0.5), Config(0.25)),
        (Slim(0.5, 1), Slim(0.5, 2)),
        (state(1), state(2)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_their_values_have_digests(one, other):
    first, second = look(one, values=True), look(other, values=True)
    assert first.digest
    assert first.digest != second.digest
    assert not first.opaque


def test_the_order_of_a_counter_is_no_part_of_its_value_and_that_of_an_ordered_dict_is():
    assert look(Counter("ab"), values=True).digest == look(Counter("ba"), values=True).digest
    moved = OrderedDict(a=1, b=2)
    moved.move_to_end("a")
    assert look(moved, values=True).digest == look(OrderedDict(b=2, a=1), values=True).digest


class Iterating(dict):
    __iter__ = keys = values = items = __len__ = refuse


class Hashing:
    __hash__ = __eq__ = refuse


class Meta(type):
    __eq__ = __hash__ = __getattribute__ = refuse


def odd():
    """A class that pytest, which looks at all in this module, must not meet."""

    class Odd(metaclass=Meta):
        __slots__ = ()

    return Odd


@dataclass
class Guarded:
    weights: Any
    __getattribute__ = refuse


@dataclass
class Hidden:
    weights: Any
    __dict__ = property(refuse)


@dataclass(slots=True)
class Missing:
    weights: Any = field(init=False)
    __getattr__ = refuse


class Fields(tuple):
    _fields = property(refuse)
    __slots__ = ()


class Plenty(tuple):
    _fields = ("a", "b")
    __slots__ = ()
    __iter__ = __len__ = refuse


def keyed(kind):
    """A container with a key whose ``__hash__`` may run while it is filled, and not later."""
    made, key = kind(), Hashing()
    Hashing.__hash__ = lambda _: 1
    try:
        dict.__setitem__(made, key, [1]) if kind is not OrderedDict else made.__setitem__(key, [1])
    finally:
        Hashing.__hash__ = refuse
    return made


UNASKED = {
    "a dict's own iterator": lambda: Iterating(a=1),
    "keys of a dict": lambda: keyed(dict),
    "keys of an OrderedDict": lambda: keyed(OrderedDict),
    "keys of a defaultdict": lambda: keyed(defaultdict),
    "items": lambda: [Hashing()],
    "a metaclass of an item": lambda: [odd()(), 1],
    "a metaclass": lambda: object.__new__(odd()),
    "a metaclass of a class": odd,
    "getattribute": lambda: Guarded.__new__(Guarded),
    "a dictionary": lambda: Hidden.__new__(Hidden),
    "getattr": Missing,
    "fields": Fields,
    "a tuple's own iterator": lambda: Plenty((1,)),
}


@pytest.mark.parametrize("made", UNASKED.values(), ids=UNASKED)
@pytest.mark.parametrize("values", [False, True])
def test_no_code_of_the_users_is_run(made, values):
    assert parts(made(), values=values)["v"].type


def test_a_class_whose_metaclass_hides_its_name_is_named_all_the_same():
    assert look(odd()(), values=False).type == f"{__name__}.odd.<locals>.Odd"
    assert type_name(types.new_class("New", (), {}, lambda body: body.update(__module__=3))) == "?.New"


def test_a_container_that_another_thread_fills_meanwhile_is_not_looked_into(monkeypatch):
    def filling(value):
        raise RuntimeError("deque mutated during iteration")

    monkeypatch.setattr(inside, "_of_list", filling)
    assert look([1], values=False).unseen == "what is in list"


def test_the_register_of_a_part_is_what_stands_before_its_path():
    assert [register_of(part) for part in ("w", "w['a.b']", "w.a[0]", "w[0].a")] == ["w"] * 4


# --- data frames -----------------------------------------------------------------------------------


class Frame:
    """Looks like a DataFrame of pandas."""

    def __init__(self, **columns):
        self.shape = (3, len(columns))
        self.columns = list(columns)
        self.dtypes = list(columns.values())

    @property
    def _mgr(self):
        blocks = [
            types.SimpleNamespace(
                values=types.SimpleNamespace(dtype=dtype, shape=(3,), ndim=1, nbytes=0),
                mgr_locs=types.SimpleNamespace(as_array=np.array([place])),
            )
            for place, dtype in enumerate(self.dtypes)
        ]
        return types.SimpleNamespace(axes=[self.columns, range(3)], blocks=blocks)


class Own:
    __str__ = refuse


@pytest.fixture
def frame(monkeypatch):
    library = types.ModuleType("pandas")
    library.DataFrame = Frame
    monkeypatch.setitem(sys.modules, "pandas", library)
    monkeypatch.setattr(Frame, "__module__", "pandas.core.frame")
    return Frame


def test_columns_and_dtypes_of_a_data_frame_are_parts(frame):
    value = frame(a=np.dtype("int64"), b=np.dtype("float32"), c=Own())
    assert kinds(value) == {
        "v": "pandas.core.frame.Frame (3, 3)",
        "v['a']": "column int64 (3,)",
        "v['b']": "column float32 (3,)",
        "v['c']": f"column {__name__}.Own (3,)",
    }
    assert look(value, values=False).opaque == ""


def test_data_frames_that_cannot_be_read_are_not_compared(frame):
    found = parts(frame(a=np.dtype("int64")), values=True)
    assert found["v"].opaque == "its labels are objects"
    assert found["v['a']"].opaque == "not all values of dtype int64 can be compared"


@pytest.mark.parametrize("names", [["a", "a"], [("x", 1), "b"], [float("nan"), float("nan")]])
def test_columns_without_names_of_their_own_are_told_by_their_places(frame, names):
    value = frame(a=np.dtype("int8"), b=np.dtype("int8"))
    value.columns = names
    assert list(parts(value)) == ["v", "v[0]", "v[1]"]


def test_a_class_derived_from_a_data_frame_is_not_asked(frame):
    class Mine(frame):
        @property
        def columns(self):
            refuse()

        columns = columns.setter(lambda *_: None)

    found = look(Mine(), values=False)
    assert found.unseen.startswith("what is in ")
