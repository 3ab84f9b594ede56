"""Presets: which planes and launchers go together, and the sessions made of them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from disco_magic.core.device import span
from disco_magic.core.mesh import mesh_of
from disco_magic.core.module_names import module_names
from disco_magic.core.topology import Topology
from disco_magic.devices import find
from disco_magic.errors import LaunchError, UsageMistake
from disco_magic.functions import builtins
from disco_magic.functions.places import HOST_PLACE
from disco_magic.isolation.own_imports import begin, let_programs_begin
from disco_magic.phrases import class_name, words
from disco_magic.session.combinations import COMBINATIONS
from disco_magic.session.equipment import choose
from disco_magic.session.queues import MAX_OUTSTANDING
from disco_magic.session.session import Session

MOST_WORKERS: Final = 1024
"""What a thousand threads record of each other takes 130 MB; of ten thousand, all of a machine's memory."""

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from disco_magic.core.interfaces import Launcher
    from disco_magic.core.place import Place
    from disco_magic.functions.context import WorkerContext
    from disco_magic.session.equipment import Devices
    from disco_magic.workers.serving import Extras


@dataclass(frozen=True, slots=True)
class Preset:
    """A chosen row of the table, and what a front end adds to it.

    Attributes:
        kind: what the workers are.
        plane_name: what carries collectives.
        extras: returns names that a front end adds beneath a worker's namespace.
        devices: each worker's GPU; empty: all compute on the CPU.
        why: why this plane and these devices, in words, if they were chosen automatically.
        own_modules: what each worker imports for itself; None: what programs ask for that it executes.
    """

    kind: str
    plane_name: str
    extras: Extras | None = None
    devices: tuple[int, ...] = ()
    why: str = ""
    own_modules: tuple[str, ...] | None = None

    @property
    def device(self) -> str:
        """Where the workers' arrays live: ``"cpu"``, ``"cuda:0"``, ``"cuda:[0-3]"``, ``"rocm:[3,1]"``."""
        return span(self._gpu_kind, self.devices) if self.devices else "cpu"

    @property
    def carrier(self) -> str:
        """What carries collectives, by its real name: on AMD's GPUs ``"nccl"`` is ``"rccl"``."""
        return "rccl" if self.plane_name == "nccl" and self._gpu_kind == "rocm" else self.plane_name

    @property
    def _gpu_kind(self) -> str:
        return find.gpu_kind(find.load_cupy())

    def launcher(self, topology: Topology, session_id: int) -> Launcher:
        """Make a launcher with a new plane; called again at every restart."""
        row = COMBINATIONS[self.kind, self.plane_name]
        places = self._places(topology.num_workers)
        plane = row.plane(places, topology)
        return row.launcher(topology, plane, session_id=session_id, extras=self._behind, places=places)

    def _behind(self, worker: WorkerContext) -> Mapping[str, Any]:
        """The names added beneath a worker's namespace, besides the usual ones."""
        names = dict(self.extras(worker)) if self.extras is not None else {}
        if self.own_modules:
            names["__import__"] = begin(worker, self.own_modules)
        if self.own_modules != ():
            let_programs_begin(worker)
        return names

    def _places(self, num_workers: int) -> list[Place]:
        if not self.devices:
            return [HOST_PLACE] * num_workers
        from disco_magic.devices.gpu import GpuPlace

        cupy = find.load_cupy()
        try:
            return [GpuPlace(cupy, index) for index in self.devices]
        except (cupy.cuda.runtime.CUDARuntimeError, MemoryError) as reason:
            raise LaunchError(
                f"workers on {self.device} could not be started: {words(reason)}; if an earlier kernel has"
                " failed there, this process has lost that GPU: restart the kernel"
            ) from reason


def check_plane(kind: str, ccl: str = "auto") -> None:
    """Raise UsageMistake if `kind` is unknown or cannot use that data plane."""
    planes = [plane for known, plane in COMBINATIONS if known == kind]
    if not planes:
        kinds = ", ".join(dict.fromkeys(known for known, _ in COMBINATIONS))
        raise UsageMistake(f"kind is {kind!r}, expected one of {kinds}")
    if ccl != "auto" and ccl not in planes:
        raise UsageMistake(f"ccl is {ccl!r}; sessions of kind {kind} can have auto, {', '.join(planes)}")


