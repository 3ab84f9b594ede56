"""One simulated device: its memory, its streams, and the error that broke it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disco_magic.testing.gpu.errors import INVALID_DEVICE, LAUNCH_FAILURE, SUCCESS, CUDARuntimeError
from disco_magic.testing.gpu.memory import Pool
from disco_magic.testing.gpu.streams import WorkQueue

if TYPE_CHECKING:
    from disco_magic.testing.gpu.pieces import Marker
    from disco_magic.testing.gpu.streams import Lag


class SimulatedDevice:
    """One device."""

    def __init__(self, id: int, memory_nbytes: int, lag: Lag) -> None:
        self.id = id
        self.error: BaseException | None = None
        self.closed = False
        self._lag = lag
        self._error_was_told = False
        self.pool = Pool(id, memory_nbytes, self.synchronize)
        self.null = WorkQueue(self, 0, lag, blocking=True)
        self.queues = [self.null]

    def add_queue(self, *, blocking: bool) -> WorkQueue:
        """Make the queue of a new stream."""
        if self.closed:
            raise CUDARuntimeError(INVALID_DEVICE, ("the simulated GPUs are closed",))
        queue = WorkQueue(self, len(self.queues), self._lag, blocking=blocking)
        self.queues.append(queue)
        return queue

    def fail(self, error: BaseException) -> None:
        """Break the device: `error` came from its work. Only the first counts."""
        if self.error is None:
            self.error = error

    def check(self) -> None:
        """Raise if the device is broken, as every call of CUDA does from then on."""
        error = self.error
        if error is not None:
            self._error_was_told = True
            status, words = LAUNCH_FAILURE, repr(error)
            if isinstance(error, CUDARuntimeError):
                status, words = error.status, "; ".join(error.infos)
            raise CUDARuntimeError(status, (f"work of device {self.id}: {words}",)) from error

    def status(self) -> int:
        """CUDA's number for what broke the device, which then counts as reported; else 0."""
        error = self.error
        if error is None:
            return SUCCESS
        self._error_was_told = True
        return error.status if isinstance(error, CUDARuntimeError) else LAUNCH_FAILURE

    @property
    def untold(self) -> BaseException | None:
        """The error that broke the device, if no call has reported it."""
        return None if self._error_was_told else self.error

    def before(self, queue: WorkQueue) -> list[Marker]:
        """Markers that have to be reached before the next piece of `queue`: the rule of the null stream.

        Every wait is for a marker that already is in its queue, so that there can be no circle of waits,
        however many threads call this.
        """
        if queue is self.null:
            others = [other for other in list(self.queues[1:]) if other.blocking]
        else:
            others = [self.null] if queue.blocking else []
        return [other.mark_alone() for other in others if not other.done]

    def synchronize(self) -> None:
        """Wait for all work that was put on any stream."""
        self.check()
        for queue, marker in [(queue, queue.mark_alone()) for queue in list(self.queues) if not queue.done]:
            queue.await_marker(marker)
        self.check()
