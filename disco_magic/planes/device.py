"""Several workers on one GPU, which NCCL refuses: collectives by our own kernels on the workers' arrays.

The members meet on the host, as in the thread plane, and their calls are checked there. Then the last one to
arrive queues everything, and no member waits for the GPU:

    stream of member 0   ...work... fence ------------------. . . . . . . . . . .-> work that needs the result
    stream of member 1   ...work... fence --.               |                    |
    stream of the last   ...work...       wait - wait -> kernels over all arrays -> done

Arrays on the host, NumPy's and numbers, are moved as in the thread plane.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from disco_magic.planes.device_memory import DeviceMemory
from disco_magic.planes.memory import HOST
from disco_magic.planes.small import plan_of
from disco_magic.planes.threads import ThreadPlane

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from disco_magic.devices.gpu import GpuPlace
    from disco_magic.planes.calls import Call
    from disco_magic.planes.memory import Memory
    from disco_magic.planes.plans import Plan


class _Barrier:
    """A barrier: puts the members' streams in order."""

    def __init__(self, calls: Sequence[Call], memory: DeviceMemory) -> None:
        self._calls, self._memory = calls, memory

    def run(self) -> None:
        self._memory.order(self._calls)

    def result(self, rank: int) -> None:
        """Nothing."""


class GpuPlane(ThreadPlane):
    """Base class of the planes for workers on GPUs: also moves cupy's arrays, and those lent through DLPack.

    The arrays of all members of a call have to be in one kind of memory; arrays on the host are moved as in
    `ThreadPlane`. A barrier does not wait for the GPUs, but their later work runs after all earlier work.

    Args:
        places: the workers' places.
        memory: the memory of their cupy arrays.
        plan: see `Rendezvous`.
    """

    def __init__(
        self,
        places: Sequence[GpuPlace],
        memory: DeviceMemory,
        *,
        plan: Callable[[list[Call]], Plan] = plan_of,
    ) -> None:
        super().__init__(len(places), plan=self._plan)
        self._places = places
        self._memory = memory
        self._plan_of = plan

    def _plan(self, calls: list[Call]) -> Plan:
        return _Barrier(calls, self._memory) if calls[0].kind == "barrier" else self._plan_of(calls)

    def memory_of(self, worker: int, x: object) -> Memory:
        """The memory of `x`; for None the GPUs', but the others' arrays decide."""
        memory = self._memory
        if x is not None and type(x) is not memory.arrays and self._places[worker].read(x) is None:
            return HOST
        memory.arrive(worker)
        return memory


class DevicePlane(GpuPlane):
    """Moves arrays between workers that share one GPU; implements `disco_magic.core.interfaces.Plane`.

    A call returns when its work is queued on the caller's current stream. Reductions give the same bits as
    with `ThreadPlane`, for all dtypes that cupy has.

    Args:
        places: the workers' places, all on one GPU.

    Attributes:
        name: ``"device"``.
    """

    name = "device"

    def __init__(self, places: Sequence[GpuPlace]) -> None:
        super().__init__(places, DeviceMemory(places))

    def close(self) -> None:
        """Release all waiting workers and refuse further calls. Idempotent."""
        super().close()
        for place in self._places:
            place.end()
