"""The content of a stream's queue: pieces of work, markers to wait for, and holds."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Callable

DEADLINE_S: Final = 60.0


def nothing() -> None:
    """Do nothing: the work of a marker."""


class Piece:
    """One piece of a stream's work."""

    __slots__ = ("finished", "needs_health", "work")

    def __init__(self, work: Callable[[], object], *, needs_health: bool = False) -> None:
        self.work = work
        self.needs_health = needs_health
        self.finished = False

    def finish(self) -> None:
        """Mark the piece as finished."""
        self.finished = True


class Marker(Piece):
    """A point in a stream's work that threads and other streams can wait for.

    Attributes:
        at_ns: when the stream reached it, by `time.perf_counter_ns`.
    """

    __slots__ = ("_reached", "at_ns")

    def __init__(self) -> None:
        super().__init__(nothing)
        self.at_ns = 0
        self._reached = threading.Event()

    def finish(self) -> None:
        """Wake the threads that wait for it."""
        self.at_ns = time.perf_counter_ns()
        self.finished = True
        self._reached.set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Return True once the stream has reached it, or False after `timeout_s`."""
        return self._reached.wait(timeout_s)


class Hold:
    """Stops a stream at a point of its work; leaving the ``with`` block releases it.

    Work that was put before the hold is still done, work that is put after it waits for `release`.
    """

    def __init__(self) -> None:
        self._arrived = threading.Event()
        self._released = threading.Event()

    def block(self) -> None:
        """Wait for the release, on the stream's thread."""
        self._arrived.set()
        self._released.wait()

    def arrived(self) -> None:
        """Wait until all work that was put before the hold is done.

        Raises:
            TimeoutError: it is not done within `DEADLINE_S`.
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
