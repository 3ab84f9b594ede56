"""What is in a stream's queue: work, points to wait for, and what holds it up."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Callable

DEADLINE_S: Final = 60.0


def nothing() -> None:
    """The work of a marker: what counts is that it was reached."""


class Piece:
    """One piece of a stream's work.

    Attributes:
        work: what to do; called by the stream's thread.
        needs_health: skip it once the device is broken.
        finished: done, or skipped. False until then.
    """

    __slots__ = ("finished", "needs_health", "work")

    def __init__(self, work: Callable[[], object], *, needs_health: bool = False) -> None:
        self.work = work
        self.needs_health = needs_health
        self.finished = False

    def finish(self) -> None:
        """Note that it is done."""
        self.finished = True


class Marker(Piece):
    """A point in a stream's work that threads and other streams can wait for.

    Attributes:
        at_ns: when the stream got there, of `time.perf_counter_ns`.
    """

    __slots__ = ("_reached", "at_ns")

    def __init__(self) -> None:
        super().__init__(nothing)
        self.at_ns = 0
        self._reached = threading.Event()

    def finish(self) -> None:
        """Wake those who wait."""
        self.at_ns = time.perf_counter_ns()
        self.finished = True
        self._reached.set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Return when the stream got here; False after `timeout_s`."""
        return self._reached.wait(timeout_s)


class Hold:
    """Keeps a stream from going on; leaving the ``with`` block releases it.

    What was put before the hold is still done, what is put after it is not until `release`.
    """

    def __init__(self) -> None:
        self._arrived = threading.Event()
        self._released = threading.Event()

    def block(self) -> None:
        """Called by the stream's thread."""
        self._arrived.set()
        self._released.wait()

    def arrived(self) -> None:
        """Wait until everything that was put before is done.

        Raises:
            TimeoutError: it is not after `DEADLINE_S`.
        """
        if not self._arrived.wait(DEADLINE_S):
            raise TimeoutError(f"the stream did not come to the hold within {DEADLINE_S:g} s")

    def release(self) -> None:
        """Let the stream go on. Idempotent."""
        self._released.set()

    @property
    def released(self) -> bool:
        """Whether the stream may go on."""
        return self._released.is_set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
