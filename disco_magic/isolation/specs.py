"""What an import is about, for `own_modules`: specs, arguments of `__import__`, a lock for each module."""

from __future__ import annotations

import importlib.util
import os
import re
import threading
from importlib import _bootstrap
from importlib.machinery import BuiltinImporter, ExtensionFileLoader, FrozenImporter, ModuleSpec
from typing import TYPE_CHECKING, Any, Final

from disco_magic.libraries import is_of_library, read_import_path
from disco_magic.phrases import words

if TYPE_CHECKING:
    import types
    from collections.abc import Mapping, Sequence

_ONCE: Final[Any] = (BuiltinImporter, ExtensionFileLoader, FrozenImporter)


def is_loaded_once(spec: ModuleSpec) -> bool:
    """Whether a process can have only one such module."""
    return spec.loader in _ONCE or isinstance(spec.loader, _ONCE)


def present_spec(module: types.ModuleType) -> ModuleSpec | None:
    """The spec with which a module was imported, if its file is still there."""
    spec = vars(module).get("__spec__")
    is_there = isinstance(spec, ModuleSpec) and spec.has_location and os.path.isfile(str(spec.origin))
    return spec if is_there else None


def is_of_user(spec: object) -> bool:
    """Whether a module has files, and these are no library's."""
    if not isinstance(spec, ModuleSpec):
        return False
    read_import_path()
    places = [spec.origin] if spec.has_location else list(spec.submodule_search_locations or ())
    return bool(places) and not any(is_of_library(str(each)) for each in places)


def resolved(name: str, scope: Mapping[str, Any] | None, level: int) -> str:
    """Return the absolute name; "" if there is none, in which case `__import__` raises the error."""
    package = None if scope is None else scope.get("__package__")
    if not level:
        return name if isinstance(name, str) else ""
    if not isinstance(package, str):
        return ""
    try:
        return importlib.util.resolve_name("." * level + name, package)
    except ImportError:
        return ""


def listed(module: types.ModuleType, fromlist: Sequence[str]) -> list[str]:
    """Return the names after ``from module import``."""
    everything = getattr(module, "__all__", ())
    return [name for each in fromlist for name in (everything if each == "*" else [each])]


_SYSTEM: Final[Any] = _bootstrap


class ImportLock:
    """Held by the thread that executes one module. Reentrant, like the import system's own locks.

    Threads that wait for each other's modules get them half-initialized. Workers are not interrupted where
    the lock is taken or released.
    """

    def __init__(self, name: str) -> None:
        self._lock = _SYSTEM._ModuleLock(name)  # noqa: SLF001 - its other locks are global
        self._taken = threading.local()

    def __enter__(self) -> None:
        taken: list[bool] = self._taken.__dict__.setdefault("taken", [])
        try:
            self._lock.acquire()
            taken.append(True)
        except _SYSTEM._DeadlockError:  # noqa: SLF001
            taken.append(False)

    def __exit__(self, *_: object) -> None:
        if self._taken.taken.pop():
            self._lock.release()


# A text, which `re` compiles with the first such error: that takes as long as three of our files.
_TWICE: Final = (
    r"already|duplicat|\bregister\b|\bexists\b|twice|redefin|conflict|same name|multiple times|\bonce\b"
)
# These say what a module lacks, no matter who else has executed it.
_NEVER: Final = (AttributeError, ImportError, NameError, SyntaxError)
_HELP: Final = (
    "each worker imports {} for itself, and another one has; if it registers what a process has once, let "
    "all share their modules: --own-modules none, or own_modules=()"
)


def advise_sharing(error: BaseException, name: str) -> None:
    """Add a note to the `error` of module `name`, which others have executed, if it sounds like that."""
    if isinstance(error, _NEVER) or not isinstance(error, Exception):
        return
    said = error.strerror if isinstance(error, OSError) else words(error)  # without its file's name
    if type(said) is str and re.search(_TWICE, said, re.IGNORECASE):
        error.add_note(_HELP.format(name))
