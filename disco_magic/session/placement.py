"""Checks where a session's workers compute and what carries their collectives, after it was started."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Final

from disco_magic.errors import PlaneUnavailable, UsageMistake
from disco_magic.functions import worker_builtins
from disco_magic.functions.affinity import check_cores
from disco_magic.phrases import near_misses
from disco_magic.session.calls import Calls
from disco_magic.session.combinations import COMBINATIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

# Name -> what it means, in words.
CCLS: Final = {
    "auto": "the session's own choice",
    "threads": "arrays in the memory of one process",
    "device": "several workers on one GPU",
    "nccl": "one NVIDIA GPU per worker",
    "rccl": "one AMD GPU per worker",
    "mpi": "processes and hosts",
}


class Placement(Calls):
    """The mixin of `Session` about data planes and CPU cores."""

    kind: str
    device: str
    plane_name: str

    def init_ccl(self, ccl: str, *device_ids: int) -> None:
        """Choose what carries collectives, as in Disco; sends nothing and may be called repeatedly.

        A session has its data plane from the start (``ccl=`` of its constructor), so this only checks that it
        is the one asked for. A program written for Disco can say ``"auto"`` instead of ``"nccl"`` to run
        where there is no GPU.

        Args:
            ccl: ``"auto"``: whatever the session has; ``"threads"``, ``"device"``, ``"nccl"``, ``"rccl"`` or
                ``"mpi"``: that one.
            *device_ids: the device of each worker, or none. Workers on the CPU share device 0.

        Raises:
            UsageMistake: no data plane has that name, or the ids are not devices of these workers.
            PlaneUnavailable: the session has another data plane.
            SessionClosed: it was shut down.

        Example:
            >>> session.init_ccl("threads")
        """
        self._check_ccl(ccl)
        self._check_devices(device_ids)

    def _check_ccl(self, ccl: str) -> None:
        if self.closed:
            self._refuse()
        if not isinstance(ccl, str) or ccl not in CCLS:
            hint = near_misses(str(ccl).lower(), CCLS) or f"expected one of {', '.join(CCLS)}"
            raise UsageMistake(f"init_ccl: there is no data plane {ccl!r}; {hint}")
        if ccl in ("auto", self.plane_name):
            return
        if (self.kind, ccl) in COMBINATIONS:
            remedy = f"start another session of kind {self.kind} with ccl={ccl!r}"
        else:
            known = ", ".join(plane for kind, plane in COMBINATIONS if kind == self.kind) or self.plane_name
            remedy = f"sessions of kind {self.kind} can have {known}; call init_ccl('auto') or leave it out"
        raise PlaneUnavailable(
            f"init_ccl: session {self.id} has the data plane {self.plane_name}, not {ccl} ({CCLS[ccl]}), and "
            f"a running session keeps what it has; {remedy}"
        )

    def _check_devices(self, device_ids: tuple[int, ...]) -> None:
        if not device_ids:
            return
        numbers = _numbers("init_ccl: the device ids are", device_ids)
        if len(numbers) != self.num_workers:
            raise UsageMistake(
                f"init_ccl got {len(numbers)} device ids for {self.num_workers} workers; "
                "give one for each, or none"
            )
        if self.devices and numbers != self.devices:
            raise UsageMistake(
                f"init_ccl: the workers of session {self.id} have the GPUs {list(self.devices)}, which it "
                f"keeps; for {list(numbers)} start another session with devices={list(numbers)}"
            )
        missing = sorted(set(numbers) - {0})
        if str(self.device) == "cpu" and missing:
            raise UsageMistake(
                f"init_ccl: the workers of session {self.id} live on the CPU, which is device 0 for all of "
                f"them; there is no device {', '.join(map(str, missing))}. Leave the ids out"
            )

    def bind_worker_to_cpu_core(self, core_ids: Sequence[int]) -> None:
        """Pin each worker to one CPU core; asynchronous, and lasts until the session's `restart`.

        Threads that a worker's code starts afterwards inherit its core; those of a BLAS library, which exist
        already, do not. Workers that share a core take turns on it.

        Args:
            core_ids: worker i gets ``core_ids[i]``, as Linux numbers cores from 0; extra ids are ignored.

        Raises:
            UsageMistake: fewer ids than workers, not whole numbers, cores that do not exist or that this
                process may not use, or the system is not Linux. Nothing was sent.

        Cost: 100 us to check the cores here, 1 us on each worker.
        """
        cores = _numbers("bind_worker_to_cpu_core: the cores are", core_ids)[: self.num_workers]
        if len(cores) < self.num_workers:
            raise UsageMistake(
                f"bind_worker_to_cpu_core got {len(cores)} cores for {self.num_workers} workers; "
                "give one for each, two workers may share one"
            )
        check_cores(cores)
        self.call_packed(worker_builtins.bind_worker_to_cpu_core, cores)


def _numbers(what: str, values: Sequence[int]) -> tuple[int, ...]:
    try:
        return tuple(operator.index(value) for value in values)
    except TypeError:
        raise UsageMistake(f"{what} {values!r}, expected whole numbers, one per worker") from None
