"""What functions, classes, modules and dtypes are, by name and code, without running any: for checks."""

from __future__ import annotations

import dataclasses
import enum
import marshal
import types
from functools import cached_property, lru_cache, partial, partialmethod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from disco_magic.callers.module_classes import dictionary_of, is_plain_module
from disco_magic.libraries import is_of_library
from disco_magic.values.content import tells_all
from disco_magic.values.digests import of_tensor
from disco_magic.values.fields import classes_of, own_attributes
from disco_magic.values.fingerprint import fingerprint
from disco_magic.values.kinds import (
    LAZY_IMPORT,
    is_all_elements,
    is_any_of,
    is_the_users,
    is_users_module,
    module_of,
    qualname_of,
    type_name,
    what_it_is,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

# What Python itself puts into the dictionary of a class, what says where it is written, and annotations.
_OF_PYTHON: Final = (
    *("__doc__", "__firstlineno__", "__module__", "__dict__", "__weakref__", "__static_attributes__"),
    *("__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__", "__type_params__"),
    *("__orig_bases__", "__parameters__", "_abc_impl", "__dataclass_params__"),
)
_CACHED: Final = type(lru_cache(len))
_SLOTS: Final = (types.MemberDescriptorType, type(NamedTuple("_", [("x", int)]).x))  # type: ignore[attr-defined]
_PROPERTIES: Final = (property, types.DynamicClassAttribute, enum.property)
# Objects of which there is one only: what has no default, or one that is made anew.
_MARKS: Final = tuple(type(getattr(dataclasses, name)) for name in ("MISSING", "_HAS_DEFAULT_FACTORY"))
_OF_FIELDS: Final = ("name", "default", "default_factory", "init", "repr", "hash", "compare", "kw_only")
_UNSEEN: Final = ["unseen"]  # in place of what is not known
_NAMED: Final = 6

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
    return issubclass(kind, _KINDS) or is_plain_module(kind) or kind is LAZY_IMPORT


def fingerprint_of_definition(value: Any) -> tuple[bytes, str]:
    """16 bytes that are equal for equal definitions, and what they leave out; b"" for other values.

    Those of libraries by their names. Functions of the user's by code, defaults and closure: b"" if not all
    of that is known. Their classes by methods, numbers, texts and arrays, containers of these, and members
    of enumerations; what else they have as attributes is left out, and named. Annotations do not count.
    """
    try:
        facts = _facts(value, ())
    except _Unknown:
        return b"", ""
    return fingerprint(facts), _unseen_in(facts)


def _unseen_in(facts: list[Any]) -> str:
    """``its attributes lock and log cannot be compared``; "" if all can be."""
    if not _has_unseen(facts):
        return ""
    if type(facts[0]) is not list:  # a function, or something else that has such a class
        return "attributes of a class in it cannot be compared"
    names = list(dict.fromkeys(str(member[1]) for member in facts if _has_unseen(member)))
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"its attribute{'s' * (len(names) > 1)} {', '.join(names[:_NAMED])}{more} cannot be compared"


def _has_unseen(facts: list[Any]) -> bool:
    return any(each is _UNSEEN or (type(each) is list and _has_unseen(each)) for each in facts)


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
    """What a function has been given, a partial or cached function, or what is a library's."""
    kind = type(value)
    if is_any_of(kind, (tuple, list, dict)):
        return [kind.__name__, *_all(_flat(value) if kind is dict else list(value), above)]
    if is_any_of(kind, (set, frozenset)) and all(tells_all(type(each)) for each in value.copy()):
        return ["set", value]
    if is_any_of(kind, (partial, partialmethod)):
        return ["partial", *_all([value.func, *value.args, *_flat(value.keywords)], above)]
    return _of_elements(value) or _of_parts(value, above) or _of_library(value)


def _of_parts(value: Any, above: tuple[int, ...]) -> list[Any]:
    """A cached function, a field of a dataclass or a member of an enumeration; [] for all others."""
    kind = type(value)
    if kind is _CACHED:
        own = own_attributes(value)
        return ["cached", *_all([own.get("__wrapped__"), own.get("cache_parameters")], above)]
    if kind is dataclasses.Field:
        return ["field", *_all([*(getattr(value, each) for each in _OF_FIELDS), dict(value.metadata)], above)]
    if issubclass(kind, enum.Enum):
        own = own_attributes(value)
        told = ["member", module_of(kind), qualname_of(kind), str(own.get("_name_"))]
        return [*told, _facts(own.get("_value_"), above)]
    return [kind.__name__] if is_any_of(kind, _MARKS) else []


def _of_elements(value: Any) -> list[Any]:
    """An array or tensor that can be read here; [] for all others."""
    if is_all_elements(type(value)) and not value.dtype.hasobject:
        return ["array", value]
    elements = of_tensor(value)
    return ["tensor", elements] if elements else []


def _of_library(value: Any) -> list[Any]:
    """A module, also one to be imported lazily, a function of C, one of NumPy's or a dtype."""
    kind = type(value)
    if kind is LAZY_IMPORT:
        return [type_name(kind), what_it_is(value)]
    if is_plain_module(kind):
        return ["module", str(dictionary_of(value).get("__name__"))]
    if is_any_of(kind, (types.BuiltinFunctionType, types.WrapperDescriptorType)):
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
    told: list[Any] = [["class", module_of(base), qualname_of(base)] for base in classes_of(kind)]
    return [*told, *([qualname_of(base), name, *_of_member(own, above)] for base, name, own in members)]


def _members(kind: type) -> dict[str, Any]:
    return {str(name): own for name, own in own_attributes(kind).items() if name not in _OF_PYTHON}


def _of_member(member: Any, above: tuple[int, ...]) -> list[Any]:
    """The facts of an attribute of a class; of a function of which not all is known, at least its code."""
    kind = type(member)
    if is_any_of(kind, _PROPERTIES):
        return [_of_member(each, above) for each in (member.fget, member.fset, member.fdel)]
    if is_any_of(kind, (staticmethod, classmethod)):
        return [kind.__name__, _of_member(member.__func__, above)]
    if kind is cached_property:
        return [kind.__name__, _of_member(member.func, above)]
    if is_any_of(kind, _SLOTS):
        return [kind.__name__]
    try:
        return _facts(member, above)
    except _Unknown:
        return [*([marshal.dumps(member.__code__, 2)] if kind is types.FunctionType else []), _UNSEEN]
