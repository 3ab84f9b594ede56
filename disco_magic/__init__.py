"""SPMD programs in a notebook: one controller, N workers, registers you can look at.

    %load_ext disco_magic          in a notebook or in terminal IPython
    import disco_magic as disco    in Python: disco.ThreadedSession(num_workers=4)

Names are loaded when they are first used: the import itself takes a millisecond and needs no other package.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from disco_magic import errors
    from disco_magic.core.device import Device, device
    from disco_magic.core.mesh import Mesh
    from disco_magic.core.report import CheckReport
    from disco_magic.errors import (
        CellError,
        DiscoError,
        Divergence,
        PlaneAborted,
        PlaneError,
        PlaneMismatch,
        SessionClosed,
        SyncTimeout,
        UsageMistake,
        WorkerError,
        WorkerLost,
    )
    from disco_magic.functions.context import WorkerContext, worker
    from disco_magic.functions.registry import list_funcs, register_func, remove_func
    from disco_magic.functions.support import support
    from disco_magic.loader.plan import REPLICATE, Shard
    from disco_magic.session.config import ThreadedSession
    from disco_magic.session.current import session
    from disco_magic.session.dref import DPackedFunc, DRef
    from disco_magic.session.modules import DModule
    from disco_magic.session.results import CellResult
    from disco_magic.session.session import Session

__version__ = "0.1.0"

_HOMES = {
    "CellError": "errors",
    "DiscoError": "errors",
    "Divergence": "errors",
    "PlaneAborted": "errors",
    "PlaneError": "errors",
    "PlaneMismatch": "errors",
    "SessionClosed": "errors",
    "SyncTimeout": "errors",
    "UsageMistake": "errors",
    "WorkerError": "errors",
    "WorkerLost": "errors",
    "CellResult": "session.results",
    "CheckReport": "core.report",
    "DModule": "session.modules",
    "DPackedFunc": "session.dref",
    "DRef": "session.dref",
    "Device": "core.device",
    "Mesh": "core.mesh",
    "REPLICATE": "loader.plan",
    "Session": "session.session",
    "Shard": "loader.plan",
    "ThreadedSession": "session.config",
    "WorkerContext": "functions.context",
    "device": "core.device",
    "list_funcs": "functions.registry",
    "register_func": "functions.registry",
    "remove_func": "functions.registry",
    "session": "session.current",
    "support": "functions.support",
    "worker": "functions.context",
}

__all__ = [
    "REPLICATE",
    "CellError",
    "CellResult",
    "CheckReport",
    "DModule",
    "DPackedFunc",
    "DRef",
    "Device",
    "DiscoError",
    "Divergence",
    "Mesh",
    "PlaneAborted",
    "PlaneError",
    "PlaneMismatch",
    "Session",
    "SessionClosed",
    "Shard",
    "SyncTimeout",
    "ThreadedSession",
    "UsageMistake",
    "WorkerContext",
    "WorkerError",
    "WorkerLost",
    "device",
    "errors",
    "list_funcs",
    "register_func",
    "remove_func",
    "session",
    "support",
    "worker",
]


class _Package(ModuleType):
    """Keeps `session` bound to the function of this name.

    The import system binds every submodule it loads to its package: starting the first session would turn
    ``disco_magic.session`` into a module. Import from that by its path.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


def _import_ours_at_once() -> None:
    """Make none of this package's imports lazy, if all are (Python 3.15) or may be from now on."""
    if sys.version_info >= (3, 15):
        from disco_magic.isolation.lazy_imports import import_ours_at_once  # in a function none is lazy

        import_ours_at_once()


sys.modules[__name__].__class__ = _Package
_NOT_YET: Final = "workers are threads so far; disco_magic.ThreadedSession(4) takes the same calls"
if sys.version_info >= (3, 15) and sys.get_lazy_imports() == "all":
    _import_ours_at_once()


def __getattr__(name: str) -> Any:
    if name == "errors":
        return importlib.import_module("disco_magic.errors")
    home = _HOMES.get(name)
    if home is None:
        there = f": {_NOT_YET}" if name in ("ProcessSession", "SocketSession") else ""
        raise AttributeError(f"module 'disco_magic' has no attribute {name!r}{there}")
    _import_ours_at_once()
    value = getattr(importlib.import_module(f"disco_magic.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The names for tab completion, without what only this file needs."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def load_ipython_extension(shell: InteractiveShell) -> None:
    """``%load_ext disco_magic``: add ``%disco`` and ``%%disco``; starts no worker."""
    _import_ours_at_once()
    from disco_magic.notebook.extension import load

    load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """``%unload_ext disco_magic``: end the session and remove everything that was added."""
    from disco_magic.notebook.extension import unload

    unload(shell)
