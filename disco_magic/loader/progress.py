"""Shows the waiting user how far a load is: a tqdm bar where tqdm is installed, else a line per 10 %.

Only the waiting thread of the controller writes. Workers count (`Tally`); that thread reads the counts.
"""

from __future__ import annotations

import importlib
import sys
import time
from math import inf
from typing import Any, Final

import numpy as np

from disco_magic.core.words import human_bytes

# A shorter load shows nothing, unless asked to.
SILENT_S: Final = 1.0


class Lines:
    """In place of a bar of tqdm: writes a line to stderr whenever another tenth is done."""

    def __init__(self, desc: str, total: int, **_: object) -> None:
        self._what, self._total = desc, total
        self._tenths = 0
        self.n = 0

    def update(self, count: int) -> None:
        """Write the line if another tenth is done."""
        self.n += count
        tenths = 10 * self.n // self._total if self._total else 10
        if tenths > self._tenths:
            self._tenths = tenths
            sys.stderr.write(f"{self._what}: {10 * tenths} % of {human_bytes(self._total)}\n")
            sys.stderr.flush()

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


def _kind_of_bar() -> Any:
    """The class of tqdm's bars, which are widgets in notebooks that can show them; without tqdm `Lines`."""
    try:
        return importlib.import_module("tqdm.auto").tqdm
    except ImportError:
        return Lines


class Watch:
    """The waiting thread's view of a load: its bytes, and the bar that shows them.

    Args:
        verb: what is going on; begins the text.
        tally: counts the bytes.
        total: bytes that all workers together will get.
        shown: True: the bar is shown at once; False: never; None: after a second.

    Attributes:
        verb, tally: the arguments.
    """

    def __init__(self, verb: str, tally: Tally, total: int, *, shown: bool | None) -> None:
        self.verb = verb
        self.tally, self._total = tally, total
        self._show_from = time.monotonic() + (inf if shown is False else 0.0 if shown else SILENT_S)
        self._bar: Any = None

    def look(self) -> None:
        """Show how far the load is."""
        if self._bar is None:
            if time.monotonic() < self._show_from:
                return
            self._bar = _kind_of_bar()(
                desc=self.verb, total=self._total, unit="B", unit_scale=True, unit_divisor=1024
            )
        self._bar.update(self.tally.done - self._bar.n)

    def close(self) -> None:
        """Leave the bar as it is: the load has ended, successfully or not."""
        if self._bar is not None:
            self._bar.close()

    @property
    def complete(self) -> bool:
        """Whether every byte was loaded."""
        return self.tally.done >= self._total

    def end(self, what: str) -> str:
        """Begin an error's sentence: what happened, how far the load was, that its registers are gone."""
        done, total = human_bytes(self.tally.done), human_bytes(self._total)
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
