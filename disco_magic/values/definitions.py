"""What functions, classes, modules and dtypes are, by name and code, without running any: for checks."""

from __future__ import annotations

import marshal
import types
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.callers.module_classes import dictionary_of, is_plain_module
from disco_magic.libraries import is_of_library
from disco_magic.values.content import tells_all
from disco_magic.values.fields import classes_of, own_attributes
from disco_magic.values.fingerprint import fingerprint
from disco_magic.values.kinds import is_any_of, is_the_users, is_users_module, module_of, qualname_of

if TYPE_CHECKING:
    from collections.abc import Iterable

# What Python itself puts into the dictionary of a class, and what says where it is written.
_OF_PYTHON: Final = ("__doc__", "__firstlineno__", "__module__")

# Also functions of NumPy that are written in Python.
_OF_NUMPY: Final = type(np.linalg.norm)
_KINDS: Final = (
    *(type, types.FunctionType, types.BuiltinFunctionType, types.MethodType, partial),
    *(np.dtype, np.ufunc, _OF_NUMPY),
)


class _Unknown(Exception):
    pass


def is_definition(kind: type) -> bool:
    """Whether values of this type may be definitions."""
    return issubclass(kind, _KINDS) or is_plain_module(kind)


def fingerprint_of_definition(value: Any) -> bytes:
    """16 bytes that are equal for equal definitions; b"" for any other value, or if not all is known of it.

    Those of libraries by their names. Functions of the user's by code, defaults and closure; their classes by
    the code of methods, and numbers and texts, without other attributes.
    """
    try:
        return fingerprint(_facts(value, ()))
    except _Unknown:
        return b""


def _facts(value: Any, above: tuple[int, ...]) -> list[Any]:
    """Numbers, texts and lists of these that describe a definition, or a number or text that one has."""
    kind = type(value)
    if tells_all(kind):
        return ["value", value]
    if id(value) in above:
        return ["itself", above.index(id(value))]
    above = (*above, id(value))
    if issubclass(kind, type):
        return _of_class(value, above)
    if kind is types.FunctionType:
        return _of_function(value, above)
    is_method = kind is types.BuiltinFunctionType and value.__self__ is not None
    return _of_method(value, above) if is_method or kind is types.MethodType else _of_others(value, above)


def _all(items: Iterable[Any], above: tuple[int, ...]) -> list[Any]:
    return [_facts(each, above) for each in items]


def _flat(held: dict[Any, Any] | None) -> list[Any]:
    return [each for pair in dict.items(held or {}) for each in pair]


def _of_method(method: Any, above: tuple[int, ...]) -> list[Any]:
    """A function of a class or a module; those of objects are unknown."""
    owner = method.__self__
    if not issubclass(type(owner), type) and not is_plain_module(type(owner)):
        raise _Unknown
    function = getattr(method, "__func__", None)
    return ["method", method.__qualname__, _facts(owner, above), *_all([function], above)]


def _of_others(value: Any, above: tuple[int, ...]) -> list[Any]:
    """What a function has been given, a partial function, or what is a library's."""
    kind = type(value)
    if is_any_of(kind, (tuple, list, dict)):
        return [kind.__name__, *_all(_flat(value) if kind is dict else list(value), above)]
    if kind is partial:
        return ["partial", *_all([value.func, *value.args, *_flat(value.keywords)], above)]
    return _of_library(value)


def _of_library(value: Any) -> list[Any]:
    """A module, a function of C, one of NumPy's or a dtype."""
    kind = type(value)
    if is_plain_module(kind):
        return ["module", str(dictionary_of(value).get("__name__"))]
    if kind is types.BuiltinFunctionType:
        return ["built-in", value.__qualname__]
    if kind is np.ufunc and vars(np).get(name := str(value.__name__)) is value:
        return ["ufunc", name]
    if kind is _OF_NUMPY:
        return ["function", str(value.__module__), str(value.__qualname__)]
    if issubclass(kind, np.dtype):
        return ["dtype", repr(value)]
    raise _Unknown


def _of_function(function: types.FunctionType, above: tuple[int, ...]) -> list[Any]:
    where, name, code = str(function.__module__), function.__qualname__, function.__code__
    told = ["function", where, name]
    if is_of_library(code.co_filename) and not is_users_module(where) and "<" not in name:
        return told
    try:
        closure = [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError:  # a variable is not bound yet
        raise _Unknown from None
    attributes = [*_flat(function.__kwdefaults__), *_flat(vars(function))]
    given = _all([*(function.__defaults__ or ()), *closure, *attributes], above)
    return [*told, marshal.dumps(code, 2), *given]


def _of_class(kind: type, above: tuple[int, ...]) -> list[Any]:
    bases = [base for base in classes_of(kind) if is_the_users(base)]
    members = [(base, name, own) for base in bases for name, own in sorted(_members(base).items())]
    told = [["class", module_of(base), qualname_of(base)] for base in classes_of(kind)]
    return [*told, *([qualname_of(base), name, *_of_member(own, above)] for base, name, own in members)]


def _members(kind: type) -> dict[str, Any]:
    return {str(name): own for name, own in own_attributes(kind).items() if name not in _OF_PYTHON}


def _of_member(member: Any, above: tuple[int, ...]) -> list[Any]:
    """The facts of an attribute of a class; of a function of which not all is known, its code."""
    kind = type(member)
    if kind is property:
        return [_of_member(each, above) for each in (member.fget, member.fset, member.fdel)]
    function = member.__func__ if is_any_of(kind, (staticmethod, classmethod)) else member
    try:
        return _facts(function, above)
    except _Unknown:
        return [marshal.dumps(function.__code__, 2)] if type(function) is types.FunctionType else []
