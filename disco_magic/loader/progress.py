"""How far a load is, for whoever waits: a tqdm bar where tqdm is installed, else a line per 10 %.

Only the waiting thread of the controller writes. Workers count (`tally.Tally`), the waiter looks.
"""

from __future__ import annotations

import importlib
import sys
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from disco_magic.core.words import human_bytes

if TYPE_CHECKING:
    from disco_magic.loader.tally import Tally

# A load that is over by then shows nothing, unless it was asked for.
SILENT_S: Final = 1.0
# How often the waiter looks.
LOOK_S: Final = 0.1


class Display(Protocol):
    """Something that shows a number of bytes."""

    def show(self, done: int) -> None:
        """Show it."""

    def close(self) -> None:
        """It will not change any more."""


class Bar:
    """A bar of tqdm: a widget in notebooks that can show one, text elsewhere."""

    def __init__(self, tqdm: Any, what: str, total: int) -> None:
        self._bar = tqdm(desc=what, total=total, unit="B", unit_scale=True, unit_divisor=1024)

    def show(self, done: int) -> None:
        """Move the bar on."""
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """Leave it as it is."""
        self._bar.close()


class Lines:
    """A line on stderr whenever another tenth is there."""

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total = what, total
        self._tenths = 0

    def show(self, done: int) -> None:
        """Say so if it is the next tenth."""
        tenths = 10 * done // self._total if self._total else 10
        if tenths > self._tenths:
            self._tenths = tenths
            sys.stderr.write(f"{self._what}: {10 * tenths} % of {human_bytes(self._total)}\n")
            sys.stderr.flush()

    def close(self) -> None:
        """Nothing is left open."""


def display(what: str, total: int) -> Display:
    """A bar if tqdm is there, else lines."""
    try:
        auto = importlib.import_module("tqdm.auto")
    except ImportError:
        return Lines(what, total)
    return Bar(auto.tqdm, what, total)


class Progress:
    """Decides whether and from when a load is shown.

    Args:
        what: is being loaded, the beginning of the text.
        total: bytes all workers together will get.
        shown: True at once, False never, None after a second.
    """

    def __init__(self, what: str, total: int, *, shown: bool | None) -> None:
        self._what, self._total, self._shown = what, total, shown
        self._display: Display | None = None

    def at(self, done: int, elapsed_s: float) -> None:
        """`done` bytes are there after so many seconds."""
        if self._display is None:
            if self._shown is False or (self._shown is None and elapsed_s < SILENT_S):
                return
            self._display = display(self._what, self._total)
        self._display.show(done)

    def close(self) -> None:
        """The load has ended, well or not."""
        if self._display is not None:
            self._display.close()


class Watch:
    """What the waiting thread knows of one load: its time, its bytes, its display."""

    def __init__(
        self, verb: str, tally: Tally, total: int, timeout_s: float | None, *, shown: bool | None
    ) -> None:
        self.verb = verb
        self._tally, self._total, self._timeout_s = tally, total, timeout_s
        self._start = time.monotonic()
        self._progress = Progress(verb, total, shown=shown)

    def pause_s(self) -> float:
        """How long to wait before looking again."""
        if self._timeout_s is None:
            return LOOK_S
        return max(0.0, min(LOOK_S, self._start + self._timeout_s - time.monotonic()))

    def look(self) -> None:
        """Show how far it is."""
        self._progress.at(self._tally.done, time.monotonic() - self._start)

    def close(self) -> None:
        """The load has ended."""
        self._progress.close()

    @property
    def overdue(self) -> bool:
        """Whether its time is over."""
        return self._timeout_s is not None and time.monotonic() >= self._start + self._timeout_s

    @property
    def complete(self) -> bool:
        """Whether every byte is there."""
        return self._tally.done >= self._total

    def end(self, what: str) -> str:
        """The beginning of an error's sentence: what happened, how far it was, that nothing stays."""
        done, total = human_bytes(self._tally.done), human_bytes(self._total)
        return f"{self.verb} {what} with {done} of {total} loaded; its registers were dropped"
