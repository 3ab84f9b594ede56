"""Another thread's work at a worker's place: that of its cell's threads, and of a debugger's prompt."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from disco_magic.devices.events import has_passed
from disco_magic.patience import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def on_stream(device: Any, stream: Any) -> Iterator[None]:
    """Compute on a device and a stream of cupy's in a block, and where one was before after it."""
    with device, stream:
        yield


@contextmanager
def visiting(place: Any, timeout_s: float) -> Iterator[bool]:
    """Work on the device and the stream of a worker's place in a block, and where one was before after it.

    Gives whether what the worker had queued is done: it is waited for `timeout_s` seconds at most, and what
    follows on the stream comes after it. On the host there is nothing to do. A GPU that is lost can be
    visited: who computes there is told.
    """
    is_done = True
    with ExitStack() as stack:
        if hasattr(place, "stream"):
            cupy = place.xp
            with suppress(cupy.cuda.runtime.CUDARuntimeError):
                stack.enter_context(on_stream(cupy.cuda.Device(place.device.index), place.stream))
                reached = cupy.cuda.Event(disable_timing=True)
                reached.record(place.stream)
                is_done = wait_until(lambda: has_passed(cupy, reached), timeout_s)
        yield is_done
