"""Classes of Python's own modules while any session runs, with attributes that depend on the caller."""

from __future__ import annotations

import importlib
import sys
import types
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from collections.abc import Callable

_DICTIONARY: Final[Any] = vars(types.ModuleType)["__dict__"]
dictionary_of: Final[Callable[[types.ModuleType], dict[str, Any]]] = _DICTIONARY.__get__
"""The true dictionary of a module, whatever its class returns as ``__dict__``."""
SYS: Final = dictionary_of(sys)
"""That of `sys`: what the process has. Workers that ask `sys` itself get their own."""


def spec_of(module: object) -> object:
    """The spec of an entry of `sys.modules`, if it has one; this does not execute a lazy module."""
    if issubclass(type(module), types.ModuleType):
        return dictionary_of(cast("types.ModuleType", module)).get("__spec__")
    return getattr(module, "__spec__", None)


class OfModules(type):
    """The metaclass of these classes.

    Much code, including the import system, uses ``type(sys)`` for the class of all modules: calling one of
    these makes a plain module.
    """

    def __new__(cls, _: str, bases: tuple[type, ...], names: dict[str, Any]) -> OfModules:
        """Make a class with the name of the class of modules."""
        called = {"__module__": "builtins", "__qualname__": "module"}
        return super().__new__(cls, types.ModuleType.__name__, bases, names | called)

    def __call__(cls, *args: Any, **options: Any) -> types.ModuleType:
        """Make a plain module."""
        return types.ModuleType(*args, **options)

    def __instancecheck__(cls, thing: object) -> bool:
        return isinstance(thing, types.ModuleType)


def is_plain_module(kind: type) -> bool:
    """Whether that is the class of modules, or one of its replacements."""
    return kind is types.ModuleType or issubclass(kind, ModuleOfWorkers)


class ModuleOfWorkers(types.ModuleType, metaclass=OfModules):
    """Base of these; no method uses ``super()``: a thread may be in one when the class is put back."""

    if sys.version_info >= (3, 14):
        # From there on, code that loads an attribute a second time takes it from the module's dictionary,
        # whatever its class defines (CPython's issue 156399): workers' `sys.argv` would be the process's. Not
        # if the class looks attributes up in its own way. These two are C code, and report what is missing as
        # a module does. An attribute takes 0.1 us longer.
        __getattribute__ = object.__getattribute__
        __getattr__ = types.ModuleType.__getattribute__

    def __reduce_ex__(self, _: object) -> tuple[Any, ...]:
        """Pickle by name, as cloudpickle does only for objects whose class is exactly that of modules."""
        return importlib.import_module, (self.__name__,)


def is_tester(frame: types.FrameType) -> bool:
    """Whether the frame that uses a module is code of `unittest`, which includes `mock`."""
    home = frame.f_globals.get("__name__")
    return type(home) is str and home.partition(".")[0] == "unittest"


def exchange(module: types.ModuleType, kind: OfModules) -> Callable[[], None]:
    """Give a module that class, unless it has another one than modules have; return what undoes it."""

    def undo() -> None:
        if type(module) is kind:
            module.__class__ = types.ModuleType

    if type(module) is types.ModuleType:
        module.__class__ = kind  # type: ignore[assignment]
    return undo
