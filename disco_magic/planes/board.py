"""The plane's bookkeeping: which workers wait, which have left, and how a waiting worker is released.

Callers may rely on:
  * A worker that parks is woken exactly once per park: only the thread that takes it out of `waiting` (or,
    while data moves, out of a meeting's `resting`) under the lock sees to it that its gate opens.
  * When several workers are released together, one is woken at once, and each wakes the next. Threads that
    wake at the same time would queue for the interpreter's lock and fall asleep a second time: 16 workers
    completed an allreduce after 440 us, one by one after 295; 4 workers after 92 and 85.
  * A worker parks only while every worker that it needs can still come.
  * The lock is held for bookkeeping only, never while data moves or user code runs: but for finalizers and
    signal handlers, which Python runs between any two steps. One that calls the plane is refused there.

The race between a worker that parks and one that leaves is decided without a common lock, because the driver
(the worker's loop) leaves without taking ours in the usual case that no worker waits:

  1. The parking worker enters itself in `waiting`.           a. The driver writes ``left[worker] = scope``.
  2. It then reads `left` of everyone it needs.               b. It then reads `waiting`; if it is not
                                                                 empty, it calls `leave`, which looks again.

Either 2 sees a, or b sees 1; never neither. CPython's item reads and writes on lists and dicts are atomic and
seen by all threads in one order: with the GIL, and without it, where each takes the object's own lock.
"""

from __future__ import annotations

from _thread import TIMEOUT_MAX
from typing import TYPE_CHECKING, Any

from disco_magic.core.seat import hopes
from disco_magic.errors import PlaneAborted, PlaneMismatch, UsageMistake
from disco_magic.functions.claims import loads_something
from disco_magic.planes import deadlocks, verdicts
from disco_magic.planes.reasons import Reasons
from disco_magic.planes.verdicts import Verdict
from disco_magic.threads.locks import new_rlock
from disco_magic.threads.stacks import imports_something
from disco_magic.threads.stopwatch import Stopwatch

if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from threading import RLock

    from disco_magic.errors import Failure
    from disco_magic.planes.calls import Call
    from disco_magic.planes.mail import Sent
    from disco_magic.planes.meeting import Wait

CLOSED = "the data plane was closed"
_FOREVER = 2**63
_LIGHTLY_S = 0.1


