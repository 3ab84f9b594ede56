"""Signal handlers that a worker sets: kept per worker, and called if the worker sends itself the signal.

Processes of programs set some, for instance to handle preemption. Python accepts handlers only from its main
thread, in which no worker runs: a program that sets one would fail there. Signals that come from outside go
to the process's handlers.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.current import calling_worker
from disco_magic.callers.per_worker import PerProgram
from disco_magic.callers.replaced import replace_all, replacing
from disco_magic.threads.locks import new_lock

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, ModuleType

_OWN: Final = PerProgram()
_LOCK: Final = new_lock()
# Programs set these to have the process get the signal: by a timer, or from a process that it starts. A
# worker's handler would never be called.
_ALARMS: Final = frozenset({"SIGALRM", "SIGVTALRM", "SIGPROF"})
_OF_THE_PROCESS: Final = _ALARMS | {"SIGCHLD"}


def _mine() -> dict[Any, Any] | None:
    """The caller's handlers; None outside of workers, and in a forked process: there Python takes them."""
    return None if threading.current_thread() is threading.main_thread() else _OWN.mine()


def _name_of(number: Any) -> str:
    """The name of a signal; "" if there is none of that number, so that Python raises its usual error."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""


def _is_debugger(frame: FrameType) -> bool:
    """Whether pdb is setting a handler: it copes with a refusal, but would restore the old one elsewhere."""
    return frame.f_globals.get("__name__") == "pdb"


def _call(number: int, depth: int) -> bool:
    """Call the worker's own handler, if it has one; return whether it has."""
    handler = (_mine() or {}).get(number)
    if not callable(handler):
        return handler == signal.SIG_IGN
    handler(number, sys._getframe(depth))  # noqa: SLF001 - handlers get the frame in which the signal came
    return True


def fit_signal(module: ModuleType) -> Callable[[], None]:
    """Let workers set handlers; `module` is ``signal``.

    The other functions that concern handlers are replaced when a worker first sets one: code that waits for
    workers reads and sets handlers again and again.
    """
    process = module.signal
    undoing: list[Callable[[], None]] = []

    @replacing(module, "signal")
    def set_handler(signalnum: int, handler: Any, /) -> Any:
        mine = None if calling_worker() is None else _mine()
        name = "" if mine is None else _name_of(signalnum)
        if name in _OF_THE_PROCESS:
            timer = "; on a worker, threading.Timer calls after a time" if name in _ALARMS else ""
            raise ValueError(
                f"signal only works in main thread: {name} comes to the process in which all workers are - "
                f"set its handler in the notebook{timer}"
            )
        if mine is None or not name or _is_debugger(sys._getframe(1)):  # noqa: SLF001 - the caller
            return process(signalnum, handler)
        if not (callable(handler) or handler in (signal.SIG_IGN, signal.SIG_DFL)):
            raise TypeError("signal handler must be signal.SIG_IGN, signal.SIG_DFL, or a callable object")
        before = mine.get(signalnum, signal.getsignal(signalnum))
        mine[signalnum] = handler
        with _LOCK:
            if not undoing:
                undoing.append(_fit_the_rest(module))
        if callable(handler):
            warnings.warn(
                f"{name} goes to the process in which all workers are: a worker's handler is called only if "
                "that worker sends it",
                stacklevel=2,
            )
        return before

    def take() -> None:
        set_handler.take()
        while undoing:
            undoing.pop()()

    set_handler.put()
    return take


def _fit_the_rest(module: ModuleType) -> Callable[[], None]:
    """Make the functions that read handlers, and those that send signals, use workers' handlers."""

    @replacing(module, "getsignal")
    def handler_of(signalnum: int, /) -> Any:
        mine = _mine() or {}
        return mine[signalnum] if signalnum in mine else handler_of.below(signalnum)

    @replacing(module, "raise_signal")
    def raise_signal(signalnum: int, /) -> None:
        if not _call(signalnum, 2):
            raise_signal.below(signalnum)

    @replacing(os, "kill")
    def kill(pid: int, signal: int, /) -> None:
        if pid != os.getpid() or not _call(signal, 2):
            kill.below(pid, signal)

    return replace_all([handler_of, raise_signal, kill])
