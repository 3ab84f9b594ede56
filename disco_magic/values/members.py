"""What a dotted path means on one worker, resolved without running code of the values.

For `Session.examine_names`: to ask what ``model.weight`` is must not call anything. So properties are not
evaluated, no ``__getattr__`` of the user's is called, and nothing is imported.
"""

from __future__ import annotations

import fnmatch
import functools
import inspect
import re
import types
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from disco_magic.callers.module_classes import is_plain_module
from disco_magic.values.describe import describe
from disco_magic.values.fields import classes_of, own_attributes
from disco_magic.values.frames import columns_of, is_frame
from disco_magic.values.kinds import LAZY_IMPORT, home_of, is_any_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from disco_magic.core.snapshot import RegisterInfo

NOTHING: Final = object()
_OURS: Final = __name__.partition(".")[0]
# Descriptors that C code makes: reading through them runs no code of the user's.
_FIELDS: Final = (types.GetSetDescriptorType, types.MemberDescriptorType)
_METHODS: Final = (
    types.FunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
)
# Where a PyTorch module keeps what its own ``__getattr__`` returns.
_KEPT: Final = ("_parameters", "_buffers", "_modules")
_DEFINITIONS: Final = (*_METHODS, types.MethodType, types.ModuleType, functools.partial, property)
# Flag of types made by a class statement: calling their instances may run code of the user's.
_HEAP_TYPE: Final = 1 << 9
_FLAGS: Final = type.__dict__["__flags__"]  # a metaclass of the user's may have another one


class Member(NamedTuple):
    """What a path leads to.

    Attributes:
        value: the object; for a property, the property itself.
        owner: class of the object before the last dot; None if there is no dot.
    """

    value: Any
    owner: type | None = None

    @property
    def is_definition(self) -> bool:
        """Whether it is a function, a class or a module: something that is the same on all workers."""
        kind = type(self.value)
        if issubclass(kind, type) or is_any_of(kind, _DEFINITIONS) or is_plain_module(kind):
            return True
        if kind is LAZY_IMPORT:
            return True
        return callable(self.value) and not _FLAGS.__get__(kind) & _HEAP_TYPE  # C: built-in functions, ufuncs


class NameInfo(NamedTuple):
    """What a path means on one worker; plain data."""

    info: RegisterInfo
    is_register: bool
    is_definition: bool


