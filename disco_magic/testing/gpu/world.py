"""The simulated machine: its devices, and each thread's current device and stream."""

from __future__ import annotations

import threading
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from disco_magic.testing.gpu.device import SimulatedDevice
from disco_magic.testing.gpu.errors import (
    ILLEGAL_ADDRESS,
    INVALID_DEVICE,
    INVALID_HANDLE,
    NO_DEVICE,
    CUDADriverError,
    CUDARuntimeError,
)
from disco_magic.testing.gpu.memory import PinnedPool, UnownedMemory, at_address, unowned
from disco_magic.testing.gpu.pieces import DEADLINE_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.testing.gpu.streams import Lag, WorkQueue

HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, DEFAULT = range(5)


class Here:
    """One thread's current device and stream; at first device 0 and the null stream.

    Attributes:
        device: the current device.
        streams: the current stream per device; the null stream is missing or None.
        devices: the devices to which ``with Device`` blocks return.
        entered: ``(device, stream)`` of every ``with stream`` block that the thread is in.
    """

    def __init__(self) -> None:
        self.device = 0
        self.streams: dict[int, Any] = {}
        self.devices: list[int] = []
        self.entered: list[tuple[int, Any]] = []


class World:
    """The state shared by all simulated objects of one `SimulatedGpus`.

    Attributes:
        devices: the devices, by ordinal.
        pinned: the pool of pinned host memory.
        cupy: replaces the module `cupy`.
        peers: whether a device may access another one's memory.
        events: the living events, by address.
    """

    def __init__(self, count: int, memory_nbytes: int, lag: Lag) -> None:
        self.devices = [SimulatedDevice(number, memory_nbytes, lag) for number in range(count)]
        self.pinned = PinnedPool()
        self.peers = False
        self.cupy: Any = None
        self.events: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._threads = threading.local()

    # --- where the calling thread stands ---------------------------------------------------------------

    @property
    def here(self) -> Here:
        """The calling thread's current device and stream."""
        try:
            here: Here = self._threads.here
        except AttributeError:
            here = self._threads.here = Here()
        return here

    @property
    def device(self) -> SimulatedDevice:
        """The calling thread's current device."""
        return self.device_at(self.here.device)

    def device_at(self, number: int) -> SimulatedDevice:
        """A device by its ordinal."""
        if not 0 <= number < len(self.devices):
            raise CUDARuntimeError(INVALID_DEVICE if self.devices else NO_DEVICE)
        return self.devices[number]

    def set_device(self, number: int) -> None:
        """Make a device the calling thread's current one; a broken one raises, as CUDA says that it may."""
        device = self.device_at(number)
        self.here.device = device.id
        device.check()

    def push_device(self, number: int) -> None:
        """As `set_device`, until `pop_device`."""
        before = self.here.device
        self.set_device(number)
        self.here.devices.append(before)

    def pop_device(self) -> None:
        """Return to the device before."""
        self.set_device(self.here.devices.pop())

    def stream(self, device: int | None = None) -> Any:
        """The calling thread's current `Stream` of a device, None: of its current device."""
        here = self.here
        return here.streams.get(here.device if device is None else device) or self.cupy.cuda.Stream.null

    def set_stream(self, stream: Any) -> None:
        """Make a stream the calling thread's current one of its current device."""
        self.here.streams[self.here.device] = stream

    def push_stream(self, stream: Any) -> None:
        """As `set_stream`, until `pop_stream`."""
        here = self.here
        here.entered.append((here.device, stream))
        here.streams[here.device] = stream

    def pop_stream(self) -> None:
        """Return to the stream that was entered before on that device, else to the null stream.

        A stream that was made current by `set_stream` is forgotten, as in CuPy: its own tests expect that.
        """
        here = self.here
        device, _ = here.entered.pop()
        here.streams[device] = next((s for d, s in reversed(here.entered) if d == device), None)

    @property
    def queue(self) -> WorkQueue:
        """The queue for the calling thread's work: that of its current stream, on its current device."""
        return self.queue_at(self.stream().ptr)

    def queue_at(self, ptr: int) -> WorkQueue:
        """The queue of the stream at an address; 0 and 1 are the null stream of the current device."""
        if ptr in (0, 1):
            return self.device.null
        for device in self.devices:
            for queue in list(device.queues):
                if queue.ptr == ptr:
                    return queue
        raise CUDARuntimeError(INVALID_HANDLE, (f"{ptr:#x} is no stream",))

    def launch(self, kernel: Callable[[], object]) -> None:
        """Put a kernel on the current stream.

        Raises:
            CUDADriverError: the stream was destroyed, or its device is broken: kernels are launched by the
                driver, all other work by the runtime, and each has an error of its own.
        """
        try:
            self.queue.put(kernel)
        except CUDARuntimeError as error:
            raise CUDADriverError(error.status, f"CUDA_ERROR_{error.status}: {error}") from error

    # --- what the devices do ---------------------------------------------------------------------------

    def malloc(self, nbytes: int) -> Any:
        """Allocate memory of the current device, from the arena of the current stream."""
        device = self.device
        device.check()
        if not nbytes:
            return UnownedMemory(0, 0, None, device.id)
        return device.pool.malloc(nbytes, self.stream().ptr)

    def memcpy(self, dst: int, src: int, nbytes: int, kind: int, queue: WorkQueue) -> None:
        """Copy between addresses on a stream; `kind` says which of them are on a device."""
        queue.device.check()
        if kind == DEFAULT:
            kind = HOST_TO_DEVICE * self._on_device(dst, nbytes) + DEVICE_TO_HOST * self._on_device(
                src, nbytes
            )
        target, source = at_address(dst, nbytes), at_address(src, nbytes)
        if kind in (HOST_TO_DEVICE, DEVICE_TO_DEVICE):
            queue.put(partial(self._check_address, dst, nbytes))
        if kind in (DEVICE_TO_HOST, DEVICE_TO_DEVICE):
            queue.put(partial(self._check_address, src, nbytes))
        if kind == HOST_TO_DEVICE:
            self.upload(target, source, queue)
        elif kind == DEVICE_TO_DEVICE:
            queue.put(partial(np.copyto, target, source))
        else:
            self.download(target, source, queue)

    def upload(self, target: Any, host: Any, queue: WorkQueue) -> None:
        """Copy from the host on a stream.

        As in CUDA, pageable memory is read *now*, pinned memory when the stream comes to the copy.
        """
        pinned = self.pinned.holds(host.ctypes.data, host.nbytes)
        queue.put(partial(np.copyto, target, unowned(host) if pinned else host.copy()))

    def download(self, host: Any, source: Any, queue: WorkQueue) -> None:
        """Copy to the host on a stream; as in CUDA, wait unless `host` is pinned memory."""
        pinned = self.pinned.holds(host.ctypes.data, host.nbytes)
        # Keep pageable memory alive: unlike in CUDA, an interrupt may end the wait.
        queue.put(partial(np.copyto, unowned(host) if pinned else host, source))
        if not pinned:
            queue.synchronize()

    def memset(self, ptr: int, value: int, nbytes: int, queue: WorkQueue) -> None:
        """Fill bytes on a stream."""
        queue.device.check()
        queue.put(partial(self._check_address, ptr, nbytes))
        queue.put(partial(np.copyto, at_address(ptr, nbytes), np.uint8(value & 0xFF)))

    def _check_address(self, ptr: int, nbytes: int) -> None:
        """Raise for a wrong address; as separate work, so in the order of the stream."""
        if nbytes and not self._on_device(ptr, nbytes):
            raise CUDARuntimeError(ILLEGAL_ADDRESS, (f"{nbytes} bytes at {ptr:#x} are of no device",))

    def _on_device(self, ptr: int, nbytes: int) -> bool:
        return any(device.pool.holds(ptr, nbytes) for device in self.devices)

    def check_access(self, memory_device: int) -> None:
        """Raise ValueError unless the current device may access memory of the given one."""
        here = self.here.device
        if memory_device != here and not self.peers:
            raise ValueError(
                f"The device where the array resides ({memory_device}) is different from the current device "
                f"({here}). Peer access is unavailable between these devices."
            )

    def close(self) -> list[str]:
        """End all threads; return texts about errors that no call has reported."""
        complaints = []
        for device in self.devices:
            device.closed = True
        queues = [queue for device in self.devices for queue in list(device.queues)]
        for queue in queues:
            if queue.held:
                complaints.append(f"{queue.name} was held with {queue.pending} pieces of work")
            queue.release()
            queue.retire()
        for queue in queues:
            queue.thread.join(DEADLINE_S)
            if queue.thread.is_alive():
                complaints.append(f"{queue.name} hangs with {queue.pending} pieces of work")
        complaints += [f"device {d.id} broke unnoticed: {d.untold!r}" for d in self.devices if d.untold]
        return complaints
