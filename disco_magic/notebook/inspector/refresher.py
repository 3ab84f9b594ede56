"""Refreshes inspectors: after each cell, within long ones, while workers go on, and every second if live.

There is one thread for all inspectors of a notebook, only while any is open. The end of a cell only wakes it,
so the next cell does not wait for a table to be drawn. So does its beginning: there is no poll while nothing
runs.
"""

from __future__ import annotations

import threading
from operator import attrgetter
from time import monotonic
from typing import TYPE_CHECKING, Final

from disco_magic.threads.locks import new_rlock
from disco_magic.threads.own_threads import start_thread

if TYPE_CHECKING:
    from disco_magic.notebook.inspector.panel import Inspector

PERIOD_S: Final = 1.0
PAUSE_S: Final = 0.3
"""Shortest pause between refreshes, so that "Run all" of short cells does not draw twenty times a second."""

FIRST_S: Final = 1.0
AGAIN_S: Final = 2.0
"""A cell that takes longer is looked into after so many seconds, and then again after so many."""

_SHARE: Final = 20
"""Looks into a running cell take at most one of so many seconds: they share the GIL with the workers."""


class Refresher:
    """Refreshes the open inspectors; removing the last one ends the thread.

    Callers may rely on this: no lock is held while an inspector draws; every method may be called from any
    thread, `remove` also by an inspector that is being refreshed. Inspectors do not raise: they show errors.
    """

    def __init__(self) -> None:
        self._lock = new_rlock()  # each cell of the notebook takes it twice
        self._changed = threading.Condition(self._lock)
        self._open: list[Inspector] = []
        self._due = False
        self._in_cell = False
        self._next: float | None = None  # when to look into what runs; None: nothing does
        self._thread: threading.Thread | None = None

    def add(self, inspector: Inspector) -> None:
        """Add `inspector` to those that are refreshed."""
        with self._changed:
            if self._thread is None:
                # First, because it may fail: then nothing has changed.
                self._thread = start_thread("disco-inspector", self._run)
            self._open.append(inspector)
            self._changed.notify_all()

    def remove(self, inspector: Inspector) -> None:
        """Refresh `inspector` no longer; does nothing if it was not added."""
        with self._changed:
            if inspector in self._open:
                self._open.remove(inspector)
            self._changed.notify_all()

    def inspectors(self) -> list[Inspector]:
        """The open inspectors."""
        with self._changed:
            return list(self._open)

    def join(self) -> None:
        """Wait for the thread to end, after the last inspector was removed."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def cell_began(self, *_: object) -> None:
        """Refresh all inspectors from time to time until it ends; under a microsecond if none is open."""
        with self._lock:  # always, because the cell may open an inspector
            self._in_cell = True
            self._next = monotonic() + FIRST_S
            if self._open:
                self._changed.notify_all()

    def cell_ended(self, *_: object) -> None:
        """Refresh all inspectors soon, and then from time to time if workers go on (``--nowait``).

        Takes under a microsecond if none is open.
        """
        with self._lock:
            self._in_cell = False
            self._next = None
        if not self._open:
            return
        for inspector in self.inspectors():
            inspector.cell_ended()
        self.soon()

    def soon(self) -> None:
        """Refresh all inspectors as soon as the pause since the last refresh is over."""
        with self._changed:
            self._due = True
            self._changed.notify_all()

    def now(self) -> None:
        """Refresh all inspectors in the calling thread: what they look at is about to end."""
        for inspector in self.inspectors():
            inspector.refresh()

    def changed(self) -> None:
        """Note that `live` of an inspector has changed."""
        with self._changed:
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                due = self._sleep()
                if not self._open:
                    self._thread = None
                    return
                chosen = [*self._open] if due else [*filter(attrgetter("live"), self._open)]
            began, busy = monotonic(), False
            while chosen:  # emptied, because this frame lives as long as the thread
                busy |= _is_busy(chosen.pop(0))
            with self._changed:
                if due and (busy or self._in_cell):
                    ended = monotonic()
                    self._next = max(self._next or 0.0, ended + max(AGAIN_S, _SHARE * (ended - began)))
                elif due:
                    self._next = None  # this was the look after the end
                self._changed.wait_for(lambda: not self._open, PAUSE_S)

    def _sleep(self) -> bool:
        """Wait until there is something to do; return whether to refresh all, not just live inspectors."""
        asleep = monotonic()
        while self._open and not self._due:
            now = monotonic()
            self._due = self._next is not None and self._next <= now
            ends = [asleep + PERIOD_S] if any(inspector.live for inspector in self._open) else []
            ends += [] if self._next is None else [self._next]
            left = min(ends) - now if ends else None
            if left is not None and left <= 0:
                break
            self._changed.wait(left)
        due, self._due = self._due, False
        return due


def _is_busy(inspector: Inspector) -> bool:
    """Refresh an inspector; whether it found workers that are executing something."""
    inspector.refresh()
    return inspector.is_busy
