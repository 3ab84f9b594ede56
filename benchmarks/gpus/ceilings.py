"""The best the hardware can do: plain copies, in the process of the measurements compared with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.gpus.stand import size_text

if TYPE_CHECKING:
    from benchmarks.gpus.figures import Figure
    from benchmarks.gpus.stand import Stand

WORDS = {"to": "host to GPU", "from": "GPU to host"}


def pinned_array(cupy: Any, nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Allocate host memory that the GPU can access directly."""
    return np.frombuffer(cupy.cuda.alloc_pinned_memory(nbytes), np.uint8, nbytes)


def pinned_copy(stand: Stand, direction: str, device: Any, pinned: Any, nbytes: int) -> Figure:
    """Time one ``cudaMemcpyAsync`` between pinned memory and the GPU."""
    runtime = stand.cupy.cuda.runtime
    near, far = pinned.ctypes.data, device.data.ptr
    target, source, kind = (
        (far, near, runtime.memcpyHostToDevice)
        if direction == "to"
        else (near, far, runtime.memcpyDeviceToHost)
    )
    seconds = stand.by_events(lambda _: runtime.memcpyAsync(target, source, nbytes, kind, stand.stream.ptr))
    what = f"{WORDS[direction]}, {size_text(nbytes)}: plain pinned copy"
    return stand.tell(f"{direction}.{nbytes}.plain", what, seconds, nbytes)


def device_copy(stand: Stand, target: Any, source: Any, name: str = "copy") -> Figure:
    """Time one ``cudaMemcpyAsync`` within the GPU; reads and writes both count."""
    runtime = stand.cupy.cuda.runtime
    nbytes = min(target.nbytes, source.nbytes)

    def copy(_: int) -> None:
        runtime.memcpyAsync(
            target.data.ptr, source.data.ptr, nbytes, runtime.memcpyDeviceToDevice, stand.stream.ptr
        )

    what = f"copy within the GPU, {size_text(nbytes)}"
    return stand.tell(name, what, stand.by_events(copy), 2 * nbytes)
