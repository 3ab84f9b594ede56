"""Pinned buffers, threads that carry chunks through them, and one array in transfer.

Helpers and their buffers serve all workers of the process. They never wait for more than a few chunks:
callers wait for everything else before they ask for help.
"""

from __future__ import annotations

import threading
from collections import deque
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.devices.events import has_passed
from disco_magic.functions.affinity import cores
from disco_magic.threads.locks import new_lock
from disco_magic.threads.own_threads import start_thread
from disco_magic.threads.patience import pause, wait_until

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from disco_magic.devices.staging import Staging

    Bytes = NDArray[np.uint8]


# A thread copies 8 GB/s, twelve of them 60; a PCIe 5 link takes 55.
THREADS: Final = max(1, min(12, cores() * 3 // 4))
BUFFERS: Final = 2  # per ring
_LOOK_S: Final = 50e-6


class Buffer:
    """A pinned buffer that knows when it is free again."""

    def __init__(self, cupy: Any, nbytes: int) -> None:
        self._cupy = cupy
        self.memory = cupy.cuda.alloc_pinned_memory(nbytes)
        self.bytes: Bytes = np.frombuffer(self.memory, np.uint8, nbytes)
        self.address: int = self.memory.ptr
        # An event belongs to one device: one for each device that used the buffer, and the last one recorded.
        self._events: dict[int, Any] = {}
        self._moved: Any = None
        # The stream, if an interrupt came between a transfer and its event.
        self._in_doubt: Any = None

    def transfer(self, stream: Any, target: int, source: int, nbytes: int, kind: int) -> None:
        """Let the device copy from or to the buffer, on `stream`."""
        self._in_doubt = stream
        self._cupy.cuda.runtime.memcpyAsync(target, source, nbytes, kind, stream.ptr)
        self._mark()

    def _mark(self) -> None:
        """Record that the device is done with it when the stream has come to here."""
        device = self._cupy.cuda.runtime.getDevice()
        self._moved = self._events.get(device)
        if self._moved is None:
            self._moved = self._events[device] = self._cupy.cuda.Event(disable_timing=True)
        self._moved.record(self._in_doubt)
        self._in_doubt = None

    def free(self) -> None:
        """Wait until the device does not use it; in C code, since that is at most a few chunks away."""
        if self._moved is not None:
            self._moved.synchronize()

    def settle(self) -> None:
        """Wait for the same, however long, so that an interrupt can end the wait."""
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
        """The least recently used buffer; free soon, because only transfers of this copy are before it."""
        buffer = self._buffers[0]
        self._buffers.rotate(-1)
        buffer.free()
        return buffer

    def settle(self) -> None:
        """Wait until the device uses none of them."""
        for buffer in self._buffers:
            buffer.settle()


class Copy:
    """One array in transfer, by as many threads as come and take chunks of it.

    Args:
        staging: its `Staging`.
        raw: the array on the host.
        there: the array on the device; kept until the last chunk has been queued.
        chunk: bytes that are moved at a time.
        up: to the device; if false, from it.
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
        # Taken by helpers only, which are never interrupted; the caller, which may be, only reads.
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
        """Do the same in a helper."""
        with self._counting:
            self._busy += 1  # before taking a chunk: when none is left and no helper is busy, all is done
        try:
            if self._starts:
                self._device.use()
                ring = self._ring_of_helper()
                if ring is not None:
                    self.work(ring)
        except BaseException as error:  # noqa: BLE001 - raised by the thread that waits for this copy
            self._error = error.with_traceback(None)  # its frames would keep the arrays alive
            self.stop()
        finally:
            with self._counting:
                self._busy -= 1

    def _ring_of_helper(self) -> Ring | None:
        """The calling helper's ring; None if there is no memory for one, so that the others do without it."""
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
        """Wait until no helper touches the arrays, which takes no longer than their last chunks."""
        while self._busy:
            pause(_LOOK_S)

    def check(self) -> None:
        """Raise a helper's error, if any."""
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
    """What a helper thread keeps."""

    ring: Ring | None = None


_helper = _Helper()


_wanted: SimpleQueue[Copy | None] = SimpleQueue()
_starting = new_lock()
_started = 0


def wanted_help() -> SimpleQueue[Copy | None]:
    """The queue of copies that want help, or None to end a helper; the first call starts them.

    Where no thread can be started, copies have fewer helpers or none, and the next call tries again.
    """
    global _started  # noqa: PLW0603 - one for the process, like the helpers
    if _started < THREADS - 1:
        with _starting:
            for number in range(_started + 1, THREADS):
                try:
                    start_thread(f"pinned-copy-{number}", help_with, _wanted)
                except RuntimeError:  # too many threads, or the interpreter is ending
                    break
                _started = number
    return _wanted


def help_with(wanted: SimpleQueue[Copy | None]) -> None:
    """Help with copies from the queue until it yields None."""
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
