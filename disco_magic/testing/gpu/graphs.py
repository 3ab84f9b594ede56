"""CUDA graphs: streams that record work instead of doing it.

As in CUDA, a stream that waits for a recorded event records, too, until the recording ends. Whoever asks how
far recorded work is spoils the recording, which is an error at its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from disco_magic.testing.gpu.errors import (
    CAPTURE_INVALIDATED,
    CAPTURE_ISOLATION,
    CAPTURE_UNJOINED,
    CUDARuntimeError,
)
from disco_magic.testing.gpu.pieces import Marker

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.testing.gpu.streams import WorkQueue


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
