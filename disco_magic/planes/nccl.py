"""One GPU per worker: collectives by NCCL, through cupy.

The members meet on the host, as in the thread plane, and their calls are checked there, so that nobody starts
what the others do not. Then each starts its part on its own stream, and waits for it by looking: whoever sees
that the call cannot end (an interrupt, a failed member, an error that NCCL reports) aborts its communicator,
and all members raise. Their communicators are rebuilt at the next call.

    ready -> arrive -> checked -> allocate -> connect, once -> start -> look: done? error? gone? -> finish
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from disco_magic.devices import find
from disco_magic.devices.events import has_passed
from disco_magic.errors import MissingDependency, PlaneAborted, words
from disco_magic.patience import wait_until
from disco_magic.planes.communicators import Communicators
from disco_magic.planes.device import DeviceMemory, GpuPlane
from disco_magic.planes.layout import giver
from disco_magic.planes.meeting import Verdict
from disco_magic.planes.memory import HOST
from disco_magic.planes.nccl_calls import Part, ready
from disco_magic.planes.plans import targets_of
from disco_magic.planes.rendezvous import broken
from disco_magic.planes.small import plan_of
from disco_magic.planes.wire import wire

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from disco_magic.core.interfaces import Seat
    from disco_magic.devices.gpu import GpuPlace
    from disco_magic.planes.calls import Call
    from disco_magic.planes.layout import Expected
    from disco_magic.planes.meeting import Meeting
    from disco_magic.planes.plans import Plan


# So long nobody looks whether a call can end at all: that takes several times as long as to see that it has.
_AT_ONCE_S = 300e-6


class NcclMemory(DeviceMemory):
    """Arrays of cupy on several GPUs."""

    def __init__(self, places: Sequence[GpuPlace]) -> None:
        super().__init__(places)
        self.name = places[0].device.kind

    def check_reduction(self, kind: str, op: str, dtype: np.dtype[Any]) -> None:
        """See `Memory.check_reduction`."""
        wire(kind, op, dtype)

    def empty(self, call: Call, expected: Expected) -> Any:
        """On the caller's GPU, whichever thread this is."""
        device = self.places[call.worker].device
        try:
            with self.cupy.cuda.Device(device.index):
                return super().empty(call, expected)
        except MemoryError as error:  # on the last member's thread, so that its error would name that one
            raise MemoryError(f"worker {call.worker}, on {device}: {words(error)}") from error


class NcclPlan:
    """One collective that NCCL carries out; each member does its own part.

    Attributes:
        parts: of the members, in rank order, when memory was found for them.
        verdict: why it fails, as soon as any member knows.
        finished: ranks whose part of NCCL's work is done.
    """

    def __init__(self, calls: Sequence[Call], communicators: Communicators) -> None:
        self.calls = calls
        self.parts: list[Part] = []
        self.verdict: Verdict | None = None
        self.finished: set[int] = set()
        self._communicators = communicators

    def run(self) -> None:
        """By the last member to arrive, before the others do their parts."""
        self.parts = [Part(self.calls, rank, target) for rank, target in enumerate(targets_of(self.calls))]
        for part in self.parts:
            part.allocate()
        self._communicators.prepare(self.calls[0].seat.members)

    def result(self, rank: int) -> Any:
        """What `rank` gets; to be called when NCCL has done its part."""
        return self.parts[rank].finish()


