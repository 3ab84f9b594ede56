"""One GPU per worker: collectives by NCCL, through cupy.

The members meet on the host, as in the thread plane, and their calls are checked there, so that no member
starts what the others do not. Then the last one to arrive queues every member's part on that member's stream,
as one NCCL group, and no member waits for the GPUs:

    stream of member 0   ...work... part 0 -> work that needs the result
    stream of member 1   ...work... part 1 -> work that needs the result

One thread does it for all because a part that has started waits on its GPU for the other parts. A thread that
allocates memory meanwhile may wait for that GPU while it holds driver locks that another thread would need to
start its part. Communicators are made by each worker's own thread, once. Later failures are raised by
`flights`.
"""

from __future__ import annotations

import weakref
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from disco_magic.devices import find
from disco_magic.errors import MissingDependency, PlaneError, WorkerInterrupt, is_by
from disco_magic.phrases import words
from disco_magic.planes.board import CLOSED
from disco_magic.planes.calls import Call
from disco_magic.planes.communicators import Communicators
from disco_magic.planes.connecting import Connecting
from disco_magic.planes.device import GpuPlane
from disco_magic.planes.device_memory import DeviceMemory
from disco_magic.planes.flight import Fate
from disco_magic.planes.flights import Flights
from disco_magic.planes.layout import giver
from disco_magic.planes.memory import HOST
from disco_magic.planes.nccl_calls import Part, Together, ready, wire
from disco_magic.planes.nccl_errors import Watching, known
from disco_magic.planes.plans import targets_of
from disco_magic.planes.small import plan_of
from disco_magic.planes.verdicts import Broken, broken
from disco_magic.threads.patience import wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from disco_magic.core.seat import Seat
    from disco_magic.devices.gpu import GpuPlace
    from disco_magic.errors import Failure
    from disco_magic.planes.layout import Expected
    from disco_magic.planes.plans import Plan


class NcclMemory(DeviceMemory):
    """cupy's arrays on several GPUs."""

    def __init__(self, places: Sequence[GpuPlace]) -> None:
        super().__init__(places)
        self.name = places[0].device.kind

    def check_reduction(self, kind: str, op: str, dtype: np.dtype[Any]) -> None:
        """See `Memory.check_reduction`."""
        wire(kind, op, dtype)

    def empty(self, call: Call, expected: Expected) -> Any:
        """Allocate on the caller's GPU, whichever thread calls this."""
        device = self.places[call.worker].device
        try:
            with self.cupy.cuda.Device(device.index):
                return super().empty(call, expected)
        except MemoryError as error:  # name the worker: this is the last member's thread
            raise MemoryError(f"worker {call.worker}, on {device}: {words(error)}") from error

    def fenced(self, worker: int) -> Any:
        """See `DeviceMemory.fenced`. Selects the GPU, because the null stream is 0 on every GPU."""
        with self.cupy.cuda.Device(self.places[worker].device.index):
            return super().fenced(worker)

    def let_wait(self, worker: int, event: Any) -> None:
        """See `DeviceMemory.let_wait`."""
        with self.cupy.cuda.Device(self.places[worker].device.index):
            super().let_wait(worker, event)


class NcclPlan:
    """One collective that NCCL carries out, for all its members.

    Attributes:
        parts: the members' parts, in rank order.
        fate: the fate of what was queued; None: nothing was, and the members have to make their call again.
        connecting: set if the members have to connect first.
    """

    def __init__(
        self,
        calls: Sequence[Call],
        memory: DeviceMemory,
        nccl: Any,
        communicators: Communicators,
        flights: Flights,
    ) -> None:
        self.calls = calls
        self.parts: list[Part] = []
        self.fate: Fate | None = None
        self.connecting: Connecting | None = None
        self._memory = memory
        self._nccl = nccl
        self._communicators = communicators
        self._flights = flights

    def run(self) -> None:
        """Queue all parts; called by the last member to arrive, while the others wait."""
        members, communicators = self.calls[0].seat.members, self._communicators
        if communicators.of(members) is None and not communicators.prepare(members):
            self.connecting = Connecting(self.calls)
            return
        self.parts = [Part(self.calls, rank, target) for rank, target in enumerate(targets_of(self.calls))]
        for part in self.parts:
            part.allocate()
        with communicators.launching:
            held = communicators.of(members)
            if held is not None and not communicators.are_ending:
                fate = Fate(members, held)
                with self._flights.starting(self.calls[0], fate):
                    self._start(held)
                self.fate = fate

    def _start(self, held: Sequence[Any]) -> None:
        call, streams, runtime = self.calls[0], self._memory.streams, self._memory.cupy.cuda.runtime
        here = runtime.getDevice()
        try:
            with Together(self._nccl) if len(held) > 1 else nullcontext():
                for part, communicator in zip(self.parts, held, strict=True):
                    call = part.call  # if the group itself fails, NCCL does not say whose part failed
                    part.start(communicator, self._nccl, streams[call.worker].ptr)
        except Exception as error:  # noqa: BLE001 - NCCL, CUDA and cupy raise various types
            runtime.setDevice(here)  # a failed group leaves the thread on another member's GPU
            # Some parts may have started, and wait for the others; earlier work may not be done either.
            error = known(error)
            self._flights.condemn(Fate(call.seat.members, held), broken(call, error))
            raise Broken(call, error) from None

    def result(self, rank: int) -> Any:
        """The result of `rank`, on its own stream; called by its own thread."""
        return self.parts[rank].finish()


class _Connected:
    """The empty plan of the meeting in which members confirm that all of them have connected."""

    def run(self) -> None:
        """Do nothing."""

    def result(self, rank: int) -> None:
        """Return None."""


