"""The public class `SimulatedGpus`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from disco_magic.devices import streams
from disco_magic.testing.gpu.modules import simulated_cupy
from disco_magic.testing.gpu.world import World

if TYPE_CHECKING:
    from disco_magic.testing.gpu.pieces import Hold
    from disco_magic.testing.gpu.streams import Lag, WorkQueue


class SimulatedGpus:
    """Simulated GPUs in host memory, whose streams are threads; a context manager that ends them.

    Args:
        count: number of devices.
        memory_nbytes: bytes of memory per device.
        lag: delays every piece of a stream's work a little, so that unordered work runs in varying order: a
            seed, or a function that returns seconds. None: no delay.

    Attributes:
        cupy: replaces the module `cupy`.
    """

    def __init__(self, count: int = 2, memory_nbytes: int = 1 << 28, lag: Lag = None) -> None:
        self._world = World(count, memory_nbytes, lag)
        self.cupy: Any = simulated_cupy(self._world)
        self._world.cupy = self.cupy
        self._is_closed = False

    def hold(self, stream: Any) -> Hold:
        """Stop a stream (or the one at an address) at this point of its work until the hold is released.

        ``with gpus.hold(stream): ...`` releases it at its end; `Hold.arrived` waits for the stream.
        """
        return self._world.queue_at(stream).hold() if isinstance(stream, int) else stream.queue.hold()

    def queues(self, device: int = 0) -> list[WorkQueue]:
        """The queues of all streams of a device, the null stream's first."""
        return list(self._world.devices[device].queues)

    def allow_peer_access(self) -> None:
        """Let every device access the memory of all devices."""
        self._world.peers = True

    def fail(self, device: int, error: BaseException) -> None:
        """Break a device, as if its work had raised `error`."""
        self._world.devices[device].fail(error)

    def close(self) -> None:
        """End all threads once their work is done. Idempotent.

        Raises:
            RuntimeError: a stream was held or hangs, or a device broke and no call has raised that.
        """
        if not self._is_closed:
            self._is_closed = True
            streams.forget(self.cupy)
            complaints = self._world.close()
            if complaints:
                raise RuntimeError(f"the simulated GPUs ended with: {'; '.join(complaints)}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            self.close()
        except RuntimeError:
            if kind is None:  # otherwise the block's own error says more
                raise
