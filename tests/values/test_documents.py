"""What is written about values and what they hold, without running code of theirs."""

from __future__ import annotations

import abc
import enum
import functools
import inspect
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray

from disco_magic.values.documents import document, signature_of
from tests.values import looked_at
from tests.values.looked_at import Base, Point


def told(seen, path, with_source=False):
    return dict(document(*seen, path.split("."), with_source))


def test_of_a_function_signature_docstring_and_file_are_told(seen):
    found = told(seen, "base.method")
    assert found["Signature"] == "method(x, *rest, **others)"
    assert found["Docstring"] == "Do it."
    assert found["File"] == looked_at.__file__
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
    assert found["File"] == looked_at.__file__


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
    assert told(seen, "odd") == {"File": looked_at.__file__, "Type": "Strange"}


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
        (Point, f"{looked_at.__name__}.Point"),
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
