"""`cupy.cuda`: devices, streams and events of the simulated GPU, as the calling thread sees them."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from disco_magic.testing.gpu.errors import (
    CAPTURED_EVENT,
    INVALID_HANDLE,
    NOT_READY,
    SUCCESS,
    CUDARuntimeError,
)
from disco_magic.testing.gpu.pieces import Capture, Graph, RecordedMarker

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.testing.gpu.device import SimulatedDevice
    from disco_magic.testing.gpu.pieces import Marker
    from disco_magic.testing.gpu.streams import WorkQueue
    from disco_magic.testing.gpu.world import World

MULTIPROCESSORS: Final = 4
MAX_THREADS_PER_BLOCK: Final = 1024


class Device:
    """`cupy.cuda.Device`; the current device within a ``with`` block."""

    world: ClassVar[World]

    def __init__(self, device: int | Device | None = None) -> None:
        self.id: int = self.world.device.id if device is None else int(device)

    def use(self) -> Device:
        """Make this the calling thread's current device."""
        self.world.set_device(self.id)
        return self

    def synchronize(self) -> None:
        """Wait for all work of the device."""
        self._simulated.synchronize()

    @property
    def mem_info(self) -> tuple[int, int]:
        """``(free, total)`` bytes."""
        device = self._simulated
        device.check()
        return device.pool.limit - device.pool.total_bytes(), device.pool.limit

    @property
    def compute_capability(self) -> str:
        """The compute capability of a Hopper GPU."""
        return "90"

    @property
    def attributes(self) -> dict[str, int]:
        """Some attributes, by CUDA's names."""
        return {
            "MultiProcessorCount": MULTIPROCESSORS,
            "MaxThreadsPerBlock": MAX_THREADS_PER_BLOCK,
            "WarpSize": 32,
            "MaxGridDimX": 2**31 - 1,
            "UnifiedAddressing": 1,
        }

    @property
    def pci_bus_id(self) -> str:
        """The id that distinguishes devices of one machine."""
        return f"0000:{self.id + 1:02X}:00.0"

    @property
    def _simulated(self) -> SimulatedDevice:
        return self.world.device_at(self.id)

    def __enter__(self) -> Self:
        self.world.push_device(self.id)
        return self

    def __exit__(self, *_: object) -> None:
        self.world.pop_device()

    def __int__(self) -> int:
        return self.id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self.id == other.id

    def __hash__(self) -> int:
        return self.id

    def __repr__(self) -> str:
        return f"<CUDA Device {self.id}>"


class Event:
    """`cupy.cuda.Event`: the point in a stream's work at which it was last recorded."""

    world: ClassVar[World]

    def __init__(
        self,
        block: bool = False,
        disable_timing: bool = False,
        interprocess: bool = False,
    ) -> None:
        if interprocess and not disable_timing:
            raise ValueError("Timing must be disabled for interprocess events")
        device = self.world.device
        device.check()
        self.block, self.disable_timing, self.device_id = block, disable_timing, device.id
        self.ptr = id(self)
        self.recorded: tuple[WorkQueue, Marker] | None = None
        self.world.events[self.ptr] = self

    @property
    def done(self) -> bool:
        """Whether the stream has reached it; True if never recorded, always False on a broken device."""
        return self.query() == SUCCESS

    def query(self) -> int:
        """CUDA's number: reached, not reached, or what broke the device; to ask spoils a recording."""
        status = self.world.device_at(self.device_id).status()
        if self.recorded is not None and isinstance(marker := self.recorded[1], RecordedMarker):
            marker.capture.is_spoilt = True
            return CAPTURED_EVENT
        if status == SUCCESS and self.recorded is not None and not self.recorded[1].finished:
            return NOT_READY
        return status

    def record(self, stream: Stream | None = None) -> None:
        """Record the point after all work that was put on `stream`, None: the current one, so far."""
        self._check()
        queue = (self.world.stream() if stream is None else stream).queue
        if queue.device.id != self.device_id:
            raise CUDARuntimeError(
                INVALID_HANDLE,
                (f"an event of device {self.device_id}, a stream of device {queue.device.id}",),
            )
        self.recorded = (queue, queue.mark())

    def synchronize(self) -> None:
        """Wait until the stream has reached the event."""
        self._check()
        if (status := self.query()) == CAPTURED_EVENT:
            raise CUDARuntimeError(status)
        if self.recorded is not None:
            queue, marker = self.recorded
            queue.await_marker(marker)

    def _check(self) -> None:
        self.world.device_at(self.device_id).check()