class NcclPlane(GpuPlane):
    """Moves arrays between workers with a GPU each; implements `disco_magic.core.interfaces.Plane`.

    A call returns when its work is done. NCCL reduces in the precision of the arrays and in an order of its
    own: all members get the same bits, but not those that another plane would give. Messages between two
    workers are copies from one GPU to the other, without NCCL.

    Args:
        places: of the workers; no two on one GPU.
        groups: members of the session's groups.

    Attributes:
        name: ``"nccl"``, or ``"rccl"`` on AMD's GPUs.

    Raises:
        MissingDependency: cupy finds no NCCL.
    """

    name = "nccl"

    def __init__(self, places: Sequence[GpuPlace], groups: Sequence[tuple[int, ...]] = ()) -> None:
        super().__init__(places, NcclMemory(places), plan=self._plan)
        self._cupy = places[0].xp
        self._nccl = load_nccl(self._cupy)
        if self._cupy.cuda.runtime.is_hip:
            self.name = "rccl"
        self._communicators = Communicators(self._nccl, len(places), groups)

    def _plan(self, calls: list[Call]) -> Plan:
        if giver(calls).memory is HOST or calls[0].kind == "barrier":
            return plan_of(calls)
        return NcclPlan(calls, self._communicators)

    def _meet(self, call: Call) -> Any:
        if isinstance(call.memory, NcclMemory):
            call.ready = ready(call)
        meeting = self._rendezvous.join(call)
        plan = meeting.plan
        if not isinstance(plan, NcclPlan):
            return None if plan is None else plan.result(call.seat.rank)
        return self._perform(meeting, plan, call)

    def _perform(self, meeting: Meeting, plan: NcclPlan, call: Call) -> Any:
        """The caller's part, to its end."""
        rank, members, worker = call.seat.rank, call.seat.members, call.worker
        done = self._places[worker].fence
        watch = self._board.asleep[worker]
        with self._board.lock:
            self._board.waiting[worker] = meeting
        watch.start()
        communicator = None
        try:
            if plan.verdict is None:  # else somebody may not come to where NCCL connects
                communicator = self._communicators.connect(worker, members, lambda: self._is_over(call.seat))
                plan.parts[rank].start(communicator, self._nccl)
            done.record(self._memory.streams[worker])
            if not wait_until(lambda: has_passed(self._cupy, done), _AT_ONCE_S):
                wait_until(
                    lambda: (
                        has_passed(self._cupy, done) or self._is_hopeless(meeting, plan, call, communicator)
                    )
                )
            if plan.verdict is None:
                plan.finished.add(rank)
                return self._finished(plan, call)
        except Exception as error:  # noqa: BLE001 - whatever NCCL, CUDA or cupy raise ends the call for all
            self._condemn(plan, broken(call, error))
        finally:
            watch.stop()
            with self._board.lock:
                # If this thread was given up, the worker's new one may wait for something else by now.
                if self._board.waiting.get(worker) is meeting:
                    del self._board.waiting[worker]
        if communicator is not None:
            self._communicators.abort(worker, members, communicator)
        if plan.verdict is None:
            raise AssertionError("given up without a verdict")
        raise plan.verdict.error()

    def _finished(self, plan: NcclPlan, call: Call) -> Any:
        """The caller's result, when all of its work is done."""
        result = plan.result(call.seat.rank)
        if plan.parts[call.seat.rank].has_more:
            done = self._places[call.worker].fence
            done.record(self._memory.streams[call.worker])
            wait_until(lambda: has_passed(self._cupy, done))
        return result

    def _is_hopeless(self, meeting: Meeting, plan: NcclPlan, call: Call, communicator: Any) -> bool:
        """Whether the call cannot end by itself; then `plan` has a verdict."""
        if plan.verdict is not None:
            return True
        board, seat = self._board, call.seat
        error = async_error(communicator, self._nccl)
        if error is not None:
            self._condemn(plan, broken(call, error))
            return True
        if seat.scope <= board.ended:
            text = f"{meeting.describe()} was given up while it was being carried out"
            self._condemn(plan, Verdict(PlaneAborted, text))
            return True
        for rank, member in enumerate(seat.members):
            if board.left[member] >= seat.scope and rank not in plan.finished:
                with board.lock:
                    self._condemn(plan, board.gone(member, meeting))
                return True
        return False

    def _is_over(self, seat: Seat) -> bool:
        """Whether the caller can make no more calls in its command: it was interrupted."""
        return seat.scope <= self._board.ended or self._board.left[seat.worker] >= seat.scope

    @staticmethod
    def _condemn(plan: NcclPlan, verdict: Verdict) -> None:
        if plan.verdict is None:
            plan.verdict = verdict

    def close(self) -> None:
        """Release everybody, and refuse further calls. Idempotent."""
        super().close()
        self._communicators.close()


def load_nccl(cupy: Any) -> Any:
    """`cupy.cuda.nccl`.

    Raises:
        MissingDependency: there is no NCCL that it could load.
    """
    nccl = find.nccl_of(cupy)
    if nccl is None:
        raise MissingDependency(
            "ccl='nccl' needs NCCL, and cupy finds no libnccl.so.2; install it with: "
            "pip install \"disco-magic[cuda13]\" (or cuda12), or share one GPU: ccl='device'"
        )
    return nccl


def async_error(communicator: Any, nccl: Any) -> Exception | None:
    """What NCCL says has gone wrong since the last call, None if nothing."""
    try:
        communicator.check_async_error()
    except (nccl.NcclError, KeyError) as error:  # KeyError: a status that cupy has no name for, remote errors
        if isinstance(error, KeyError) and error.args == (_IN_PROGRESS,):
            return None
        return error
    return None


_IN_PROGRESS = 7  # ncclInProgress
