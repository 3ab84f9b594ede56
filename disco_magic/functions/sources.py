"""Modules beside a program whose files have changed since they were imported.

A process imports a module once: who edits ``model.py`` and runs ``train.py`` again would run what was there
before, without a word. What a program has imported is noted when it ends.
"""

from __future__ import annotations

import os
import sys
import types
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from disco_magic.functions.namespaces import CELL_MODULE
from disco_magic.functions.standing_modules import forget_module
from disco_magic.libraries import is_of_library

if TYPE_CHECKING:
    from collections.abc import Iterator

# Not imported: their files are those of programs.
_PROGRAMS: Final = (CELL_MODULE, "__main__")
# File -> when it was written last, ns, and its size in bytes, as it was imported.
_stamps: Final[dict[str, tuple[int, int]]] = {}


def note(folder: str) -> None:
    """Note the modules beneath `folder` that are imported and were not noted before. Takes some ms."""
    for _, file in _modules(folder):
        if file not in _stamps:
            with suppress(OSError):
                _stamps[file] = _stamp(file)


def changed(folder: str) -> list[str]:
    """The files beneath `folder`, from there, of modules that were imported before they were written anew."""
    found = []
    for _, file in _modules(folder):
        with suppress(OSError):  # it is gone: nothing newer could be imported
            if file in _stamps and _stamps[file] != _stamp(file):
                found.append(os.path.relpath(file, folder))
    return found


def forget(folder: str) -> None:
    """Let the next import of each module beneath `folder` read its file; who has the old one keeps it."""
    for name, file in list(_modules(folder)):
        sys.modules.pop(name, None)
        forget_module(name)
        _stamps.pop(file, None)


def _modules(folder: str) -> Iterator[tuple[str, str]]:
    inside = os.path.join(folder, "")
    for name, module in list(sys.modules.items()):
        if name in _PROGRAMS:
            continue
        # Not by `getattr`: a lazy module would be imported by that.
        file = vars(module).get("__file__") if isinstance(module, types.ModuleType) else None
        if type(file) is str and file.startswith(inside) and not is_of_library(file):
            yield name, file


def _stamp(file: str) -> tuple[int, int]:
    found = os.stat(file)
    return found.st_mtime_ns, found.st_size
