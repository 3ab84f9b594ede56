"""What is to be done in a while, by one thread for all of it.

A thread for each would be one per cell that was sent and not waited for, and each thread that writes costs
ipykernel a pipe and a socket for ten seconds: a notebook that sends a thousand cells had none left.
"""

from __future__ import annotations

import heapq
import sys
import threading
from contextvars import Context
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING

from disco_magic.locks import new_lock

if TYPE_CHECKING:
    from collections.abc import Callable

# A loop ends this long after the last thing was done: those that are asked for one by one need no new thread.
_LINGER_S = 2.0


class Later:
    """Calls functions in a thread that there is as long as anything is to be done, and a moment longer."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = count()
        self._lock = new_lock()
        self._more = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None

    def call(self, delay_s: float, function: Callable[[], object]) -> None:
        """Call a function in so many seconds, which should not take long: others wait for it."""
        with self._lock:
            heapq.heappush(self._due, (monotonic() + delay_s, next(self._numbers), function))
            # Asked of the thread: one that an interrupt has kept from beginning would be waited for for ever.
            if self._thread is not None and self._thread.is_alive():
                self._more.notify()
                return
            self._thread = threading.Thread(target=self._work, name="disco-later", daemon=True)
            Context().run(self._thread.start)  # it is no thread of the worker's that has ended a cell

    def end(self) -> None:
        """Call nothing any more of what was asked for, and return when no thread is there for it."""
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
            del function  # what it refers to is not kept while there is nothing to do

    def _next(self) -> Callable[[], object] | None:
        """What is to be done next, when its time has come; None: there was nothing for a while."""
        with self._lock:
            while self._thread is threading.current_thread():  # else it was to end
                now = monotonic()
                if self._due and self._due[0][0] <= now:
                    return heapq.heappop(self._due)[2]
                wait_s = self._due[0][0] - now if self._due else _LINGER_S
                if not self._more.wait(wait_s) and not self._due:
                    self._thread = None
            return None


LATER = Later()
"""The notebook's."""