class Board:
    """The state shared by all waits of one plane.

    Attributes:
        left: worker -> the last scope that it has left.
        waiting: worker -> what it waits for.
        sent: worker -> its last message.
        mail: see `Plane.mail`.
        ended: calls with a scope up to this one raise.
        asleep: worker -> the time that it has spent waiting.
        look: says in words where a missing worker is; called with the lock held.
        held_up: says why a waiting worker can never go on that waits for imports by itself, else "".
    """

    def __init__(self, num_workers: int) -> None:
        self._lock = new_rlock()  # reentrant only because such a lock knows its owner
        self.left = [-1] * num_workers
        self.waiting: dict[int, Wait] = {}
        self.sent: dict[int, Sent] = {}
        self.mail: Sequence[Mapping[Any, Any]] = [{}] * num_workers
        self.ended = -1
        self.asleep = [Stopwatch() for _ in range(num_workers)]
        self.look: Callable[[int], str] | None = None
        self.held_up: Callable[[int], str] | None = None
        self._reason = ""
        self._displaced: list[LockType] = []
        self._reasons = Reasons(num_workers)

    @property
    def lock(self) -> RLock:
        """Guards everything here and all meetings and mailboxes. Costs 0.15 us more than a bare lock.

        Raises:
            UsageMistake: the calling thread holds it: it would wait for itself, or see things half done.
        """
        # As `threading.Condition` asks.
        if self._lock._is_owned():  # type: ignore[attr-defined]  # noqa: SLF001
            raise UsageMistake(
                "a finalizer or a signal handler called a collective or message while the same thread was in"
                " one; it was not made. Let it note what is to be done in a queue.SimpleQueue, and do that"
                " afterwards"
            )
        return self._lock

    # --- for a worker's own thread, with the lock held -----------------------------------------------

    def admit(self, call: Call) -> None:
        """Raise if the seat can make no more calls: aborted, closed, or its worker has left the scope."""
        worker, _, scope = call.seat[:3]
        if scope <= self.ended:
            raise PlaneAborted(f"{call.called} on worker {worker}: {self._reason}")
        if self.left[worker] >= scope:
            raise PlaneAborted(
                f"{call.called} on worker {worker}: the worker has already left this command - collectives"
                f" have to be called before the cell or function ends"
            )

    def park(self, worker: int, wait: Wait) -> None:
        """Enter `worker` as waiting, and fail `wait` if it is hopeless; the caller acquires its gate next."""
        if (former := self.waiting.get(worker)) is not None:
            # A thread that was given up still waits, while others move its data: wake it when they are done.
            self._displaced += [gate for each, gate in former.gates() if each == worker]
        self.waiting[worker] = wait
        # A worker that leaves after this look finds us in `waiting`. Usually `max` shows that none has left
        # yet; checking each needed worker instead makes parking take 0.4 us instead of 0.25.
        if max(self.left) >= wait.scope:
            lost = self.lost(wait)
            if lost is not None:
                self.fail(wait, self.gone(lost, wait))
                return
        # There can only be a circle if some worker waits elsewhere, or if we wait for ourselves.
        if len(self.waiting) > wait.arrived:
            self._break_circle(worker)

    def lost(self, wait: Wait) -> int | None:
        """A worker that has left, and without which those in `wait` cannot go on: one that failed, if any."""
        missing = wait.missing()
        if wait.any_suffices and any(self.left[worker] < wait.scope for worker in reversed(missing)):
            return None  # found soon: those that leave together do so in ascending order
        here = hopes(wait, self.left)
        if len(here) == len(missing):
            return None
        gone = [worker for worker in missing if worker not in here]
        failed = (worker for worker in gone if self.failure_of(worker, wait.scope) is not None)
        return next(failed, gone[0])

    def gone(self, worker: int, wait: Wait, failure: Failure | None = None) -> Verdict:
        """The verdict on `wait`, which `worker` has made hopeless by leaving, with this `failure`, if any."""
        # The failure of an earlier command may have made it leave this one too.
        why = failure or self.failure_of(worker, wait.scope)
        return verdicts.gone(worker, wait, why, self.whereabouts(wait.scope), self.mail)

    def failure_of(self, worker: int, scope: int) -> Failure | None:
        """Why a worker has left a scope; None if it finished or is still there. With the lock held."""
        return self._reasons.of(worker, scope)

    def whereabouts(self, scope: int) -> Callable[[int], str]:
        """A function that says where a worker is that others wait for in `scope`."""

        def told(worker: int) -> str:
            if self.left[worker] >= scope:
                failure = self.failure_of(worker, scope)
                return "finished" if failure is None else f"failed: {failure.summary}"
            return "has not come to it yet" if self.look is None else self.look(worker)

        return told

    def fail(self, wait: Wait, verdict: Verdict) -> None:
        """Give `wait` its verdict and wake all workers that wait in it."""
        wait.verdict = verdict
        self.wake(wait)

    def wake(self, wait: Wait, resting: Iterable[LockType] = ()) -> None:
        """Wake all workers that are parked in `wait`, and those that wait at the gates `resting`."""
        waiting, gates = self.waiting, list(resting)
        for worker, gate in wait.gates():
            if waiting.get(worker) is wait:
                del waiting[worker]
                gates.append(gate)
            elif gate in self._displaced:
                self._displaced.remove(gate)
                gates.append(gate)
        if gates:
            first = gates.pop()
            wait.to_wake = gates
            first.release()

    def _break_circle(self, worker: int) -> None:
        workers = deadlocks.circle(self.waiting, worker)
        if not workers and any(wait.any_suffices for wait in self.waiting.values()):
            workers = deadlocks.stuck(self.waiting, worker, self.left)
        if not workers:
            return
        waits = _distinct(self.waiting[w] for w in workers)
        text, failure = deadlocks.describe(self.waiting, workers, self.sent, self.mail), self._missed(waits)
        verdict = Verdict(PlaneMismatch, text)
        if failure is not None:  # with it, one that waits for any of several could perhaps go on
            verdict = verdicts.without(failure, text)
        for wait in waits:
            self.fail(wait, verdict)

    def _missed(self, waits: Iterable[Wait]) -> Failure | None:
        """The failure of a worker from which one of `waits` could have been ended by any of several."""
        missing = [(worker, wait) for wait in waits if wait.any_suffices for worker in wait.missing()]
        failures = (self.failure_of(worker, wait.scope) for worker, wait in missing)
        return next(filter(None, failures), None)

    def sleep(self, call: Call, wait: Wait) -> None:
        """Sleep until another thread opens the caller's gate; without the lock held, after `park`."""
        watch = self.asleep[call.worker]
        watch.start()
        try:
            if call.seat.limit_s is not None:
                self._sleep_at_most(call, wait, call.seat.limit_s)
            elif self.held_up is not None and (imports_something() or loads_something()):
                self._sleep_lightly(call, wait, self.held_up)
            else:
                call.gate.acquire()
        finally:  # even if this call fails, the next worker depends on it to be woken
            if wait.to_wake:
                self.pass_on(wait)
            watch.stop()

    def _sleep_at_most(self, call: Call, wait: Wait, limit_s: float) -> None:
        """Sleep, and give up after so many seconds; then `wait` is neither complete nor has it a verdict."""
        if call.gate.acquire(timeout=min(limit_s, TIMEOUT_MAX)):
            return
        with self.lock:
            if self.waiting.get(call.worker) is wait:  # else it is over, and its gate is being opened
                del self.waiting[call.worker]

    def _sleep_lightly(self, call: Call, wait: Wait, held_up: Callable[[int], str]) -> None:
        """Sleep, and look up now and then: perhaps others wait until the caller has got a module.

        No worker notices that: they wait for the import, or the load. What looks like it twice is so.
        """
        before = ""
        while not call.gate.acquire(timeout=_LIGHTLY_S):
            reason = held_up(call.worker)
            if reason and reason == before:
                with self.lock:
                    if self.waiting.get(call.worker) is wait and wait.verdict is None and not wait.complete:
                        text = f"{wait.describe()} can never complete: {reason}"
                        self.fail(wait, Verdict(PlaneMismatch, text))
            before = reason

    def pass_on(self, wait: Wait) -> None:
        """Wake the next of the workers that are released together; called by each of them as it wakes."""
        try:  # without the lock, which the others may be waiting for: `pop` is atomic
            gate = wait.to_wake.pop()
        except IndexError:
            return  # a helper that was woken earlier has emptied it meanwhile
        gate.release()

    def _break_probes(self) -> None:
        """Fail those that wait for any of several workers, if a departure has left only such as wait, too."""
        for worker, wait in [*self.waiting.items()]:
            if wait.any_suffices and wait.verdict is None and not wait.complete:
                self._break_circle(worker)

    # --- for any thread ------------------------------------------------------------------------------

    def leave(self, worker: int, scope: int, failure: Failure | None) -> None:
        """See `Plane.leave`."""
        with self.lock:
            if failure is not None:
                self._reasons.keep(worker, scope, self.left[worker], failure)
            self.left[worker] = max(self.left[worker], scope)
            for wait in self._waits_through(scope):
                if (lost := worker if self.waiting.get(worker) is wait else self.lost(wait)) is None:
                    continue
                self.fail(wait, self.gone(lost, wait, failure if lost == worker else None))
            self._break_probes()
            self._reasons.forget(min(self.left))

    def abort(self, through: int, reason: str) -> None:
        """See `Plane.abort`."""
        with self.lock:
            if through > self.ended:
                self.ended, self._reason = through, reason
            for wait in self._waits_through(through):
                self.fail(wait, Verdict(PlaneAborted, f"{reason} - {wait.describe()} was given up"))

    def close(self) -> None:
        """See `Plane.close`."""
        self.abort(_FOREVER, CLOSED)

    def forsake(self, reason: str) -> None:
        """As `close`, in the child of a fork, where no other thread exists that could wait."""
        self.ended, self._reason = _FOREVER, reason

    def over(self, scope: int, members: Iterable[int]) -> bool:
        """Whether none of `members` can make another call in `scope`."""
        return scope <= self.ended or all(self.left[member] >= scope for member in members)

    @property
    def failures_kept(self) -> int:
        """Number of failures kept for late members."""
        return len(self._reasons)

    def _waits_through(self, scope: int) -> list[Wait]:
        waits = _distinct(self.waiting.values())
        return [wait for wait in waits if wait.scope <= scope and not wait.complete]


def _distinct(waits: Iterable[Wait]) -> list[Wait]:
    return list({id(wait): wait for wait in waits}.values())
