"""Shows the waiting user how far a load is: a tqdm bar where tqdm is installed, else a line per 10 %.

Only the waiting thread of the controller writes. Workers count (`Tally`); that thread reads the counts.
"""

from __future__ import annotations

import importlib
import sys
import time
from typing import Any, Final, Protocol

import numpy as np

from disco_magic.core.words import human_bytes

# A shorter load shows nothing, unless asked to.
SILENT_S: Final = 1.0
# How often the waiting thread looks.
LOOK_S: Final = 0.1


class Display(Protocol):
    """Something that shows a number of bytes."""

    def show(self, done: int) -> None:
        """Show that `done` bytes were loaded."""

    def close(self) -> None:
        """End the display, which will not change any more."""


class Bar:
    """A bar of tqdm: a widget in notebooks that can show one, text elsewhere."""

    def __init__(self, tqdm: Any, what: str, total: int) -> None:
        self._bar = tqdm(desc=what, total=total, unit="B", unit_scale=True, unit_divisor=1024)

    def show(self, done: int) -> None:
        """Move the bar forward."""
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """Leave the bar as it is."""
        self._bar.close()


class Lines:
    """Writes a line to stderr whenever another tenth is done."""

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total = what, total
        self._tenths = 0

    def show(self, done: int) -> None:
        """Write the line if another tenth is done."""
        tenths = 10 * done // self._total if self._total else 10
        if tenths > self._tenths:
            self._tenths = tenths
            sys.stderr.write(f"{self._what}: {10 * tenths} % of {human_bytes(self._total)}\n")
            sys.stderr.flush()

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


def display(what: str, total: int) -> Display:
    """Return a bar if tqdm is installed, else lines."""
    try:
        auto = importlib.import_module("tqdm.auto")
    except ImportError:
        return Lines(what, total)
    return Bar(auto.tqdm, what, total)


class Progress:
    """Decides whether a load is shown, and from when on.

    Args:
        what: what is being loaded; begins the text.
        total: bytes that all workers together will get.
        shown: True: at once; False: never; None: after a second.
    """

    def __init__(self, what: str, total: int, *, shown: bool | None) -> None:
        self._what, self._total, self._shown = what, total, shown
        self._display: Display | None = None

    def at(self, done: int, elapsed_s: float) -> None:
        """Report that `done` bytes were loaded after `elapsed_s` seconds."""
        if self._display is None:
            if self._shown is False or (self._shown is None and elapsed_s < SILENT_S):
                return
            self._display = display(self._what, self._total)
        self._display.show(done)

    def close(self) -> None:
        """End the display: the load has ended, successfully or not."""
        if self._display is not None:
            self._display.close()


class Watch:
    """The waiting thread's view of a load: its time, its bytes, its display."""

    def __init__(
        self, verb: str, tally: Tally, total: int, timeout_s: float | None, *, shown: bool | None
    ) -> None:
        self.verb = verb
        self._tally, self._total, self._timeout_s = tally, total, timeout_s
        self._start = time.monotonic()
        self._progress = Progress(verb, total, shown=shown)

    def pause_s(self) -> float:
        """Return how long to wait before looking again."""
        if self._timeout_s is None:
            return LOOK_S
        return max(0.0, min(LOOK_S, self._start + self._timeout_s - time.monotonic()))

    def look(self) -> None:
        """Update the display."""
        self._progress.at(self._tally.done, time.monotonic() - self._start)

    def close(self) -> None:
        """End the display: the load has ended."""
        self._progress.close()

    @property
    def overdue(self) -> bool:
        """Whether its time is up."""
        return self._timeout_s is not None and time.monotonic() >= self._start + self._timeout_s

    @property
    def complete(self) -> bool:
        """Whether every byte was loaded."""
        return self._tally.done >= self._total

    def end(self, what: str) -> str:
        """Begin an error's sentence: what happened, how far the load was, that its registers are gone."""
        done, total = human_bytes(self._tally.done), human_bytes(self._total)
        return f"{self.verb} {what} with {done} of {total} loaded; its registers were dropped"


class Tally:
    """A number per worker, which only that worker writes, and one flag that any thread may set.

    The controller reads while workers write: each is a single 8-byte word with a single writer, so nothing is
    torn or lost and no lock is needed.
    """

    def __init__(self, num_workers: int) -> None:
        self._slots = np.zeros(num_workers + 1, np.int64)

    def add(self, worker: int, nbytes: int) -> None:
        """Add the bytes that `worker` has loaded; called only by that worker."""
        self._slots[worker] += nbytes

    @property
    def done(self) -> int:
        """Bytes that all workers together have loaded."""
        return int(self._slots[:-1].sum())

    def stop(self) -> None:
        """Stop the load, which has failed or is no longer wanted: the rest need not be read."""
        self._slots[-1] = 1

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return bool(self._slots[-1])

    def __deepcopy__(self, memo: dict[int, Any]) -> Tally:
        return self  # a handle, not a value: the counts of a copy would never be read
