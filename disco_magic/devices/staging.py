"""Pinned memory through which NumPy's arrays travel to a GPU and back, in chunks, several at a time.

A GPU copies at full speed only from and to memory that the system may not move. NumPy's is not so, and
pinning an array for one copy costs more than the copy. So each place keeps a few pinned buffers: while the
device moves one chunk, threads of ours copy the next ones between the buffers and the array.

    array --- np.copyto, several threads ---> buffers --- the device's copy engine ---> GPU

An array that is pinned already (``cupyx.empty_pinned``) goes without the detour.
"""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.devices.events import has_passed
from disco_magic.patience import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]

CHUNK_NBYTES: Final = 4 * 1024 * 1024
BUFFERS: Final = 6
# One thread copies about 10 GB/s, a link of PCIe 5 takes 50.
_THREADS: Final = max(1, min(BUFFERS, (os.cpu_count() or 2) // 2))
_PINNED: Final = 1  # cudaMemoryTypeHost


@cache
def _copiers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="pinned-copy")


class _Buffer:
    """A pinned buffer, and when it is free again."""

    def __init__(self, cupy: Any, nbytes: int) -> None:
        self._cupy = cupy
        self.memory = cupy.cuda.alloc_pinned_memory(nbytes)
        self.bytes: Bytes = np.frombuffer(self.memory, np.uint8, nbytes)
        self.address: int = self.memory.ptr
        self.moved = cupy.cuda.Event(disable_timing=True)
        # The stream, if something ended us between a transfer and its event.
        self._in_doubt: Any = None
        self.copied: Future[None] | None = None

    def arrive(self) -> None:
        """Until the device does not use it."""
        wait_until(lambda: has_passed(self._cupy, self.moved))

    def await_copy(self) -> None:
        """Until no thread uses it."""
        if self.copied is not None:
            self.copied.result()
            self.copied = None

    def transfer(self, stream: Any, target: int, source: int, nbytes: int, kind: int) -> None:
        """Let the device copy from or to it, on `stream`."""
        self._in_doubt = stream
        self._cupy.cuda.runtime.memcpyAsync(target, source, nbytes, kind, stream.ptr)
        self._mark()

    def _mark(self) -> None:
        """The device is done with it when the stream has come to here."""
        self.moved.record(self._in_doubt)
        self._in_doubt = None

    def settle(self) -> None:
        """Until neither the device nor a thread uses it."""
        if self._in_doubt is not None:
            self._mark()
        self.arrive()
        self.await_copy()


class Staging:
    """The pinned buffers of one thread of one place.

    Args:
        cupy: the module.
        stream: what the place's work is queued on.
    """

    def __init__(self, cupy: Any, stream: Any) -> None:
        self._cupy = cupy
        self._runtime = cupy.cuda.runtime
        self._stream = stream
        self._buffers: deque[_Buffer] = deque()
        self._size = 0

    def upload(self, address: int, host: NDArray[Any]) -> None:
        """Copy a C-contiguous array to device memory; it may be changed when this returns."""
        raw = host.reshape(-1).view(np.uint8)
        if self._is_pinned(raw):
            self._straight(address, raw.ctypes.data, raw.nbytes, self._runtime.memcpyHostToDevice)
            return
        filling: deque[tuple[int, int, _Buffer]] = deque()
        try:
            for start, stop, buffer in self._chunks(raw.nbytes):
                if len(filling) == BUFFERS:  # all buffers are being filled: the oldest has to go first
                    self._send(address, *filling.popleft())
                buffer.settle()
                self._copy(buffer, buffer.bytes[: stop - start], raw[start:stop], alone=raw.nbytes)
                filling.append((start, stop, buffer))
            while filling:
                self._send(address, *filling.popleft())
        finally:
            self._settle()

    def _send(self, address: int, start: int, stop: int, buffer: _Buffer) -> None:
        buffer.await_copy()
        kind = self._runtime.memcpyHostToDevice
        buffer.transfer(self._stream, address + start, buffer.address, stop - start, kind)

    def download(self, host: NDArray[Any], address: int) -> None:
        """Copy device memory to a C-contiguous array; it is there when this returns."""
        raw = host.reshape(-1).view(np.uint8)
        kind = self._runtime.memcpyDeviceToHost
        if self._is_pinned(raw):
            self._straight(raw.ctypes.data, address, raw.nbytes, kind)
            return
        coming: deque[tuple[int, int, _Buffer]] = deque()
        try:
            for start, stop, buffer in self._chunks(raw.nbytes):
                if len(coming) == BUFFERS:
                    self._receive(raw, *coming.popleft())
                buffer.settle()
                buffer.transfer(self._stream, buffer.address, address + start, stop - start, kind)
                coming.append((start, stop, buffer))
            while coming:
                self._receive(raw, *coming.popleft())
        finally:
            self._settle()

    def _receive(self, raw: Bytes, start: int, stop: int, buffer: _Buffer) -> None:
        buffer.arrive()
        self._copy(buffer, raw[start:stop], buffer.bytes[: stop - start], alone=raw.nbytes)

    def _copy(self, buffer: _Buffer, target: Bytes, source: Bytes, *, alone: int) -> None:
        if alone <= CHUNK_NBYTES:  # there is nothing to overlap with
            np.copyto(target, source)
        else:
            buffer.copied = _copiers().submit(np.copyto, target, source)

    def _chunks(self, nbytes: int) -> Iterator[tuple[int, int, _Buffer]]:
        """(start, stop, buffer) in turn; the buffers are as large as was ever needed, up to a chunk."""
        size = min(CHUNK_NBYTES, max(nbytes, 64 * 1024))
        if size > self._size:
            self._settle()
            self._buffers.clear()
            self._size = size
        for start in range(0, nbytes, self._size):
            if len(self._buffers) < BUFFERS:
                self._buffers.appendleft(_Buffer(self._cupy, self._size))
            self._buffers.rotate(-1)
            yield start, min(start + self._size, nbytes), self._buffers[-1]

    def _settle(self) -> None:
        """No thread and no device touches a buffer, and with it the caller's array, any more."""
        for buffer in self._buffers:
            buffer.settle()

    def _straight(self, target: int, source: int, nbytes: int, kind: int) -> None:
        """Between the device and an array that is pinned, without a buffer."""
        self._runtime.memcpyAsync(target, source, nbytes, kind, self._stream.ptr)
        done = self._cupy.cuda.Event(disable_timing=True)
        done.record(self._stream)
        wait_until(lambda: has_passed(self._cupy, done))

    def _is_pinned(self, raw: Bytes) -> bool:
        try:
            return bool(self._runtime.pointerGetAttributes(raw.ctypes.data).type == _PINNED)
        except self._runtime.CUDARuntimeError:  # ROCm's answer for memory that it does not know
            return False
