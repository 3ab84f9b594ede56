"""Functions and classes that a worker puts where the whole process looks end with its program, or with it.

``sys.excepthook = report``, ``logging.setLogRecordFactory(ranked)`` and ``builtins.__import__ = traced``
apply to the process: there is one such place, and statements or C code call what is there. If it stayed when
the worker has ended, its emptied namespace would make every import, log record or error of the notebook fail.
What a library has put there stays, as in a process.
"""

from __future__ import annotations

import builtins
import logging
import sys
import threading
import types
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers import namespaces
from disco_magic.isolation.settings import Setting, attribute
from disco_magic.isolation.standing_modules import IMPORTS
from disco_magic.threads.locks import new_lock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.callers.current import CallingWorker


_HOOKS: Final = (
    # The functions of `builtins` that are each worker's own are in `own_builtins`.
    *(attribute(builtins, name) for name in ("__import__", "__build_class__", "isinstance")),
    *(attribute(sys, name) for name in ("excepthook", "unraisablehook", "breakpointhook")),
    attribute(threading, "excepthook"),
    attribute(warnings, "formatwarning"),
    Setting(threading.gettrace, threading.settrace),
    Setting(threading.getprofile, threading.setprofile),
    Setting(logging.getLogRecordFactory, logging.setLogRecordFactory),
    Setting(logging.getLoggerClass, logging.setLoggerClass),
)
_first: Final[list[Any]] = []  # what each was before any worker ran
_lock: Final = new_lock()


def note_hooks(_: types.ModuleType) -> None:
    """Note what is there; before the first worker runs."""
    _first[:] = now()


def now() -> list[Any]:
    """What each hook is now."""
    return [hook.get() for hook in _HOOKS]


def give_back(worker: CallingWorker, then: Sequence[Any] | None = None) -> None:
    """Take away what `worker` has put there, for what was there before.

    Args:
        worker: has ended, or its program has.
        then: `now` of the program's beginning; None: of the beginning of all workers.
    """
    with _lock:
        # `_first` is empty if making the process's first worker was interrupted.
        for hook, before, first in zip(_HOOKS, _first if then is None else then, _first, strict=False):
            _put_back(worker, hook, before, first)


def _put_back(worker: CallingWorker, hook: Setting, before: Any, first: Any) -> None:
    present = hook.get()
    if present is not before and _is_of(worker, present):
        # The program of the other worker may have ended by now.
        hook.put(first if _is_of_another(worker, before) else before)


def _is_of(worker: CallingWorker, value: Any) -> bool:
    """Whether a function or class is of the worker's cells, or of a module that it imports for itself."""
    names = _globals_of(value)
    if names is None:
        return isinstance(value, type) and worker.namespace.get(value.__name__) is value
    importer = IMPORTS.get(worker)
    return names is worker.namespace or (importer is not None and importer.has_module_of(names))


def _is_of_another(worker: CallingWorker, value: Any) -> bool:
    """Whether a function is of another worker's cells, or of a module that it imports for itself."""
    names = _globals_of(value)
    if names is None or names is worker.namespace:
        return False
    importers = [each for whose, each in IMPORTS.copy().items() if whose is not worker]
    return any(names is each for each in namespaces.of_everybody()) or any(
        each.has_module_of(names) for each in importers
    )


def _globals_of(value: Any) -> dict[str, Any] | None:
    """The globals of a function, a method, a partial call or a callable object; None: of anything else."""
    while isinstance(value, partial | types.MethodType):
        value = value.func if isinstance(value, partial) else value.__func__
    if not isinstance(value, types.FunctionType) and not isinstance(value, type):
        value = type(value).__dict__.get("__call__")
    return value.__globals__ if isinstance(value, types.FunctionType) else None
