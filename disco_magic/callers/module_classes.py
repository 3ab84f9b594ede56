"""Modules of Python's own whose class is another one as long as any session runs: it knows who asks them."""

from __future__ import annotations

import importlib
import sys
import types
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from collections.abc import Callable

_DICTIONARY: Final[Any] = vars(types.ModuleType)["__dict__"]
dictionary_of: Final[Callable[[types.ModuleType], dict[str, Any]]] = _DICTIONARY.__get__
"""The true dictionary of a module, whatever its class shows who asks for ``__dict__``."""
SYS: Final = dictionary_of(sys)
"""That of `sys`: what the process has. Workers that ask `sys` itself are told their own."""


def spec_of(module: object) -> object:
    """How what is in `sys.modules` was found, if that is known; a lazy module is not executed by this."""
    if issubclass(type(module), types.ModuleType):
        return dictionary_of(cast("types.ModuleType", module)).get("__spec__")
    return getattr(module, "__spec__", None)


class OfModules(type):
    """The class of such classes.

    Much code, the import system's too, says ``type(sys)`` where it means the class of all modules. They are
    called as that is.
    """

    def __new__(cls, _: str, bases: tuple[type, ...], names: dict[str, Any]) -> OfModules:
        """Under the name of the class of modules."""
        called = {"__module__": "builtins", "__qualname__": "module"}
        return super().__new__(cls, types.ModuleType.__name__, bases, names | called)

    def __call__(cls, *args: Any, **options: Any) -> types.ModuleType:
        """A plain one."""
        return types.ModuleType(*args, **options)

    def __instancecheck__(cls, thing: object) -> bool:
        return isinstance(thing, types.ModuleType)


def is_plain_module(kind: type) -> bool:
    """Whether that is the class of modules, or what stands for it."""
    return kind is types.ModuleType or issubclass(kind, ModuleOfWorkers)


class ModuleOfWorkers(types.ModuleType, metaclass=OfModules):
    """Such a class. Methods do not say ``super()``: a thread may be in one when the class is put back."""

    def __reduce_ex__(self, _: object) -> tuple[Any, ...]:
        """Pickled by its name: cloudpickle does so for objects of the very class of modules."""
        return importlib.import_module, (self.__name__,)


def is_tester(frame: types.FrameType) -> bool:
    """Whether code of `unittest` asks a module from this frame, or of `mock`, which is part of it."""
    home = frame.f_globals.get("__name__")
    return type(home) is str and home.partition(".")[0] == "unittest"


def exchange(module: types.ModuleType, kind: OfModules) -> None:
    """Let a module be of that class, unless it is of another one than modules are. Idempotent."""
    if type(module) is types.ModuleType:
        module.__class__ = kind  # type: ignore[assignment]


def put_back(module: types.ModuleType, kind: OfModules) -> None:
    """Let it be of the class of modules again. Idempotent."""
    if type(module) is kind:
        module.__class__ = types.ModuleType
