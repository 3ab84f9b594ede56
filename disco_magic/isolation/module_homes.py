"""The module of a given name that things come from: the worker's own, or the process's. See `own_modules`."""

from __future__ import annotations

import sys
import types
from contextvars import Context
from typing import TYPE_CHECKING, Any

from disco_magic.callers.namespaces import CELL_MODULE
from disco_magic.isolation.own_modules import Importer
from disco_magic.isolation.standing_modules import (
    IMPORTS,
    Standing,
    imports_of,
    imports_of_process,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def is_of_workers(module: object) -> bool:
    """Whether the module of that name exists once per worker: cells' own, or one that workers import."""
    if not IMPORTS or type(module) is not str:
        return module == CELL_MODULE
    return module == CELL_MODULE or isinstance(sys.modules.get(module), Standing)


def homes_of(name: str, namespaces: Iterable[Mapping[str, Any]] | None) -> list[Mapping[str, Any]]:
    """The contents of the own modules of that name, of the workers whose cells have these namespaces.

    None: of the process's. The caller's module, and the process's, is imported if necessary, as pickle would.
    """
    if namespaces is None:
        found = [Context().run(_imported, imports_of_process(), name)]  # an empty context: no worker
    else:
        behind = [each.get("__builtins__") for each in namespaces]
        imports = [each.get("__import__") for each in behind if isinstance(each, dict)]
        mine = imports_of(name)
        found = [
            _imported(each, name) if each is mine else each.modules.get(name)
            for each in imports
            if isinstance(each, Importer)
        ]
    return [vars(each) for each in found if isinstance(each, types.ModuleType)]


def _imported(imports: Importer, name: str) -> types.ModuleType | None:
    try:
        return imports.load(name)
    except Exception:  # noqa: BLE001 - whatever its execution raises: the caller does without it
        return None
