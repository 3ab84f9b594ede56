"""What dotted paths mean, and what is written about that: without running code of the values."""

from __future__ import annotations

import abc
import enum
import functools
import inspect
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray

from disco_magic.core.topology import Topology
from disco_magic.functions.context import WorkerContext
from disco_magic.values.documents import document, signature_of
from disco_magic.values.members import (
    NOTHING,
    Member,
    attribute,
    kind_of,
    look_up,
    member,
    names_of,
    registers_among,
    visible,
)

ONES = np.ones(3)


class Point(NamedTuple):
    x: int


class Base:
    """Has things.

    Attributes:
        weight: how heavy it is,
            in grams.
        first, second: two of them.
        empty: nothing
    """

    shared = 5

    def __init__(self, size=ONES, names=("a", 1), *, key=len, module=np, kind=int, odd=(Ellipsis,)):
        """Make it."""
        self.weight, self.first, self.second, self.third = 1.5, 1, 2, 3

    @property
    def costly(self):
        """What it costs."""
        raise AssertionError

    @classmethod
    def made(cls, n: int) -> Base:
        """Make one."""

    @staticmethod
    def plain(x: int, y=None) -> str:
        return "text"

    @functools.cached_property
    def cached(self):
        raise AssertionError

    def method(self, x, *rest, **others):
        """Do it."""

    def __getattr__(self, name):
        raise AssertionError(name)

    def __repr__(self):
        raise AssertionError


class Called(Base):
    def __init__(self):
        Base.__init__(self)

    def __call__(self, x):
        """Be called."""


class Slotted:
    __slots__ = ("filled", "free")

    def __init__(self):
        self.filled = 7


class Module:
    """Stands for a module of PyTorch."""

    def __init__(self):
        self._parameters, self._buffers, self._modules = {"weight": 1}, None, {"inner": Slotted()}

    def __getattr__(self, name):
        raise AssertionError(name)


Module.__module__ = "torch.nn.modules.module"


class Strange(type):
    @property
    def __doc__(cls):
        raise AssertionError

    @property
    def __signature__(cls):
        raise AssertionError


class Odd(metaclass=Strange):
    """Hidden."""


@pytest.fixture
def seen():
    worker = WorkerContext(1, Topology(4), None, None)
    bound = {
        "base": Base(),
        "Base": Base,
        "called": Called(),
        "slotted": Slotted(),
        "net": Module(),
        "array": np.arange(6.0).reshape(2, 3),
        "point": Point(1),
        "part": functools.partial(int, base=2),
        "odd": Odd,
        "number": 5,
        "_own": 1,
        "np": "shadowed",
    }
    return bound, {"np": np, "worker": worker, "allreduce": worker.allreduce, "len": len}


def value(seen, path):
    found = member(*seen, path.split("."))
    return NOTHING if found is None else found.value


def test_paths_lead_to_what_objects_hold(seen):
    bound = seen[0]
    assert value(seen, "base.weight") == 1.5
    assert value(seen, "base.shared") == value(seen, "Base.shared") == 5
    assert value(seen, "slotted.filled") == 7
    assert value(seen, "net.weight") == 1
    assert value(seen, "net.inner.filled") == 7
    assert np.array_equal(value(seen, "array.T"), bound["array"].T)
    assert value(seen, "array.dtype.name") == "float64"
    assert value(seen, "point.x") == 1
    assert value(seen, "worker.id") == value(seen, "worker.worker_id") == 1
    assert value(seen, "np") == "shadowed"
    assert value(seen, "base.method") == bound["base"].method
    assert value(seen, "base.made") == value(seen, "Base.made") == Base.made
    assert value(seen, "base.plain") is value(seen, "Base.plain") is Base.plain
    assert value(seen, "Base.method") is Base.method
    assert value(seen, "number.bit_length")() == 3
    assert value(seen, "number.from_bytes")(b"\1", "big") == 1


def test_a_module_s_attributes_are_followed():
    assert member({}, {"np": np}, ["np", "linalg", "norm"]).value is np.linalg.norm


def test_properties_are_themselves_and_end_a_path(seen):
    assert value(seen, "base.costly") is value(seen, "Base.costly") is Base.costly
    assert value(seen, "base.costly.real") is NOTHING
    assert type(value(seen, "base.cached")) is functools.cached_property


