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
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from disco_magic.callers import namespaces
from disco_magic.isolation.own_modules import Importer
from disco_magic.isolation.standing_modules import IMPORTS
from disco_magic.locks import new_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from disco_magic.callers.current import CallingWorker


class _Place(NamedTuple):
    """Where the process looks for a function or a class."""

    name: str
    get: Callable[[], Any]
    put: Callable[[Any], object]


def _attribute(owner: types.ModuleType, name: str) -> _Place:
    return _Place(f"{owner.__name__}.{name}", partial(getattr, owner, name), partial(setattr, owner, name))


_PLACES: Final = (
    # The functions of `builtins` that are each worker's own are in `own_builtins`.
    *(_attribute(builtins, name) for name in ("__import__", "__build_class__", "isinstance")),
    *(_attribute(sys, name) for name in ("excepthook", "unraisablehook", "breakpointhook")),
    _attribute(threading, "excepthook"),
    _Place("threading.settrace", threading.gettrace, threading.settrace),
    _Place("threading.setprofile", threading.getprofile, threading.setprofile),
    _Place("logging.setLogRecordFactory", logging.getLogRecordFactory, logging.setLogRecordFactory),
    _Place("logging.setLoggerClass", logging.getLoggerClass, logging.setLoggerClass),
)
_first: Final[dict[str, Any]] = {}  # what was there before any worker ran
_lock: Final = new_lock()


def begin() -> None:
    """Note what is there; before the first worker runs."""
    _first.update(now())


def now() -> dict[str, Any]:
    """What is in each place, by its name."""
    return {place.name: place.get() for place in _PLACES}


def give_back(worker: CallingWorker, then: Mapping[str, Any] | None = None) -> None:
    """Take away what `worker` has put there, for what was there before.

    Args:
        worker: has ended, or its program has.
        then: `now` of the program's beginning; None: of the beginning of all workers.
    """
    with _lock:
        for place in _PLACES:
            present = place.get()
            before = _first.get(place.name) if then is None else then[place.name]
            if present is before or not _is_of(worker, present):
                continue
            if then is not None and _is_of_another(worker, before):  # whose program may have ended by now
                before = _first.get(place.name)
            place.put(before)


def _is_of(worker: CallingWorker, value: Any) -> bool:
    """Whether a function or class is of the worker's cells, or of a module that it imports for itself."""
    names = _globals_of(value)
    if names is None:
        return isinstance(value, type) and worker.namespace.get(value.__name__) is value
    importer = IMPORTS.get(worker)
    return names is worker.namespace or (isinstance(importer, Importer) and importer.has_module_of(names))


def _is_of_another(worker: CallingWorker, value: Any) -> bool:
    """Whether a function is of another worker's cells, or of a module that it imports for itself."""
    names = _globals_of(value)
    if names is None or names is worker.namespace:
        return False
    importers = [each for whose, each in list(IMPORTS.items()) if whose is not worker]
    return any(names is each for each in namespaces.of_everybody()) or any(
        isinstance(each, Importer) and each.has_module_of(names) for each in importers
    )


def _globals_of(value: Any) -> dict[str, Any] | None:
    """The globals of a function, a method, a partial call or a callable object; None: of anything else."""
    while isinstance(value, partial | types.MethodType):
        value = value.func if isinstance(value, partial) else value.__func__
    if not isinstance(value, types.FunctionType) and not isinstance(value, type):
        value = type(value).__dict__.get("__call__")
    return value.__globals__ if isinstance(value, types.FunctionType) else None
