"""When inspectors are refreshed: after each cell, and every second where that was asked for.

One thread for all inspectors of a notebook, there only while one of them is open. A cell that ends only wakes
it: the next cell need not wait for a table to be drawn.
"""

from __future__ import annotations

import threading
from typing import Final, Protocol

PERIOD_S: Final = 1.0
PAUSE_S: Final = 0.3
"""Between two refreshes, so that "Run all" over short cells is not drawn twenty times a second."""


class Refreshed(Protocol):
    """What can be refreshed. No method raises: what fails is shown in the inspector itself."""

    live: bool

    def refresh(self) -> None:
        """Look at the session and show what is there; called from the refresher's thread."""

    def cell_ended(self) -> None:
        """A cell has ended; called from the notebook's thread, before the next one begins."""

    def close(self) -> None:
        """It is to be removed."""


class Refresher:
    """Refreshes the inspectors that are open; removing the last one ends the thread.

    What callers may rely on: no lock is held while an inspector draws; every method may be called from any
    thread, `remove` also by an inspector that is being refreshed.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._open: list[Refreshed] = []
        self._due = False
        self._thread: threading.Thread | None = None

    def add(self, inspector: Refreshed) -> None:
        """Refresh `inspector` from now on."""
        with self._changed:
            self._open.append(inspector)
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="disco-inspector", daemon=True)
                self._thread.start()

    def remove(self, inspector: Refreshed) -> None:
        """Do not refresh `inspector` any more; nothing if it was not added."""
        with self._changed:
            if inspector in self._open:
                self._open.remove(inspector)
            self._changed.notify_all()

    def inspectors(self) -> list[Refreshed]:
        """Those that are open."""
        with self._changed:
            return list(self._open)

    def join(self) -> None:
        """Wait for the thread to end, after the last inspector was removed."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def cell_ended(self, *_: object) -> None:
        """Refresh all inspectors soon; under a microsecond if none is open."""
        if not self._open:
            return
        for inspector in self.inspectors():
            inspector.cell_ended()
        self.soon()

    def soon(self) -> None:
        """Refresh all inspectors as soon as the pause since the last time is over."""
        with self._changed:
            self._due = True
            self._changed.notify_all()

    def changed(self) -> None:
        """An inspector's `live` has changed."""
        with self._changed:
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                due = self._sleep()
                if not self._open:
                    self._thread = None
                    return
                chosen = [inspector for inspector in self._open if due or inspector.live]
            while chosen:  # nothing is left in this frame, which lives as long as the thread
                chosen.pop(0).refresh()
            with self._changed:
                self._changed.wait_for(lambda: not self._open, PAUSE_S)

    def _sleep(self) -> bool:
        """Until something is to be done; whether it is everybody's turn, not only that of the live ones."""
        while self._open and not self._due:
            live = any(inspector.live for inspector in self._open)
            if not self._changed.wait(PERIOD_S if live else None) and live:
                break
        due, self._due = self._due, False
        return due