@pytest.mark.parametrize(
    "path", ["nobody", "base.nothing", "base.nothing.more", "slotted.free", "net.nothing", "net.bias"]
)
def test_paths_that_lead_nowhere_mean_nothing(seen, path):
    assert value(seen, path) is NOTHING
    assert look_up(*seen, path.split(".")) is None
    assert document(*seen, path.split("."), False) == []


def test_names_are_those_that_cells_see(seen):
    names = {**seen[0], "__name__": "x", 5: "no text", "__builtins__": seen[1]}
    with visible(names) as (bound, behind):
        assert "number" in bound
        assert "__name__" in bound
        assert 5 not in bound
        assert behind == seen[1]
        assert behind is not seen[1]
        assert set(names_of(bound, behind)) == set(seen[0])
    assert (bound, behind) == ({}, {})
    with visible({"__builtins__": types}) as (bound, behind):
        assert behind == {}


def test_registers_are_described_without_looking_into_them(seen):
    found = dict(registers_among(*seen, ["array", "_own", "worker", "number"]))
    assert set(found) == {"array", "number"}
    assert (found["array"].shape, found["array"].mean) == ((2, 3), None)


def test_looking_up_tells_registers_and_definitions(seen):
    info, is_register, is_definition = look_up(*seen, ["array"])
    assert (info.kind, info.maximum, is_register, is_definition) == ("float64 2\u00d73", 5.0, True, False)
    assert look_up(*seen, ["_own"]).is_register is False
    assert look_up(*seen, ["array", "T"]).is_register is False
    assert look_up(*seen, ["worker", "id"])[1:] == (False, False)
    assert look_up(*seen, ["Base"])[1:] == (True, True)


def test_a_class_of_a_cell_has_the_same_name_on_every_worker(seen):
    seen[0]["here"] = type("Here", (), {"__module__": "__disco__"})()
    assert look_up(*seen, ["here"]).info.text == "Here"


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (np, "module"),
        (Base, "class"),
        (Base.costly, "property"),
        (len, "function"),
        (np.add, "function"),
        (Base.made, "function"),
        (functools.partial(int), "function"),
        (5, "instance"),
        (np.ones(2), "instance"),
    ],
)
def test_kinds_are_told_apart(made, kind):
    assert kind_of(made) == kind
    assert Member(made).is_definition == (kind != "instance")


def test_an_object_that_makes_up_attributes_is_not_asked():
    assert attribute(Base(), "anything") is NOTHING


# --- what is written about it -----------------------------------------------------------------------


def told(seen, path, with_source=False):
    return dict(document(*seen, path.split("."), with_source))


def test_of_a_function_signature_docstring_and_file_are_told(seen):
    found = told(seen, "base.method")
    assert found["Signature"] == "method(x, *rest, **others)"
    assert found["Docstring"] == "Do it."
    assert found["File"] == __file__
    assert found["Type"] == "method"
    assert told(seen, "base.plain")["Signature"] == "plain(x: int, y=None) -> str"
    assert told(seen, "allreduce")["Signature"].startswith("allreduce(x: Any, op: str = 'sum', *")
    assert told(seen, "len") == {
        "Signature": "len(obj, /)",
        "Docstring": "Return the number of items in a container.",
        "Type": "builtin_function_or_method",
    }


def test_the_source_stands_for_the_docstring_in_it(seen):
    found = told(seen, "base.method", with_source=True)
    assert found["Source"].startswith("    def method(self, x, *rest, **others):")
    assert "Docstring" not in found
    assert told(seen, "base.costly", with_source=True)["Source"].startswith("    @property")
    assert told(seen, "called", with_source=True)["Source"].startswith("class Called(Base):")
    assert told(seen, "len", with_source=True)["Docstring"]


def test_of_a_class_what_makes_it_is_told_and_no_default_shows_itself(seen):
    found = told(seen, "Base")
    assert found["Init signature"] == (
        "Base(size=<ndarray>, names=('a', 1), *, key=len, module=numpy, kind=int, odd=<tuple>)"
    )
    assert found["Docstring"].startswith("Has things.")
    assert found["Init docstring"] == "Make it."
    assert found["File"] == __file__


def test_of_a_value_its_class_s_words_are_told(seen):
    found = told(seen, "base")
    assert found["Docstring"].startswith("Has things.")
    assert "Signature" not in found
    assert "File" not in found
    assert told(seen, "called")["Call signature"] == "called(x)"
    assert told(seen, "array")["Docstring"] == inspect.getdoc(np.ndarray)
    assert told(seen, "number") == {"Type": "int"}