@contextmanager
def visible(namespace: Mapping[Any, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield what a worker's cells have bound, and their builtins; both are emptied afterwards.

    Code that looks at them may keep them in a cycle, as Jedi does: all values of the worker would stay until
    the garbage collector runs.
    """
    # A cell may put anything into globals(), including keys that are not strings.
    bound = {name: value for name, value in dict(namespace).items() if type(name) is str}
    builtins = bound.pop("__builtins__", None)
    behind = dict(builtins) if type(builtins) is dict else {}
    try:
        yield bound, behind
    finally:
        bound.clear()
        behind.clear()


def names_of(bound: Mapping[str, Any], behind: Mapping[str, Any]) -> tuple[str, ...]:  # noqa: ARG001 - see examine_names
    """The names that a worker's cells have bound, including those with one underscore."""
    return tuple(name for name in bound if not name.startswith("__"))


def registers_among(
    bound: Mapping[str, Any],
    behind: Mapping[str, Any],  # noqa: ARG001 - see examine_names
    names: Iterable[str],
) -> list[tuple[str, RegisterInfo]]:
    """``(name, description)`` of those of `names` that are registers: type, shape, dtype and bytes only."""
    return [(name, describe(bound[name], 0)) for name in names if name in bound and not name.startswith("_")]


def look_up(bound: Mapping[str, Any], behind: Mapping[str, Any], path: Sequence[str]) -> NameInfo | None:
    """Return what ``path[0].path[1]...`` means there; None if it means nothing."""
    found = member(bound, behind, path)
    if found is None:
        return None
    is_register = len(path) == 1 and path[0] in bound and not path[0].startswith("_")
    return NameInfo(describe(found.value), is_register, found.is_definition)


def member(bound: Mapping[str, Any], behind: Mapping[str, Any], path: Sequence[str]) -> Member | None:
    """Follow a path from a name that cells see; None if it leads nowhere."""
    value, owner = bound.get(path[0], behind.get(path[0], NOTHING)), None
    for name in path[1:]:
        if value is NOTHING or type(value) is property:
            return None
        owner = type(value)
        value = attribute(value, name)
    return None if value is NOTHING else Member(value, owner)


def pattern_of(name: str) -> re.Pattern[str]:
    """The whole names that ``net*`` stands for, in either case."""
    return re.compile(fnmatch.translate(name), re.IGNORECASE)  # in linear time, unlike a chain of `.*`


def matching(bound: Mapping[str, Any], behind: Mapping[str, Any], pattern: str) -> list[str]:
    """The names that fit ``net.*weight``, as cells write them; with ``*`` in the last part only.

    Names with an underscore have to be asked for: ``_*``.
    """
    *path, last = pattern.split(".")
    if path:
        owner = member(bound, behind, path)
        names = set() if owner is None else _attributes(owner.value)
    else:
        names = {*bound, *behind}
    fits = pattern_of(last).match
    found = [name for name in names if fits(name) and (last.startswith("_") or not name.startswith("_"))]
    return [".".join([*path, name]) for name in sorted(found, key=str.lower)]


def _attributes(value: Any) -> set[str]:
    """The names that are found in an object and its classes without asking them."""
    kind = type(value)
    holders = classes_of(value) if issubclass(kind, type) else (value, *classes_of(kind))
    names = {name for each in holders for name in own_attributes(each)}
    columns = list(value.columns) if is_frame(kind) and home_of(kind) == "pandas" else []
    return {name for name in (*names, *columns) if type(name) is str and name.isidentifier()}


def attribute(value: Any, name: str) -> Any:
    """Return ``value.name`` without running user code, a property as itself; `NOTHING` if there is none."""
    try:
        found = inspect.getattr_static(value, name)
    except AttributeError:
        return _column(value, name) if is_frame(type(value)) else _kept_by_torch(value, name)
    kind = type(found)
    if kind is staticmethod:
        return found.__func__
    owner = value if issubclass(type(value), type) else type(value)
    if kind is classmethod:
        return types.MethodType(found.__func__, owner)
    return found if owner is value else _seen_from(value, owner, name, found)


def kind_of(value: Any) -> str:
    """``module``, ``class``, ``property``, ``function`` or ``instance``."""
    if issubclass(type(value), type):
        return "class"
    if is_plain_module(type(value)):
        return "module"
    if type(value) is property:
        return "property"
    return "function" if Member(value).is_definition else "instance"


def _seen_from(value: Any, owner: type, name: str, found: Any) -> Any:
    """Return what was found in an object or its class as the object would return it."""
    kind = type(found)
    if kind in _FIELDS or kind is type(Member.value):  # of a named tuple
        return _field(found, value)
    if kind is property and home_of(owner) == _OURS:
        return found.__get__(value, owner)  # those of `worker` return numbers
    if kind in _METHODS and found is inspect.getattr_static(owner, name, NOTHING):
        return found.__get__(value, owner)
    return found


def _field(field: Any, value: Any) -> Any:
    """Read what C code keeps in an object: an array's ``T`` or ``dtype``, or a slot, which may be empty."""
    try:
        return field.__get__(value)
    except Exception:  # noqa: BLE001 - a tensor that has no such field for its layout, a slot without a value
        return NOTHING


def _column(frame: Any, name: str) -> Any:
    """The column that a data frame returns as an attribute."""
    if home_of(type(frame)) != "pandas":
        return NOTHING
    with suppress(RuntimeError):  # another thread is changing the frame
        # Other labels may be of the user's classes.
        named = (each for label, each in columns_of(frame) if type(label) is str and label == name)
        for column in named:
            return column.series()
    return NOTHING


def _kept_by_torch(value: Any, name: str) -> Any:
    if any(home_of(base) == "torch" for base in type(value).__mro__):
        for kept in _KEPT:
            held = inspect.getattr_static(value, kept, None)
            if isinstance(held, dict) and name in held:
                return held[name]
    return NOTHING