class NcclPlane(GpuPlane):
    """Moves arrays between workers with a GPU each; implements `disco_magic.core.interfaces.Plane`.

    A call returns when its work is queued on the caller's current stream. If the work fails afterwards (NCCL
    reports an error, a member is interrupted), the members' next wait for their GPUs or their next collective
    raises. NCCL reduces in the precision of the arrays and in its own order: all members get the same bits,
    but not those that another plane would give. Messages between two workers are copies from one GPU to the
    other, without NCCL.

    Args:
        places: the workers' places; no two on one GPU.
        groups: members of the session's groups.

    Attributes:
        name: ``"nccl"``, or ``"rccl"`` on AMD's GPUs.

    Raises:
        MissingDependency: cupy finds no NCCL.
    """

    name = "nccl"

    def __init__(self, places: Sequence[GpuPlace], groups: Sequence[tuple[int, ...]] = ()) -> None:
        memory = NcclMemory(places)
        super().__init__(places, memory, plan=self._planned)
        self._nccl = load_nccl(memory.cupy)
        if find.gpu_kind(memory.cupy) == "rocm":
            self.name = "rccl"
        self._communicators = Communicators(self._nccl, len(places), groups)
        self._flights = Flights(self._board, memory, self._communicators, self._nccl)
        self._watching = Watching(self._flights)
        for worker, place in enumerate(places):
            place.wait = partial(self._flights.wait, worker)
            place.incomplete = partial(self._flights.incomplete, worker)

    def _planned(self, calls: list[Call]) -> Plan:
        if calls[0].kind == "connect":
            return _Connected()
        if giver(calls).memory is HOST:
            return plan_of(calls)
        return NcclPlan(calls, self._memory, self._nccl, self._communicators, self._flights)

    def _meet(self, call: Call) -> Any:
        if call.memory is HOST:
            return super()._meet(call)
        call.ready = ready(call)
        while True:
            if self._communicators.are_ending:  # nothing new may start on a GPU before they have ended
                wait_until(lambda: not self._communicators.are_ending or self._is_over(call.seat))
            # Only after that wait do all members know what was being given up.
            self._flights.settle(call.worker)
            plan = self._met(call).plan
            if not isinstance(plan, NcclPlan):
                return None if plan is None else plan.result(call.seat.rank)
            if plan.fate is not None:
                break
            if plan.connecting is not None:
                self._connect(call, plan.connecting)
        flight = self._flights.add(call, plan.fate)
        result = plan.result(call.seat.rank)
        if result is not None:
            flight.result = weakref.ref(result)  # weak: a flight must not keep memory its owner has dropped
        return result

    def _connect(self, call: Call, connecting: Connecting) -> None:
        """Make the caller's communicator while the others make theirs; raise if one of them cannot."""
        worker, members = call.worker, call.seat.members
        board, watch = self._board, self._board.asleep[worker]
        with board.lock:
            board.waiting[worker] = connecting
        watch.start()
        try:
            connecting.check()  # a member that has failed will not come to connect
            self._communicators.connect(worker, members, lambda: self._is_over(call.seat))
        except Exception as error:
            if isinstance(error, PlaneError):  # another member's failure, or an interrupt: not its own
                raise
            connecting.failed = connecting.failed or (worker, known(error))
            self._communicators.give_up(worker, members)  # then: others may fail at once because of it
        finally:
            watch.stop()
            with board.lock:
                # If this thread was given up, the worker's new thread may wait for something else by now.
                if board.waiting.get(worker) is connecting:
                    del board.waiting[worker]
        connecting.check()
        self._rendezvous.join(Call("connect", call.seat, call.spot, call.memory))

    def _is_over(self, seat: Seat) -> bool:
        """Whether the caller can make no more calls in its command, because it was interrupted."""
        return seat.scope <= self._board.ended or self._board.left[seat.worker] >= seat.scope

    # --- coming and going ------------------------------------------------------------------------

    def leave(self, worker: int, scope: int, failure: Failure | None = None) -> None:
        """See `ThreadPlane.leave`. The flights of an interrupted worker are given up for all members."""
        if failure is None:
            super().leave(worker, scope)
            return
        # Not a skip because of another worker's failure.
        is_its_own = (failure.worker, failure.seq) == (worker, scope)
        interrupted = is_its_own and is_by(failure, WorkerInterrupt)
        if interrupted:
            self._flights.note(worker, failure)
        super().leave(worker, scope, failure)
        if interrupted:
            self._flights.interrupt(worker, scope, failure)
        else:
            self._flights.forgive(worker, scope)

    def abort(self, through: int, reason: str) -> None:
        """See `ThreadPlane.abort`. Collectives in flight are given up."""
        super().abort(through, reason)
        self._flights.abort(through, reason)

    def close(self) -> None:
        """Release all waiting workers and refuse further calls. Idempotent."""
        super().close()
        self._watching.end()
        self._flights.abort(self._board.ended, CLOSED)
        try:
            self._communicators.close()
        finally:
            for place in self._places:  # plane and places would keep each other alive
                place.wait, place.incomplete = wait_until, tuple
                if self._communicators.are_ending:
                    continue  # a kernel may still write to others' memory
                place.end()


def load_nccl(cupy: Any) -> Any:
    """Return `cupy.cuda.nccl`."""
    nccl = find.nccl_of(cupy)
    if nccl is None:
        raise MissingDependency(
            "ccl='nccl' needs NCCL, and cupy finds no libnccl.so.2; install it with: "
            "pip install \"disco-magic[cuda13]\" (or cuda12), or share one GPU: ccl='device'"
        )
    return nccl
