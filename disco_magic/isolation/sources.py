"""Modules next to a program whose files have changed since they were imported.

A process imports a module once: after editing ``model.py``, running ``train.py`` again would silently run the
old code. The contents of a file are noted when it is read for an import, because it may be edited right
afterwards, while the program still runs.
"""

from __future__ import annotations

import os
import sys
import types
from contextlib import suppress
from hashlib import blake2b
from importlib.machinery import SourceFileLoader
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from disco_magic.callers.module_classes import dictionary_of
from disco_magic.callers.namespaces import CELL_MODULE
from disco_magic.isolation.standing_modules import IMPORTS, forget_module, is_standing
from disco_magic.libraries import is_of_library, read_import_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from importlib.machinery import ModuleSpec

# Not imported: these files are programs.
_PROGRAMS: Final = (CELL_MODULE, "__main__")


class Source(NamedTuple):
    """A file as it was imported.

    Attributes:
        stamp: time of its last change in ns, and its size in bytes.
        digest: of its contents.
    """

    stamp: tuple[int, int]
    digest: bytes


_sources: Final[WeakKeyDictionary[types.ModuleType, Source]] = WeakKeyDictionary()


def read(spec: ModuleSpec) -> Source | None:
    """Return the state of the file of a module to be executed; None: a library's. Takes 50 us."""
    read_import_path()
    return _read(spec.origin) if spec.has_location and spec.origin is not None else None


def note(module: types.ModuleType, source: Source | None) -> None:
    """Record that a module was executed from `source`, which `read` returned."""
    if source is not None and not is_standing(module):
        with suppress(TypeError):  # an object that allows no weak references
            _sources[module] = source


def _read(file: str) -> Source | None:
    if not is_of_library(file):
        with suppress(OSError):  # it has no file of its own
            return Source(_stamp(file), _digest(file))
    return None


def note_all(folder: str) -> None:
    """Note the modules beneath `folder` that were imported before any session, when nothing noted them."""
    for _, file, modules in _modules(folder):
        for module in modules:
            if module not in _sources:
                note(module, _read(file))


def changed(folder: str, among: Iterable[str] | None = None) -> dict[str, str]:
    """Return the modules beneath `folder` whose files were changed after their import, and these files.

    A file that was only rewritten with the same contents has not changed. `among`: looks only at modules of
    these names. To look at all takes 1 ms if 800 are imported.
    """
    found = {}
    for name, file, modules in _modules(folder, among):
        with suppress(OSError):  # it was deleted: nothing newer could be imported
            stamp = _stamp(file)
            older = _older_than(stamp, modules)
            digest = _digest(file) if older else b""
            for module in older:
                if _sources[module].digest != digest:
                    found[name] = file
                else:  # so that the next check is quick again
                    _sources[module] = _sources[module]._replace(stamp=stamp)
    return found


def _older_than(stamp: Any, modules: Iterable[types.ModuleType]) -> list[types.ModuleType]:
    """Those that were noted when their file had another stamp."""
    return [each for each in modules if each in _sources and _sources[each].stamp != stamp]


def has_changed(module: types.ModuleType) -> bool:
    """Whether the file of a module has other contents than when the module was imported, if that is noted."""
    noted, file = _sources.get(module), dictionary_of(module).get("__file__")
    with suppress(OSError):  # it was deleted: nothing newer could be imported
        return noted is not None and type(file) is str and _digest(file) != noted.digest
    return False


def imported() -> dict[str, str]:
    """Return all imported modules that are no library's, and their files."""
    return {name: file for name, file, _ in _modules("")}


def forget(folder: str) -> None:
    """Have the next import of each module beneath `folder` read its file; holders of old ones keep them."""
    for name, _, _ in list(_modules(folder)):
        sys.modules.pop(name, None)
        forget_module(name)


def _modules(
    folder: str, among: Iterable[str] | None = None
) -> Iterator[tuple[str, str, list[types.ModuleType]]]:
    """Yield name and file of each imported module, and the modules of that name: its own, or the workers'."""
    inside, plain = os.path.join(folder, ""), types.ModuleType
    every: dict[str, Any] = sys.modules.copy()
    asked: dict[str, Any] = every if among is None else {name: every.get(name) for name in sorted(among)}
    for name, present in asked.items():
        # Not with `isinstance`, `getattr` or `vars`, which would execute a lazy module.
        kind = type(present)
        if kind is plain:  # nearly all, of which there may be thousands
            file = dictionary_of(present).get("__file__")
            if type(file) is not str or not file.startswith(inside):
                continue
        if name in _PROGRAMS or not issubclass(kind, plain):
            continue
        modules = _of_workers(name) if is_standing(present) else [present]
        files = dict.fromkeys(dictionary_of(each).get("__file__") for each in modules or [present])
        for file in files:  # of a name, workers may have imported several modules
            if type(file) is str and file.startswith(inside) and not is_of_library(file):
                yield name, file, [each for each in modules if dictionary_of(each).get("__file__") == file]


def _of_workers(name: str) -> list[types.ModuleType]:
    mine = (each.modules.get(name) for each in list(IMPORTS.values()))
    return [each for each in mine if each is not None and issubclass(type(each), types.ModuleType)]


def _stamp(file: str) -> tuple[int, int]:
    found = os.stat(file)
    return found.st_mtime_ns, found.st_size


def _digest(file: str) -> bytes:
    # Read as the import that follows does: no interrupt strikes there and leaves the file open.
    return blake2b(SourceFileLoader("", file).get_data(file)).digest()
