"""`breakpoint` and `pdb.set_trace` on workers, which open the worker's debugger; see `debugger`."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.replaced import replace_all, replacing
from disco_magic.errors import UsageMistake
from disco_magic.notebook.debugging.asking import check_attended

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from disco_magic.functions.context import WorkerContext

_OURS: Final = ("", "pdb.set_trace")


def breakpoint_for(worker: WorkerContext) -> Callable[..., Any]:
    """The `breakpoint` function of one worker's cells."""

    def worker_breakpoint(*args: Any, **kwargs: Any) -> Any:
        """Open this worker's debugger here; ``PYTHONBREAKPOINT=0`` turns it off, as usual."""
        return _break(worker, sys._getframe(1), args, kwargs)  # noqa: SLF001 - pdb finds its caller so, too

    return worker_breakpoint


def _break(worker: WorkerContext, frame: FrameType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    wanted = os.environ.get("PYTHONBREAKPOINT", "")
    if wanted == "0":
        return None
    if wanted not in _OURS:
        return sys.__breakpointhook__(*args, **kwargs)  # noqa: T100 - what the user has chosen
    _open(worker, frame, "breakpoint()")
    return None


def _open(worker: WorkerContext, frame: FrameType, what: str) -> None:
    check_attended(what)
    if threading.get_ident() != worker.thread:
        raise UsageMistake(
            f"{what} was called in a thread that worker {worker.id} has started; only the worker's own "
            "thread has a debugger: call it in the cell itself, or in a function that the cell calls"
        )
    from disco_magic.notebook.debugging.debugger import (
        WorkerDebugger,  # imports pdb, which takes 10 ms, so only where it is needed
    )

    stepping = getattr(sys.gettrace(), "__self__", None)
    debugger = stepping if isinstance(stepping, WorkerDebugger) else WorkerDebugger(worker, what)
    debugger.set_trace(frame)


def _here(frame: FrameType | None) -> tuple[WorkerContext, FrameType] | None:
    """The worker whose cell the calling thread executes, and the innermost frame in it; or None."""
    from disco_magic.functions.context import calling_context  # loads NumPy

    worker = calling_context()
    if worker is None:
        return None
    from disco_magic.notebook.debugging.debugger import cell_of, is_hidden

    if cell_of(frame) is None:
        return None
    while frame is not None and is_hidden(frame):
        frame = frame.f_back
    return None if frame is None else (worker, frame)


class _Hook:
    """Replaces `sys.breakpointhook`, for modules that cells call."""

    def __init__(self, below: Callable[..., Any]) -> None:
        self.below = below

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        here = _here(sys._getframe(1))  # noqa: SLF001 - as above
        return self.below(*args, **kwargs) if here is None else _break(*here, args, kwargs)


class Breakpoints:
    """Replaces `breakpoint` and `set_trace` for all modules once a cell was sent to workers.

    Replacing one method of `bdb` covers all debuggers built on it: pdb, IPython's, ipdb. A kernel's own hook,
    debugpy's, does nothing while no front end debugs.
    """

    def __init__(self) -> None:
        self._undo: Callable[[], None] | None = None

    def install(self) -> None:
        """Install the replacements; cheap if they are installed already."""
        if not isinstance(sys.breakpointhook, _Hook):
            sys.breakpointhook = _Hook(sys.breakpointhook)
        if self._undo is None:
            self._undo = _replace_set_trace()

    def remove(self) -> None:
        """Restore the former functions."""
        if isinstance(sys.breakpointhook, _Hook):
            sys.breakpointhook = sys.breakpointhook.below
        if self._undo is not None:
            self._undo()
            self._undo = None


def _replace_set_trace() -> Callable[[], None]:
    from bdb import Bdb

    @replacing(Bdb, "set_trace")
    def set_trace(self: Bdb, frame: FrameType | None = None, *args: Any, **kwargs: Any) -> None:
        """Start debugging at `frame`; in a worker's cell, with the worker's debugger."""
        frame = frame or sys._getframe(1)  # noqa: SLF001 - as the method below
        here = _here(frame)
        if here is None:
            set_trace.below(self, frame, *args, **kwargs)
        else:
            _open(*here, "set_trace()")

    return replace_all([set_trace])


BREAKPOINTS: Final = Breakpoints()
