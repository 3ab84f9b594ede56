"""Modules beside a program whose files have changed since they were imported.

A process imports a module once: who edits ``model.py`` and runs ``train.py`` again would run what was there
before, without a word. What a file has in it is noted as it is read for an import: it may be edited as soon
as that is over, while the program still runs.
"""

from __future__ import annotations

import os
import sys
import types
from contextlib import suppress
from hashlib import blake2b
from importlib.machinery import SourceFileLoader
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakKeyDictionary

from disco_magic.callers.module_classes import dictionary_of
from disco_magic.callers.namespaces import CELL_MODULE
from disco_magic.isolation.standing_modules import IMPORTS, forget_module, is_standing
from disco_magic.libraries import is_of_library

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.machinery import ModuleSpec

# Not imported: their files are those of programs.
_PROGRAMS: Final = (CELL_MODULE, "__main__")


class Source(NamedTuple):
    """A file as it was imported.

    Attributes:
        stamp: when it was written last, ns, and its size in bytes.
        digest: of what was in it.
    """

    stamp: tuple[int, int]
    digest: bytes


_sources: Final[WeakKeyDictionary[types.ModuleType, Source]] = WeakKeyDictionary()


def read(spec: ModuleSpec) -> Source | None:
    """What is in the file of a module that is about to be executed; None: it is a library's. Takes 50 us."""
    return _read(spec.origin) if spec.has_location and spec.origin is not None else None


def note(module: types.ModuleType, source: Source | None) -> None:
    """Note that a module is what `read` has read."""
    if source is not None and not is_standing(module):
        with suppress(TypeError):  # an object that allows no weak references
            _sources[module] = source


def _read(file: str) -> Source | None:
    if not is_of_library(file):
        with suppress(OSError):  # it is in no file of its own
            return Source(_stamp(file), _digest(file))
    return None


def note_all(folder: str) -> None:
    """Note the modules beneath `folder` that were imported before any session, when nobody noted that."""
    for _, file, modules in _modules(folder):
        for module in modules:
            if module not in _sources:
                note(module, _read(file))


def changed(folder: str) -> dict[str, str]:
    """The modules beneath `folder` that were imported before their files were changed, and these files.

    A file that only was written again, or is as it was, has not changed.
    """
    found = {}
    for name, file, modules in _modules(folder):
        with suppress(OSError):  # it is gone: nothing newer could be imported
            stamp = _stamp(file)
            older = [each for each in modules if each in _sources and _sources[each].stamp != stamp]
            digest = _digest(file) if older else b""
            for module in older:
                if _sources[module].digest != digest:
                    found[name] = file
                else:  # the next look is a short one again
                    _sources[module] = _sources[module]._replace(stamp=stamp)
    return found


def imported() -> dict[str, str]:
    """All modules that are imported and no library's, and their files."""
    return {name: file for name, file, _ in _modules("")}


def forget(folder: str) -> None:
    """Let the next import of each module beneath `folder` read its file; who has the old one keeps it."""
    for name, _, _ in list(_modules(folder)):
        sys.modules.pop(name, None)
        forget_module(name)


def _modules(folder: str) -> Iterator[tuple[str, str, list[types.ModuleType]]]:
    """Name and file of each that is imported, and all of that name that workers have."""
    inside = os.path.join(folder, "")
    for name, module in list(sys.modules.items()):
        # Not by `isinstance`, `getattr` or `vars`: a lazy module would be executed by that.
        if name in _PROGRAMS or not issubclass(type(module), types.ModuleType):
            continue
        file = dictionary_of(module).get("__file__")
        if type(file) is str and file.startswith(inside) and not is_of_library(file):
            yield name, file, _of_workers(name) if is_standing(module) else [module]


def _of_workers(name: str) -> list[types.ModuleType]:
    mine = (each.modules.get(name) for each in list(IMPORTS.values()))
    return [each for each in mine if isinstance(each, types.ModuleType)]


def _stamp(file: str) -> tuple[int, int]:
    found = os.stat(file)
    return found.st_mtime_ns, found.st_size


def _digest(file: str) -> bytes:
    # As the import that follows reads it: a stop does not strike there, and leave the file open.
    return blake2b(SourceFileLoader("", file).get_data(file)).digest()