def _check_interpreter() -> None:
    """Raise LaunchError where threads of Python run at the same time: interrupts rely on that they do not."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        raise LaunchError(
            "workers that are threads need the global interpreter lock, which this Python has switched off; "
            "start it with `python -X gil=1`, or with PYTHON_GIL=1 in the environment"
        )


class ThreadedSession(Session):
    """A session whose workers are threads of this process.

    Args:
        num_workers: how many; None: as many as `mesh` has, or one per entry of `devices`.
        num_groups: how many groups of equal size they form.
        mesh: named axes with their lengths, ``{"dp": 2, "tp": 4}`` or ``"dp=2,tp=4"``; collectives can go
            over each. Workers are numbered along the last axis first.
        ccl: the data plane: ``"threads"`` on the CPU, ``"device"`` for workers that share a GPU, ``"nccl"``
            for one GPU per worker; ``"auto"``: what fits `devices`.
        devices: each worker's GPU: ``[0, 0, 0]``, ``"0,1"`` or ``["cuda:0", "cuda:1"]``; ``"auto"``: GPUs if
            there are any, one per worker, or all workers on the only one; ``"cpu"``: none. None: the CPU,
            unless `ccl` needs GPUs.
        max_outstanding: how many commands a worker may be behind; beyond that a call waits until the worker
            has done everything it was sent. Bounds the memory of a controller that runs ahead.
        timeout: seconds that a wait without a timeout of its own may take; None: no limit.
        own_modules: packages and modules that each worker imports for itself, so that their global variables
            are per worker, as in processes: ``["megatron"]``; ``["."]``: all but Python's own and installed
            packages. Other modules are imported once and shared by all. From the first program on
            (`run_file`, `run_module`) the default is ``"."``, except for what was imported before; ``()``
            means none.
        extras: called with every worker's context; returns names that its cells see without import.

    Raises:
        UsageMistake: the numbers are impossible; nothing was started.
        PlaneUnavailable, MissingDependency: it needs GPUs or NCCL, which are not there.
        LaunchError: the workers could not be started.

    Example:
        >>> with disco.ThreadedSession(4, num_groups=2) as pairs:
        ...     print(pairs.run("worker.group, int(allreduce(worker_id))"))
        [0-1] (0, 1)
        [2-3] (1, 5)
        >>> with disco.ThreadedSession(mesh={"dp": 2, "tp": 2}) as grid:
        ...     print(grid.run("worker.coordinates['tp'], int(allreduce(worker_id, over='dp'))"))
        [0,2] (0, 2)
        [1,3] (1, 4)
    """

    def __init__(
        self,
        num_workers: int | None = None,
        num_groups: int = 1,
        *,
        mesh: Mapping[str, int] | str | None = None,
        ccl: str = "auto",
        devices: Devices = None,
        max_outstanding: int = MAX_OUTSTANDING,
        timeout: float | None = None,
        own_modules: Iterable[str] | str | None = None,
        extras: Extras | None = None,
    ) -> None:
        check_plane("threads", ccl)
        _check_interpreter()
        if extras is not None and not callable(extras):
            raise UsageMistake(
                "extras is a function that takes a worker's context and returns a dict of names, "
                f"got {class_name(extras)}"
            )
        own = None if own_modules is None else module_names(own_modules)
        axes = mesh_of(mesh)
        if num_workers is None and axes:
            num_workers = axes.num_workers
        if num_workers is not None:
            # Refuses impossible numbers before a GPU is looked for.
            num_workers = Topology(num_workers, num_groups, axes).num_workers
            if num_workers > MOST_WORKERS:
                raise UsageMistake(
                    f"num_workers is {num_workers:,}, and more than {MOST_WORKERS:,} threads are too many "
                    "for one process"
                )
        choice = choose(ccl, devices, num_workers)
        preset = Preset("threads", choice.plane_name, extras, choice.devices, choice.why, own)
        topology = Topology(choice.num_workers, num_groups, axes)
        super().__init__(topology, preset, max_outstanding=max_outstanding, timeout=timeout)

    def _start_workers(self) -> None:
        super()._start_workers()
        if self.plane_name in ("nccl", "rccl"):
            # At the start, where an unreachable GPU surprises nobody; not waited for.
            self.call_packed(builtins.connect)
