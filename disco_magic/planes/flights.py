"""What NCCL was given and has not done yet, by worker.

A collective's call returns when it is queued. What goes wrong afterwards is told where the worker waits for
its GPU the next time, at the end of its cell at the latest, or where it calls the next collective:

    queued -> done                                          nothing to tell
           -> NCCL reports an error     seen by who waits      \
           -> a member is interrupted   seen by who interrupts  -> verdict, communicators aborted -> raised
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from disco_magic.devices.events import has_passed
from disco_magic.errors import PlaneAborted, PlaneError, class_name, words
from disco_magic.functions.sites import site_of
from disco_magic.patience import wait_until
from disco_magic.planes.calls import described
from disco_magic.planes.communicators import async_error
from disco_magic.planes.meeting import Verdict

if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable, Sequence

    from disco_magic.errors import Failure
    from disco_magic.planes.board import Board
    from disco_magic.planes.calls import Call
    from disco_magic.planes.communicators import Communicators
    from disco_magic.planes.device import DeviceMemory

# So long nobody looks whether the work can end at all: that takes several times as long as to see its end.
_AT_ONCE_S: Final = 300e-6
# A GPU's queue is finite, and who finds it full waits in C code.
MOST: Final = 256
_INCOMPLETE: Final = "results and out arrays of all members are incomplete"


class Fate:
    """What becomes of one collective, for all its members.

    Attributes:
        members: worker ids, ascending.
        communicators: theirs, in rank order.
        verdict: why it will not be done.
    """

    __slots__ = ("communicators", "members", "verdict")

    def __init__(self, members: tuple[int, ...], communicators: Sequence[Any]) -> None:
        self.members = members
        self.communicators = communicators
        self.verdict: Verdict | None = None


class Flight:
    """One member's part of a collective on its way, without the arrays; a `Wait` that nobody has to come for.

    Attributes:
        fate: of the collective.
        done: an event of the member's stream.
        forgiven: nothing is told of it: its command has failed already.
    """

    __slots__ = ("_facts", "_spot", "done", "fate", "forgiven", "scope", "to_wake", "verdict")

    arrived = 0
    complete = True

    def __init__(self, call: Call, fate: Fate, done: Any) -> None:
        array = call.array
        shown = None if array is None else (array.dtype, array.shape)
        self._facts = call.kind, shown, call.where, call.op, call.root, call.axis
        self._spot = call.spot
        self.scope = call.seat.scope
        self.fate = fate
        self.done = done
        self.forgiven = False
        self.to_wake: list[LockType] = []
        self.verdict: Verdict | None = None

    def missing(self) -> list[int]:
        """Nobody."""
        return []

    def gates(self) -> list[tuple[int, LockType]]:
        """None: who waits for it looks whether it is done."""
        return []

    def call_of(self, worker: int) -> tuple[str, str]:  # noqa: ARG002 - a Wait's signature; it is one worker's
        """``allreduce(float32 (3,) on cuda, op=sum)``, ``Cell In[3], line 4``."""
        kind, shown, where, op, root, axis = self._facts
        brings = None if shown is None else f"{shown[0]} {shown[1]}{where}"
        return described(kind, brings, op=op, root=root, axis=axis), str(site_of(self._spot))

    def describe(self) -> str:
        """``allreduce(float32 (3,) on cuda, op=sum) at Cell In[3], line 4``."""
        return " at ".join(self.call_of(0))

    def seen_by(self, worker: int) -> str:
        """As `describe`."""
        return " at ".join(self.call_of(worker))


class Flights:
    """The collectives of one plane that are on their way.

    Args:
        board, memory, communicators: the plane's.
        nccl: `cupy.cuda.nccl`.
    """

    def __init__(self, board: Board, memory: DeviceMemory, communicators: Communicators, nccl: Any) -> None:
        self._board = board
        self._memory = memory
        self._cupy = memory.cupy
        self._communicators = communicators
        self._nccl = nccl
        # Only the worker's own thread takes out of these.
        self._of: list[deque[Flight]] = [deque() for _ in memory.places]
        self._condemned: set[int] = set()

    # --- by a worker's own thread ----------------------------------------------------------------

    def add(self, call: Call, fate: Fate) -> None:
        """What the caller's stream has been given up to now has to be done for `call`."""
        worker = call.worker
        flights = self._of[worker]
        self._prune(worker)
        # A new one: to record a former one again would take it from whoever still asks for that.
        done = self._cupy.cuda.Event(disable_timing=True)
        done.record(self._memory.streams[worker])
        flight = Flight(call, fate, done)
        flights.append(flight)
        # Either whoever takes the communicators away finds the flight, or we see that they are gone.
        if not self._communicators.are_held(fate.members, fate.communicators):
            text = f"{flight.describe()} was given up: its communicators were aborted - {_INCOMPLETE}"
            fate.verdict = fate.verdict or Verdict(PlaneAborted, text)
            self._condemned.add(worker)
        # As with those: who interrupts looks for flights after he has noted the departure.
        if self._board.left[worker] >= flight.scope or self._board.ended >= flight.scope:
            flight.forgiven = self._board.left[worker] >= flight.scope
            self._give_up(worker, flight.scope, f"its command was interrupted - {_INCOMPLETE}")
        if len(flights) >= MOST:
            oldest, left = flights[0].done, self._board.left
            self.wait(worker, lambda: has_passed(self._cupy, oldest) or left[worker] >= flight.scope)

    def wait(self, worker: int, is_done: Callable[[], bool]) -> None:
        """Return when ``is_done()``, as `wait_until`; raise what could not be done.

        Raises:
            PlaneError, PlaneAborted: a collective could not; the worker's, of this command or an earlier one.
        """
        if not wait_until(is_done, _AT_ONCE_S):
            self._look_until(worker, is_done)
        self._prune(worker)
        self.settle(worker)

    def settle(self, worker: int) -> None:
        """Raise what could not be done of the worker's collectives; once."""
        if worker not in self._condemned:
            return
        self._condemned.discard(worker)
        flights, verdict = self._of[worker], None
        for flight in [flight for flight in flights if flight.fate.verdict is not None]:
            flights.remove(flight)
            if not flight.forgiven:
                verdict = verdict or flight.fate.verdict
        if verdict is not None:
            raise verdict.error()

    def _prune(self, worker: int) -> None:
        flights = self._of[worker]
        while flights and flights[0].fate.verdict is None and has_passed(self._cupy, flights[0].done):
            flights.popleft()

    def _look_until(self, worker: int, is_done: Callable[[], bool]) -> None:
        self._prune(worker)
        flights, board = self._of[worker], self._board
        if not flights:
            wait_until(is_done)
            return
        flight, watch = flights[0], board.asleep[worker]
        try:
            with board.lock:  # for who asks where the worker is
                board.waiting[worker] = flight
            watch.start()
            wait_until(lambda: is_done() or self._look(worker))
        finally:
            watch.stop()
            self.forget(worker, flight)

    def _look(self, worker: int) -> bool:
        """Whether there is no use in waiting any longer: never, for what is aborted is done soon."""
        communicators = self._communicators
        oldest: dict[int, Fate] = {}  # by communicator: that is the one which it is at
        for flight in list(self._of[worker]):
            oldest.setdefault(id(flight.fate.communicators[0]), flight.fate)
        for fate in oldest.values():
            with communicators.launching:  # so that nobody aborts them meanwhile
                if fate.verdict is not None:
                    continue
                errors = [async_error(communicator, self._nccl) for communicator in fate.communicators]
            for member, error in zip(fate.members, errors, strict=True):
                if error is not None:
                    self.condemn(fate, self._failed(worker, fate, member, error))
                    break
        return False

    def _failed(self, worker: int, fate: Fate, member: int, error: Exception) -> Verdict:
        what = next(flight for flight in self._of[worker] if flight.fate is fate).describe()
        text = (
            f"{what} could not be carried out on worker {member}: {class_name(error)}: {words(error)}"
            f" - {_INCOMPLETE}"
        )
        return Verdict(PlaneError, text, cause=error)

    # --- by any thread ---------------------------------------------------------------------------

    def forget(self, worker: int, flight: Flight | None = None) -> None:
        """Nobody waits for this one any more, None: whichever the worker waited for."""
        board = self._board
        with board.lock:
            wait = board.waiting.get(worker)
            if wait is flight if flight is not None else isinstance(wait, Flight):
                del board.waiting[worker]

    def interrupt(self, worker: int, through: int, failure: Failure) -> None:
        """Give up what is on its way of the worker's commands up to `through`; returns at once."""
        # First: the worker itself may see the end of it at once.
        for flight in list(self._of[worker]):
            flight.forgiven |= flight.scope <= through
        self._give_up(worker, through, f"worker {worker} was interrupted - {_INCOMPLETE}", failure)
        self.forget(worker)

    def forgive(self, worker: int, scope: int) -> None:
        """The worker's command `scope` has failed already, and with it what it was to do."""
        for flight in list(self._of[worker]):
            flight.forgiven |= flight.scope == scope

    def abort(self, through: int, why: str) -> None:
        """As `interrupt`, of all workers."""
        for worker in range(len(self._of)):
            self._give_up(worker, through, f"{why} - {_INCOMPLETE}")

    def _give_up(self, worker: int, through: int, why: str, failure: Failure | None = None) -> None:
        for flight in list(self._of[worker]):
            if flight.scope <= through and flight.fate.verdict is None and not self._is_done(flight):
                text = f"{flight.describe()} was given up while it was being carried out: {why}"
                self.condemn(flight.fate, Verdict(PlaneAborted, text, failure))

    def _is_done(self, flight: Flight) -> bool:
        try:
            return has_passed(self._cupy, flight.done)
        except self._cupy.cuda.runtime.CUDARuntimeError:  # the GPU is lost: who waits for it will see
            return True

    def condemn(self, fate: Fate, verdict: Verdict) -> None:
        """Nothing that the communicators of `fate` still have to do will be done."""
        taken = self._communicators.take_out(fate.members, fate.communicators)
        for member in fate.members:
            for flight in list(self._of[member]):
                same = flight.fate.communicators[0] is fate.communicators[0]
                if same and flight.fate.verdict is None and not self._is_done(flight):
                    flight.fate.verdict = verdict if flight.fate is fate else _with_it(flight, verdict)
        fate.verdict = fate.verdict or verdict
        self._condemned.update(fate.members)
        # Now that what is aborted is known by its verdict: its events will pass.
        self._communicators.abort_soon(taken)


def _with_it(flight: Flight, verdict: Verdict) -> Verdict:
    text = f"{flight.describe()} was given up with another call, of the same communicator: {verdict.text}"
    return verdict._replace(kind=PlaneAborted, text=text)
