"""Watches threads that may not be struck where they are, until they are elsewhere.

One thread watches all of them, with one look. A watcher for each, which asks Python for the frames of all,
took time in the square of how many wait for the same import.
"""

from __future__ import annotations

import threading
from time import perf_counter
from typing import TYPE_CHECKING, Final

from disco_magic.threads.ends import has_ended
from disco_magic.threads.locks import new_lock
from disco_magic.threads.own_threads import start_thread
from disco_magic.threads.patience import pause
from disco_magic.threads.switching import SWITCHING
from disco_magic.workers.fragile import end_slice, strikable

if TYPE_CHECKING:
    from collections.abc import Callable

_PAUSE_S: Final = 0.5e-3
# So many looks in a row, which takes longer than a stop; then twenty per second: it may stay there for ever.
_OFTEN: Final = 2000
_SELDOM_S: Final = 50e-3
# Threads that contend for a lock release the GIL exactly where they wait for the lock. A look would never
# find them anywhere else, unless they have to release it at any instruction.
_ANYWHERE_S: Final = 1e-6
# A pause that takes longer means that many threads compute. They are kept from that if all wake so often.
_CROWDED_S: Final = 20e-3


class _Pursuit:
    def __init__(self, thread_id: int, attempt: Callable[[bool], bool]) -> None:
        self.thread_id = thread_id
        self.attempt = attempt
        # Now: if it ends, our own thread, which is started next, may get its number.
        self._target = next((each for each in threading.enumerate() if each.ident == thread_id), None)
        self.looks = 0

    def is_over(self, *, may: bool) -> bool:
        """Whether the thread has ended or was struck, or need not be; if it `may` be struck, it is tried."""
        self.looks += 1
        return self._target is None or has_ended(self._target) or self.attempt(may)


class Pursuits:
    """All that are under way; a thread of ours works on them, as long as there are any."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._new: list[_Pursuit] = []
        self._thread: threading.Thread | None = None

    def begin(self, thread_id: int, attempt: Callable[[bool], bool]) -> None:
        """Strike a thread as soon as possible.

        Args:
            thread_id: the thread to strike.
            attempt: told whether the thread may be struck where it is now; strikes it if so. Returns whether
                the pursuit is over. Called again and again, by a thread of ours.

        Raises:
            RuntimeError: there are too many threads, or the interpreter is ending.
        """
        pursuit = _Pursuit(thread_id, attempt)
        with self._lock:
            self._new.append(pursuit)
            if self._thread is None or has_ended(self._thread):  # or it was left in a fork's parent
                try:
                    self._thread = start_thread("disco-pursuit", self._run)
                except RuntimeError:
                    self._new.remove(pursuit)
                    raise

    def _run(self) -> None:
        under_way: list[_Pursuit] = []
        took_s = _CROWDED_S
        while under_way := self._with_new(under_way):
            may = {*strikable([each.thread_id for each in under_way])}
            under_way = [each for each in under_way if not each.is_over(may=each.thread_id in may)]
            took_s = self._pause(under_way, took_s)

    def _with_new(self, under_way: list[_Pursuit]) -> list[_Pursuit]:
        """These and those that were begun meanwhile; if there are none, the thread is about to end."""
        with self._lock:
            new, self._new = self._new, []
            if not under_way and not new:
                self._thread = None
                return []
        return [*under_way, *new]

    def _pause(self, under_way: list[_Pursuit], last_s: float) -> float:
        """Pause before the next look; return how long that took. `last_s`: what the last pause took."""
        began = perf_counter()
        if not any(each.looks < _OFTEN for each in under_way):
            pause(_SELDOM_S if under_way else 0)
        elif last_s < _CROWDED_S:
            with SWITCHING.held(_ANYWHERE_S):
                pause(_PAUSE_S)
        else:
            pause(_PAUSE_S)
        end_slice()  # a thread that has waited for the GIL since then asks for it at once
        return perf_counter() - began


PURSUITS: Final = Pursuits()
