"""Copies of NumPy's arrays to a GPU and back, in chunks, several at a time, through pinned memory.

A GPU copies at full speed only from and to memory that the system may not move. NumPy's memory may be moved,
and pinning an array for one copy costs more than the copy. So each thread that copies has a ring of two
pinned buffers: it copies a chunk between the array and one of them, and while the device moves that chunk, it
works on the next.

               .-- the caller's ring: np.copyto <-> buffer, buffer --.
    array  ----+-- a helper's ring                                   +-- the device's copy engine -- GPU
               '-- a helper's ring                                   '

An array that is already pinned (``cupyx.empty_pinned``) is copied directly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.devices import pinned
from disco_magic.devices.events import has_passed
from disco_magic.devices.pinned import Copy, Ring, ring_for
from disco_magic.threads.patience import wait_until

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from disco_magic.devices.pinned import Bytes

# Measured on 16 cores and an H100: from 256 MiB on, chunks of 4 MiB and eight to twelve threads are fastest.
CHUNK_NBYTES: Final = 4 * 1024 * 1024
# Smaller arrays in `PARTS` chunks, none smaller than this: each chunk takes its turn at the GIL, and 16 MiB
# in 24 chunks took twice as long as in 8.
LEAST_NBYTES: Final = 1024 * 1024
PARTS: Final = 8
# Up to this size a helper would come too late.
ALONE_NBYTES: Final = 2 * LEAST_NBYTES
_PINNED: Final = 1  # cudaMemoryTypeHost


class Staging:
    """The pinned buffers of one thread of one place.

    Args:
        cupy: the module.
        stream: what the place's work is queued on.
        device: the place's GPU, a `cupy.cuda.Device`.
    """

    def __init__(self, cupy: Any, stream: Any, device: Any) -> None:
        self.cupy, self.stream, self.device = cupy, stream, device
        self._runtime = cupy.cuda.runtime
        self._reached = cupy.cuda.Event(disable_timing=True)
        self._ring: Ring | None = None
        self._copy: Copy | None = None  # one in progress, or left by an interrupt

    def upload(self, there: Any, host: NDArray[Any]) -> None:
        """Copy between C-contiguous arrays; `host` may be changed when this returns."""
        raw = host.reshape(-1).view(np.uint8)
        if self._is_pinned(raw):
            self._straight(there.data.ptr, raw.ctypes.data, raw.nbytes, self._runtime.memcpyHostToDevice)
        else:
            self._staged(raw, there, up=True)

    def download(self, host: NDArray[Any], there: Any) -> None:
        """Copy in the other direction; `host` is complete when this returns."""
        raw = host.reshape(-1).view(np.uint8)
        if self._is_pinned(raw):
            self._straight(raw.ctypes.data, there.data.ptr, raw.nbytes, self._runtime.memcpyDeviceToHost)
        else:
            self._staged(raw, there, up=False)

    def _staged(self, raw: Bytes, there: Any, *, up: bool) -> None:
        """Copy through the buffers, with the helpers that are free."""
        self._settle()
        chunk, helpers = _division(raw.nbytes)
        copy = Copy(self, raw, there, chunk, up=up)
        self._ring = ring_for(copy, self._ring)
        # Helpers serve all workers: none must wait for work that a stream has queued before.
        self._await()
        self._copy = copy
        try:
            for _ in range(helpers):
                pinned.wanted_help().put(copy)
            copy.work(self._ring)
            copy.rest()
            copy.check()
            self._await()
        finally:
            copy.stop()
            self._settle()

    def _settle(self) -> None:
        """Wait until neither a helper nor the device touches the array or the ring of this thread."""
        if self._copy is not None:
            self._copy.rest()
            if self._ring is not None:
                self._ring.settle()
            self._copy = None

    def _await(self) -> None:
        """Wait until the device has done what is queued so far."""
        self._reached.record(self.stream)
        wait_until(lambda: has_passed(self.cupy, self._reached))

    def _straight(self, target: int, source: int, nbytes: int, kind: int) -> None:
        """Copy between the device and a pinned array, without a buffer."""
        self._await()  # as in `_staged`: after an interrupt, a queued copy would still be made
        try:
            self._runtime.memcpyAsync(target, source, nbytes, kind, self.stream.ptr)
            self._await()
        except BaseException:
            self.stream.synchronize()  # the array is its owner's again; there is nothing else to wait for
            raise

    def _is_pinned(self, raw: Bytes) -> bool:
        """Whether all of it is pinned: one that only begins in pinned memory could not be copied directly."""
        first = raw.ctypes.data
        return self._is_byte_pinned(first) and self._is_byte_pinned(first + raw.nbytes - 1)

    def _is_byte_pinned(self, address: int) -> bool:
        try:
            return bool(self._runtime.pointerGetAttributes(address).type == _PINNED)
        except self._runtime.CUDARuntimeError:  # ROCm's answer for memory that it does not know
            return False


def _division(nbytes: int) -> tuple[int, int]:
    """Bytes of a chunk, and how many helpers are worthwhile."""
    if nbytes <= ALONE_NBYTES:
        return min(nbytes, max(LEAST_NBYTES // 4, -(-nbytes // pinned.BUFFERS))), 0
    chunk = max(LEAST_NBYTES, min(CHUNK_NBYTES, -(-nbytes // PARTS)))
    return chunk, min(pinned.THREADS, -(-nbytes // chunk)) - 1
