"""Several workers on one GPU: collectives by kernels of ours over the workers' arrays, which NCCL refuses.

The members meet on the host, as in the thread plane, and their calls are checked there. Then the last one to
arrive queues everything, and nobody waits for the GPU:

    stream of member 0   ...work... fence ------------------. . . . . . . . . . .-> work that needs the result
    stream of member 1   ...work... fence --.               |                    |
    stream of the last   ...work...       wait - wait -> kernels over all arrays -> done

What is on the host, NumPy's arrays and numbers, is carried as in the thread plane.
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
    """An order of the members' streams."""

    def __init__(self, calls: Sequence[Call], memory: DeviceMemory) -> None:
        self._calls, self._memory = calls, memory

    def run(self) -> None:
        self._memory.order(self._calls)

    def result(self, rank: int) -> None:
        """Nothing."""


class GpuPlane(ThreadPlane):
    """What the planes of workers on GPUs have in common: arrays of cupy too, and those lent through DLPack.

    The arrays of all members of a call have to be in one kind of memory; what is on the host goes as in
    `ThreadPlane`. A barrier does not wait for the GPUs, but there too what follows it comes after what was
    before it.

    Args:
        places: of the workers.
        memory: where their arrays of cupy are.
        plan: as `ThreadPlane` has it.
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
        """Where `x` is; who brings nothing gets what the others bring, on GPUs or not."""
        if x is not None and self._places[worker].read(x) is None:
            return HOST
        self._memory.arrive(worker)
        return self._memory


class DevicePlane(GpuPlane):
    """Moves arrays between workers that share one GPU; implements `disco_magic.core.interfaces.Plane`.

    A call returns when its work is queued on the caller's current stream. Reductions give the bits that
    `ThreadPlane` gives, for all dtypes that cupy has.

    Args:
        places: of the workers; all on one GPU.

    Attributes:
        name: ``"device"``.
    """

    name = "device"

    def __init__(self, places: Sequence[GpuPlace]) -> None:
        super().__init__(places, DeviceMemory(places))
