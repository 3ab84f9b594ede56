"""Pinned buffers, threads that carry chunks through them, and one array on its way.

Helpers and their buffers serve all workers of the process. What they wait for is never more than a few chunks
away: whoever asks for them has waited for everything else.
"""

from __future__ import annotations

import threading
from collections import deque
from contextvars import Context
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.devices.events import has_passed
from disco_magic.functions.affinity import cores
from disco_magic.patience import pause, wait_until

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from disco_magic.devices.staging import Staging

    Bytes = NDArray[np.uint8]


# A thread copies 8 GB/s, twelve of them 60; a link of PCIe 5 takes 55.
THREADS: Final = max(1, min(12, cores() * 3 // 4))
BUFFERS: Final = 2  # of a ring
_LOOK_S: Final = 50e-6


class Buffer:
    """A pinned buffer, and when it is free again."""

    def __init__(self, cupy: Any, nbytes: int) -> None:
        self._cupy = cupy
        self.memory = cupy.cuda.alloc_pinned_memory(nbytes)
        self.bytes: Bytes = np.frombuffer(self.memory, np.uint8, nbytes)
        self.address: int = self.memory.ptr
        # An event belongs to one device: of each device that has used the buffer, and that of the last one.
        self._events: dict[int, Any] = {}
        self._moved: Any = None
        # The stream, if something ended us between a transfer and its event.
        self._in_doubt: Any = None

    def transfer(self, stream: Any, target: int, source: int, nbytes: int, kind: int) -> None:
        """Let the device copy from or to it, on `stream`."""
        self._in_doubt = stream
        self._cupy.cuda.runtime.memcpyAsync(target, source, nbytes, kind, stream.ptr)
        self._mark()

    def _mark(self) -> None:
        """The device is done with it when the stream has come to here."""
        device = self._cupy.cuda.runtime.getDevice()
        self._moved = self._events.get(device)
        if self._moved is None:
            self._moved = self._events[device] = self._cupy.cuda.Event(disable_timing=True)
        self._moved.record(self._in_doubt)
        self._in_doubt = None

    def free(self) -> None:
        """Until the device does not use it; in C code, where that can be no more than a few chunks away."""
        if self._moved is not None:
            self._moved.synchronize()

    def settle(self) -> None:
        """The same whatever is before it, so that an interrupt can end the wait."""
        if self._in_doubt is not None:
            self._mark()
        if self._moved is not None:
            wait_until(lambda: has_passed(self._cupy, self._moved))


class Ring:
    """The buffers of one thread.

    Args:
        cupy: the module.
        nbytes: of each.
    """

    def __init__(self, cupy: Any, nbytes: int) -> None:
        self.cupy = cupy
        self.nbytes = nbytes
        self._buffers = deque(Buffer(cupy, nbytes) for _ in range(BUFFERS))

    def next(self) -> Buffer:
        """The one that was used longest ago; it comes soon, for only transfers of this copy are before it."""
        buffer = self._buffers[0]
        self._buffers.rotate(-1)
        buffer.free()
        return buffer

    def settle(self) -> None:
        """Until the device uses none of them."""
        for buffer in self._buffers:
            buffer.settle()


class Copy:
    """One array on its way, by as many threads as come and take chunks of it.

    Args:
        staging: whose.
        raw: the array on the host.
        there: the array on the device; kept until the last chunk is on its way.
        chunk: bytes that are moved at a time.
        up: to the device; not up: from it.
    """

    def __init__(self, staging: Staging, raw: Bytes, there: Any, chunk: int, *, up: bool) -> None:
        self.cupy, self.chunk = staging.cupy, chunk
        self._stream, self._device = staging.stream, staging.device
        self._raw, self._there = raw, there
        self._address: int = there.data.ptr
        runtime = self.cupy.cuda.runtime
        self._kind = runtime.memcpyHostToDevice if up else runtime.memcpyDeviceToHost
        self._up = up
        # A thread takes the next one with `deque.popleft`, which is documented to be thread-safe.
        self._starts = deque(range(0, raw.nbytes, chunk))
        # For helpers, which nobody interrupts; the caller, whom an interrupt may strike anywhere, looks only.
        self._counting = threading.Lock()
        self._busy = 0
        self._stopped = False
        self._error: BaseException | None = None

    def work(self, ring: Ring) -> None:
        """Move chunks through `ring` until none is left."""
        if self._up:
            self._upload(ring)
        else:
            self._download(ring)

    def help(self) -> None:
        """The same by a helper."""
        with self._counting:
            self._busy += 1  # before it takes a chunk: where none is left and nobody is busy, all is done
        try:
            if self._starts:
                self._device.use()
                ring = self._ring_of_helper()
                if ring is not None:
                    self.work(ring)
        except BaseException as error:  # noqa: BLE001 - it is raised by whoever waits for this
            self._error = error.with_traceback(None)  # whose frames would keep the arrays
            self.stop()
        finally:
            with self._counting:
                self._busy -= 1

    def _ring_of_helper(self) -> Ring | None:
        """The calling helper's; None if there is no memory for one, so that the others do without it."""
        try:
            _helper.ring = ring_for(self, _helper.ring)
        except (MemoryError, self.cupy.cuda.runtime.CUDARuntimeError):
            return None
        return _helper.ring

    def stop(self) -> None:
        """Take no further chunk."""
        self._stopped = True
        self._starts.clear()

    def rest(self) -> None:
        """Until no helper touches the arrays: not longer than their last chunks take."""
        while self._busy:
            pause(_LOOK_S)

    def check(self) -> None:
        """Raise what a helper met."""
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error

    def _next(self) -> int | None:
        try:
            return self._starts.popleft()
        except IndexError:
            return None

    def _upload(self, ring: Ring) -> None:
        while (start := self._next()) is not None:
            part = self._raw[start : start + self.chunk]
            buffer = ring.next()
            np.copyto(buffer.bytes[: part.size], part)
            buffer.transfer(self._stream, self._address + start, buffer.address, part.size, self._kind)

    def _download(self, ring: Ring) -> None:
        coming: deque[tuple[Bytes, Buffer]] = deque()
        while not self._stopped:
            start = self._next()
            if start is not None:
                part = self._raw[start : start + self.chunk]
                buffer = ring.next()
                buffer.transfer(self._stream, buffer.address, self._address + start, part.size, self._kind)
                coming.append((part, buffer))
            elif not coming:
                return
            if start is None or len(coming) == BUFFERS:
                part, buffer = coming.popleft()
                buffer.free()
                np.copyto(part, buffer.bytes[: part.size])


class _Helper(threading.local):
    """What a helping thread keeps."""

    ring: Ring | None = None


_helper = _Helper()


_wanted: SimpleQueue[Copy | None] = SimpleQueue()
_starting = threading.Lock()
_started = 0


def wanted_help() -> SimpleQueue[Copy | None]:
    """Copies that want help, None to end a helper; the first one that does starts them."""
    global _started  # noqa: PLW0603 - of the process, as the helpers are
    if _started < THREADS - 1:
        with _starting:
            while _started < THREADS - 1:
                _started += 1
                name = f"pinned-copy-{_started}"
                helper = threading.Thread(target=help_with, args=(_wanted,), name=name, daemon=True)
                Context().run(helper.start)  # not the worker's that is the first to need it
    return _wanted


def help_with(wanted: SimpleQueue[Copy | None]) -> None:
    """What a helper does until it is handed None."""
    while (copy := wanted.get()) is not None:
        copy.help()
        del copy  # and with it the array


def ring_for(copy: Copy, ring: Ring | None) -> Ring:
    """`ring`, or a new one if it does not fit."""
    if ring is not None and ring.cupy is copy.cupy:
        if ring.nbytes >= copy.chunk:
            return ring
        ring.settle()
    return Ring(copy.cupy, copy.chunk)
