"""The content of a stream's queue: pieces of work, markers to wait for, holds; and streams that record it.

As with CUDA's graphs, a stream that waits for a recorded event records, too, until the recording ends.
Whoever asks how far recorded work is spoils the recording, which is an error at its end.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final, Self

from disco_magic.testing.gpu.errors import (
    CAPTURE_INVALIDATED,
    CAPTURE_ISOLATION,
    CAPTURE_UNJOINED,
    CUDARuntimeError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.testing.gpu.streams import WorkQueue

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


class Capture:
    """What one stream records, and others with it.

    Attributes:
        work: recorded, in order.
        is_spoilt: whether something forbidden was done.
    """

    def __init__(self, origin: WorkQueue) -> None:
        self.work: list[Callable[[], object]] = []
        self.is_spoilt = False
        self._origin = origin
        self._joined: dict[WorkQueue, bool] = {origin: True}  # to whether it has come back to the first one
        origin.capture = self

    def joins(self, queue: WorkQueue, marker: Marker) -> None:
        """Let `queue` wait for `marker`; one of the two is recorded.

        Raises:
            CUDARuntimeError: the other one is not, and it is the marker.
        """
        if not isinstance(marker, RecordedMarker):
            self.is_spoilt = True
            raise CUDARuntimeError(CAPTURE_ISOLATION)
        if queue is self._origin:
            self._joined[marker.queue] = True
        else:
            self._joined[queue] = False
            queue.capture = self

    def end(self) -> list[Callable[[], object]]:
        """End it; return the work.

        Raises:
            CUDARuntimeError: it was spoilt, or a stream that joined has not come back.
        """
        for queue in self._joined:
            queue.capture = None
        if self.is_spoilt:
            raise CUDARuntimeError(CAPTURE_INVALIDATED)
        if not all(self._joined.values()):
            raise CUDARuntimeError(CAPTURE_UNJOINED)
        return self.work


class RecordedMarker(Marker):
    """A point in recorded work, which no stream ever reaches."""

    __slots__ = ("capture", "queue")

    def __init__(self, capture: Capture, queue: WorkQueue) -> None:
        super().__init__()
        self.capture, self.queue = capture, queue


class Graph:
    """`cupy.cuda.Graph`: recorded work.

    Args:
        work: in order.
        current: returns the calling thread's current stream.
    """

    def __init__(self, work: list[Callable[[], object]], current: Callable[[], Any]) -> None:
        self._work = work
        self._current = current

    def launch(self, stream: Any = None) -> None:
        """Do the work on `stream`, None: the current one."""
        queue = (stream or self._current()).queue
        for work in self._work:
            queue.put(work)
