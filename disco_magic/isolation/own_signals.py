"""Handlers of signals that a worker sets: kept for it, and called if it sends itself the signal.

A process of a program sets some, for being preempted for one. Python takes them from its main thread only, in
which no worker is: a program that sets one would end there. The process's signals go to the process.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.current import calling_worker
from disco_magic.callers.per_worker import PerProgram
from disco_magic.callers.replaced import Replaced, replace_all
from disco_magic.locks import new_lock

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, ModuleType

_OWN: Final = PerProgram()
_LOCK: Final = new_lock()
# Who sets one of these goes on to have the process get it: by a timer, for a process that it starts.
_OF_THE_PROCESS: Final = frozenset({"SIGALRM", "SIGVTALRM", "SIGPROF", "SIGCHLD"})


def _mine() -> dict[Any, Any] | None:
    """The caller's; None: it is no worker. In a process that one has forked Python takes handlers."""
    return None if threading.current_thread() is threading.main_thread() else _OWN.mine()


def _is_kept(number: Any) -> bool:
    """Whether a worker's handler of that signal is; else Python says what it says in any other thread."""
    try:
        return signal.Signals(number).name not in _OF_THE_PROCESS
    except ValueError:
        return False


def _is_debugger(frame: FrameType) -> bool:
    """Whether that is pdb's: it goes without where it is refused, and puts back elsewhere what it has got."""
    return frame.f_globals.get("__name__") == "pdb"


def _call(number: int, depth: int) -> bool:
    """Call the worker's own handler, if it has one; whether it has."""
    handler = (_mine() or {}).get(number)
    if not callable(handler):
        return handler == signal.SIG_IGN
    handler(number, sys._getframe(depth))  # noqa: SLF001 - a handler is given where the signal came
    return True


def fit_signal(module: ModuleType) -> Callable[[], None]:
    """Let workers set handlers; `module` is ``signal``.

    What else knows of handlers does so from when a worker has set one: whoever waits for workers asks and
    sets some, again and again.
    """
    process = module.signal
    undoing: list[Callable[[], None]] = []

    @wraps(process)
    def set_handler(signalnum: int, handler: Any, /) -> Any:
        mine = None if calling_worker() is None else _mine()
        if mine is None or not _is_kept(signalnum) or _is_debugger(sys._getframe(1)):  # noqa: SLF001 - who sets it
            return process(signalnum, handler)
        if not (callable(handler) or handler in (signal.SIG_IGN, signal.SIG_DFL)):
            raise TypeError("signal handler must be signal.SIG_IGN, signal.SIG_DFL, or a callable object")
        before = mine.get(signalnum, signal.getsignal(signalnum))
        mine[signalnum] = handler
        with _LOCK:
            if not undoing:
                undoing.append(_fit_the_rest(module))
        if callable(handler):
            name = signal.Signals(signalnum).name
            warnings.warn(
                f"{name} goes to the process in which all workers are: a worker's handler is called only if "
                "that worker sends it",
                stacklevel=2,
            )
        return before

    def take() -> None:
        handlers.take()
        while undoing:
            undoing.pop()()

    handlers = Replaced(module, "signal", set_handler)
    handlers.put()
    return take


def _fit_the_rest(module: ModuleType) -> Callable[[], None]:
    """Let what asks for handlers, and what sends signals, know of those of workers."""

    def handler_of(signalnum: int, /) -> Any:
        mine = _mine() or {}
        return mine[signalnum] if signalnum in mine else asked.below(signalnum)

    def raise_signal(signalnum: int, /) -> None:
        if not _call(signalnum, 2):
            raised.below(signalnum)

    def kill(pid: int, signal: int, /) -> None:
        if pid != os.getpid() or not _call(signal, 2):
            killed.below(pid, signal)

    asked = Replaced(module, "getsignal", handler_of)
    raised = Replaced(module, "raise_signal", raise_signal)
    killed = Replaced(os, "kill", kill)
    return replace_all([asked, raised, killed])
