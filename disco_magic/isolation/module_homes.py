"""Where things that come from modules are at home: in whose module of that name. See `own_modules`."""

from __future__ import annotations

import sys
import types
from contextvars import Context
from typing import TYPE_CHECKING, Any

from disco_magic.callers.namespaces import CELL_MODULE
from disco_magic.isolation.standing_modules import (
    IMPORTS,
    Imports,
    Standing,
    imports_of,
    imports_of_process,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def is_of_workers(module: object) -> bool:
    """Whether what comes from the module of that name is each worker's own: a cell's, or of such a module."""
    if not IMPORTS or type(module) is not str:
        return module == CELL_MODULE
    return module == CELL_MODULE or isinstance(sys.modules.get(module), Standing)


def homes_of(name: str, namespaces: Iterable[Mapping[str, Any]] | None) -> list[Mapping[str, Any]]:
    """What is in the own modules of that name of the workers whose cells have these namespaces.

    None: in the process's. The caller's, and the process's, is imported for that, as pickle would have it.
    """
    if namespaces is None:
        found = [Context().run(_imported, imports_of_process(), name)]  # in which nobody is a worker
    else:
        behind = [each.get("__builtins__") for each in namespaces]
        imports = [each.get("__import__") for each in behind if isinstance(each, dict)]
        mine = imports_of(name)
        found = [
            _imported(each, name) if each is mine else each.modules.get(name)
            for each in imports
            if isinstance(each, Imports)
        ]
    return [vars(each) for each in found if isinstance(each, types.ModuleType)]


def _imported(imports: Imports, name: str) -> types.ModuleType | None:
    try:
        return imports.load(name)
    except Exception:  # noqa: BLE001 - whatever it raises when it is executed: who asks does without
        return None