def elapsed_time(start: Event, end: Event) -> float:
    """Milliseconds between two recorded events."""
    if start.recorded is None or end.recorded is None or start.disable_timing or end.disable_timing:
        raise CUDARuntimeError(INVALID_HANDLE)
    if not (start.done and end.done):
        raise CUDARuntimeError(NOT_READY)
    return (end.recorded[1].at_ns - start.recorded[1].at_ns) / 1e6


class Stream:
    """`cupy.cuda.Stream`; the current stream of its device within a ``with`` block."""

    world: ClassVar[World]
    null: ClassVar[Stream]

    def __init__(
        self,
        null: bool = False,
        non_blocking: bool = False,
        ptds: bool = False,
        priority: int | None = None,
    ) -> None:
        if ptds:
            raise NotImplementedError("per-thread default streams are not simulated")
        self._queue: WorkQueue | None = None
        self._foreign: object = None  # the foreign stream, kept alive
        self.priority = priority or 0
        self.is_non_blocking = non_blocking
        if null:
            self.ptr, self.device_id = 0, -1
            return
        device = self.world.device
        device.check()
        self._queue = device.add_queue(blocking=not non_blocking)
        self.ptr, self.device_id = self._queue.ptr, device.id
        weakref.finalize(self, self._queue.retire).atexit = False

    @classmethod
    def from_external(cls, foreign: Any) -> Stream:
        """Wrap a stream of another library, which returns its address from `__cuda_stream__`."""
        _, ptr = foreign.__cuda_stream__()
        made = cls(null=True)
        if ptr:
            made._queue = made.world.queue_at(ptr)
            made.ptr, made.device_id = ptr, made._queue.device.id
            made._foreign = foreign
        return made

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.ptr

    @property
    def queue(self) -> WorkQueue:
        """The queue for its work; for the null stream, that of the current device."""
        return self._queue or self.world.device.null

    def use(self) -> Stream:
        """Make this the calling thread's current stream of its device."""
        self._check_device()
        self.world.set_stream(self)
        return self

    def synchronize(self) -> None:
        """Wait until all work that was put on the stream is done."""
        self.queue.synchronize()

    @property
    def done(self) -> bool:
        """Whether all work that was put on the stream is done; always False on a broken device."""
        queue = self.queue
        return self.world.device_at(queue.device.id).status() == SUCCESS and queue.done

    def record(self, event: Event | None = None) -> Event:
        """Record `event`, None: a new one, and return it."""
        made: Event = self.world.cupy.cuda.Event() if event is None else event
        made.record(self)
        return made

    def begin_capture(self) -> None:
        """Record the stream's work from now on, instead of doing it."""
        Capture(self.queue)

    def is_capturing(self) -> bool:
        """Whether the stream's work is recorded; as in CuPy, an error if that is spoilt."""
        self.queue.device.check()
        capture = self.queue.capture
        if capture is not None and capture.is_spoilt:
            raise RuntimeError("the stream was capturing, but an error has invalidated the capture sequence")
        return capture is not None

    def end_capture(self) -> Graph:
        """Return what was recorded."""
        capture = self.queue.capture
        if capture is None:
            raise CUDARuntimeError(INVALID_HANDLE, ("the stream is not capturing",))
        return Graph(capture.end(), self.world.stream)

    def wait_event(self, event: Event) -> None:
        """Let all further work wait for `event`; do nothing if it was never recorded."""
        self.queue.device.check()
        if event.recorded is not None:
            self.queue.wait_for(event.recorded[1])

    def launch_host_func(self, callback: Callable[[Any], object], arg: object) -> None:
        """Call a function in the order of the stream's work."""
        self.queue.put(lambda: callback(arg))

    def _check_device(self) -> None:
        here = self.world.device.id
        if self.device_id not in (-1, here):
            raise RuntimeError(
                f"The device that the stream is created on ({self.device_id}) does not match with the "
                f"current device ({here})"
            )

    def __enter__(self) -> Self:
        self._check_device()
        self.world.push_stream(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.world.pop_stream()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.ptr == other.ptr

    def __hash__(self) -> int:
        return self.ptr

    def __repr__(self) -> str:
        return f"<Stream {self.ptr} (device {self.device_id})>"
