"""Calls functions after a delay, all in one thread.

A timer thread for each would mean one per cell that is sent and not waited for, or per update of a widget.
Each thread that writes costs ipykernel a pipe and a socket for ten seconds: a notebook that sent a thousand
cells ran out of them.
"""

from __future__ import annotations

import heapq
import sys
import threading
from contextlib import suppress
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING

from disco_magic.threads.ends import has_ended
from disco_magic.threads.locks import new_rlock
from disco_magic.threads.own_threads import start_thread

if TYPE_CHECKING:
    from collections.abc import Callable

# The thread ends this long after its last call, so that calls in short succession share one thread.
_LINGER_S = 2.0


class Later:
    """Calls functions in a thread that lives as long as calls are due, and a moment longer."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = count()
        self._lock = new_rlock()  # reentrant: a finalizer may run in the middle of `call`, and show something
        self._more = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None

    def call(self, delay_s: float, function: Callable[[], object]) -> None:
        """Call `function` after a delay. It should be quick, because other calls wait for it.

        If no thread can be started, the next call tries again.
        """
        with self._lock:
            heapq.heappush(self._due, (monotonic() + delay_s, next(self._numbers), function))
            if self._thread is not None and not has_ended(self._thread):
                self._more.notify()
                return
            with suppress(RuntimeError):  # too many threads, or the interpreter is ending
                self._thread = start_thread("disco-later", self._work)

    def end(self) -> None:
        """Cancel all calls, and return when the thread has ended."""
        with self._lock:
            self._due.clear()
            thread, self._thread = self._thread, None
            self._more.notify()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _work(self) -> None:
        while (function := self._next()) is not None:
            try:
                function()
            except Exception:  # noqa: BLE001 - told as Python tells it of a thread; the others are to be called
                sys.excepthook(*sys.exc_info())
            del function  # do not keep what it refers to while there is nothing to do

    def _next(self) -> Callable[[], object] | None:
        """Wait for the next call that is due; None if there was none for a while."""
        with self._lock:
            return self._next_locked()

    def _next_locked(self) -> Callable[[], object] | None:
        while self._thread is threading.current_thread():  # until `end`
            now = monotonic()
            if self._due and self._due[0][0] <= now:
                return heapq.heappop(self._due)[2]
            wait_s = self._due[0][0] - now if self._due else _LINGER_S
            if not self._more.wait(wait_s) and not self._due:
                self._thread = None
        return None


LATER = Later()
"""The instance that the notebook uses."""