def test_of_an_attribute_its_class_may_say_something(seen):
    assert told(seen, "base.weight")["Docstring"] == "how heavy it is, in grams."
    assert told(seen, "base.second")["Docstring"] == "two of them."
    assert "Docstring" not in told(seen, "base.third")
    assert told(seen, "base.costly")["Docstring"] == "What it costs."
    assert told(seen, "worker.id")["Docstring"].startswith("the worker's number")
    assert told(seen, "worker.worker_id")["Docstring"] == "Disco's name for `id`."


def test_of_a_module_its_file_is_told(seen):
    found = told((({}), seen[1]), "np")
    assert found["Docstring"].startswith("NumPy")
    assert found["File"] == np.__file__
    assert "File" not in told(({}, {"sys": __import__("sys")}), "sys")


def test_ufuncs_and_dispatchers_tell_their_own_words(seen):
    names = {"np": np}
    assert told(({}, names), "np.add")["Docstring"].startswith("add(x1, x2, /, out=None")
    assert told(({}, names), "np.linalg.norm")["Signature"].startswith("norm(x, ord=None")


def test_a_class_that_raises_where_it_is_asked_says_nothing(seen):
    assert told(seen, "odd") == {"File": __file__, "Type": "Strange"}


def test_what_has_no_signature_has_none():
    assert signature_of(np) == signature_of(None) == signature_of(functools.partial(int)) == ""
    wrapped = functools.wraps(Base.method)(lambda *args: None)
    assert signature_of(wrapped) == "(self, x, *rest, **others)"


asked = []


def noted(self, *what):
    """Stands for code of the user's."""
    asked.append(what)
    return super(type(self), self).__getattribute__(*what) if what else "Own"


class Noting(type):
    """Of classes, and their objects, that note wherever they are asked."""

    __getattribute__ = __repr__ = noted


Own = Noting("Own", (), {"__getattribute__": noted, "__repr__": noted, "__module__": "here"})


def annotated(annotation, default=inspect.Parameter.empty):
    """The signature of a function whose only argument and whose value are annotated so."""

    def function(x):
        """Do nothing."""

    function.__annotations__ = {"x": annotation, "return": annotation}
    function.__defaults__ = () if default is inspect.Parameter.empty else (default,)
    return signature_of(function)


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (int, "int"),
        (None, "None"),
        ("Model", "Model"),
        (np.ndarray, "numpy.ndarray"),
        (Point, f"{__name__}.Point"),
        (abc.ABC, "abc.ABC"),
        (enum.Enum, "enum.Enum"),
        (list[int], "list[int]"),
        (int | None, "int | None"),
        (Any, "Any"),
        (Literal["a", 1], "Literal['a', 1]"),
        (Callable[[int], str], "collections.abc.Callable[[int], str]"),
        (typing.Callable[..., str], "Callable[..., str]"),
        (Annotated[int, "metres"], inspect.formatannotation(Annotated[int, "metres"])),
        (NDArray[np.float32], str(NDArray[np.float32])),
        (TypeVar("T"), "~T"),
        (Own, "here.Own"),
        (object.__new__(Own), "<Own>"),
        ([object.__new__(Own)], "<list>"),
        (list[object.__new__(Own)], "<GenericAlias>"),
        (list[list[Own]], "<GenericAlias>"),
        (Annotated[int, object.__new__(Own)], "<_AnnotatedAlias>"),
        (types.SimpleNamespace(x=1), "<SimpleNamespace>"),
        (print, "<builtin_function_or_method>"),
    ],
    ids=range(24),
)
def test_annotations_are_worded_without_running_code_of_theirs(annotation, text):
    asked.clear()
    found, then = annotated(annotation), asked[:]
    assert (found, then) == (f"(x: {text}) -> {text}", [])


def test_a_default_is_not_asked_for_its_class():
    own = object.__new__(Own)
    asked.clear()
    found = [annotated(int, own), annotated(int, Own)]
    assert asked == []
    assert found == ["(x: int = <Own>) -> int", "(x: int = Own) -> int"]


def test_objects_without_documentation_have_none(seen):
    names = {"bare": types.SimpleNamespace(x=1), "nothing": type("Bare", (), {})()}
    assert told((names, {}), "nothing") == {"Type": "Bare"}
