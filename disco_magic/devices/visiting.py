"""Work of another thread at a worker's place: threads of its cells, and a debugger's prompt."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from disco_magic.devices.events import has_passed
from disco_magic.threads.patience import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def on_stream(device: Any, stream: Any) -> Iterator[None]:
    """Compute on a device and a stream of cupy's in a block; restore the previous ones after it."""
    with device, stream:
        yield


@contextmanager
def visiting(place: Any, timeout_s: float) -> Iterator[bool]:
    """Work on the device and stream of a worker's place in a block; restore the previous ones after it.

    Yields whether what the worker had queued is done: it is waited for `timeout_s` seconds at most, and what
    follows on the stream comes after it. On the host there is nothing to do. A lost GPU can be visited: code
    that computes there gets the error.
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
