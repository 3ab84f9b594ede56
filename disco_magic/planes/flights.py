"""What NCCL was given and has not done yet, by worker.

A collective's call returns when it is queued. What goes wrong afterwards is told where the worker waits for
its GPU the next time, at the end of its cell at the latest, or where it calls the next collective:

    queued -> done                                          nothing to tell
           -> NCCL reports an error     seen by who waits      \
           -> a member is interrupted   seen by who interrupts  -> verdict, communicators aborted -> raised

Communicators are condemned by threads of their own, into which nothing is injected: half of it done would
leave GPUs waiting for ever. A member whose part is done already (a root that has sent, say) is told nothing.
"""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from disco_magic.devices.events import has_passed, is_lost
from disco_magic.errors import PlaneAborted
from disco_magic.patience import wait_until
from disco_magic.planes.communicators import async_error
from disco_magic.planes.flight import Flight, given_up, with_it
from disco_magic.planes.meeting import Verdict
from disco_magic.planes.rendezvous import INCOMPLETE, broken_on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from disco_magic.errors import Failure
    from disco_magic.planes.board import Board
    from disco_magic.planes.calls import Call
    from disco_magic.planes.communicators import Communicators
    from disco_magic.planes.device_memory import DeviceMemory
    from disco_magic.planes.flight import Fate

# So long nobody looks whether the work can end at all: that takes several times as long as to see its end.
_AT_ONCE_S: Final = 300e-6
# A thread of a busy machine needs no longer to say what is condemned.
_ORDER_S: Final = 5.0
# A GPU's queue is finite, and who finds it full waits in C code.
MOST: Final = 256


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
        # Only the thread that serves the worker adds to these and takes out of them; anybody looks.
        self._of: list[deque[Flight]] = [deque() for _ in memory.places]
        self._incomplete: list[deque[Flight]] = [deque() for _ in memory.places]
        self._starting: tuple[Call, Fate] | None = None
        self._ordered: set[Fate] = set()  # to be condemned by threads that may only have been started
        self._condemned: set[int] = set()
        self._untold: dict[int, Verdict] = {}  # worker -> what `settle` has to raise
        self._interrupts: dict[int, Failure] = {}  # worker -> its last one

    # --- by the worker's own thread --------------------------------------------------------------

    def add(self, call: Call, fate: Fate) -> Flight:
        """What the caller's stream has been given up to now has to be done for `call`; in a plane call."""
        worker, left = call.worker, self._board.left
        flights = self._of[worker]
        if left[worker] >= call.seat.scope:  # interrupted; if this thread was given up, these are not its own
            why = given_up(
                f"{call.describe()} at {call.site}", _interrupted(worker), self._interrupts.get(worker)
            )
            self._condemn_soon(fate, why)
            return Flight(call, fate, None)
        self._prune(worker)
        # A new one: to record a former one again would take it from whoever still asks for that.
        done = self._cupy.cuda.Event(disable_timing=True)
        done.record(self._memory.streams[worker])
        flight = Flight(call, fate, done)
        flights.append(flight)
        # Either whoever takes the communicators away finds the flight, or we see that they are gone.
        if not self._communicators.are_held(fate.members, fate.communicators):
            text = f"{flight.describe()} was given up: its communicators were aborted - {INCOMPLETE}"
            fate.verdict = fate.verdict or Verdict(PlaneAborted, text)
            self._condemned.add(worker)
        # As with those: who interrupts looks for flights after he has noted the departure.
        if left[worker] >= flight.scope:
            flight.forgiven = True
            scopes = range(flight.scope, flight.scope + 1)
            self._give_up(worker, scopes, _interrupted(worker), self._interrupts.get(worker))
        if len(flights) >= MOST:
            oldest = flights[0].done
            self.wait(worker, lambda: has_passed(self._cupy, oldest) or left[worker] >= flight.scope)
        return flight

    @contextmanager
    def starting(self, call: Call, fate: Fate) -> Iterator[None]:
        """While NCCL is given all parts of one collective, of which `call` is one; one at a time.

        That may not end by itself: a first start connects its members, and CUDA can be told to wait for what
        is started. Who interrupts a member then has no flight to give up, but this.
        """
        self._starting = call, fate
        try:
            yield
        finally:
            self._starting = None

    def wait(self, worker: int, is_done: Callable[[], bool]) -> None:
        """Return when ``is_done()``, as `wait_until`; raise what could not be done.

        Raises:
            PlaneError, PlaneAborted: a collective could not; the worker's, of this command or an earlier one.
        """
        if not wait_until(is_done, _AT_ONCE_S):
            try:
                wait_until(lambda: is_done() or self._look(worker))
            finally:
                self._show(worker, None)
        self._prune(worker)
        self.settle(worker)

    def settle(self, worker: int) -> None:
        """Raise what could not be done of the worker's collectives; once."""
        if worker not in self._condemned:
            return
        self._take_condemned(worker)
        verdict = self._untold.pop(worker, None)
        if verdict is not None:
            raise verdict.error()

    def _take_condemned(self, worker: int) -> None:
        self._condemned.discard(worker)
        flights = self._of[worker]
        for flight in [flight for flight in flights if flight.fate.verdict is not None]:
            flights.remove(flight)
            if not flight.forgiven and flight.fate.verdict is not None:
                self._untold.setdefault(worker, flight.fate.verdict)
            self._incomplete[worker].append(flight)

    def incomplete(self, worker: int) -> list[tuple[Any, bool, BaseException]]:
        """See `Place.incomplete`: what was condemned since this was last asked.

        Who was interrupted did not come to `settle`, and its next command must not read what was given up.
        """
        # Their threads do not wait for a GPU before they have said what is condemned.
        if self._ordered:
            wait_until(lambda: not any(worker in fate.members for fate in list(self._ordered)), _ORDER_S)
        self._take_condemned(worker)
        if worker in self._untold:  # of an earlier command: still to be told
            self._condemned.add(worker)
        told: list[tuple[Any, bool, BaseException]] = []
        flights = self._incomplete[worker]
        while flights:
            flight = flights.popleft()
            array, verdict = flight.result(), flight.fate.verdict
            if array is not None and verdict is not None:
                told.append((array, flight.is_new, verdict.error()))
        return told

    def _prune(self, worker: int) -> None:
        flights = self._of[worker]
        while flights and flights[0].fate.verdict is None and has_passed(self._cupy, flights[0].done):
            flights.popleft()
        if flights and flights[0].fate.verdict is not None:  # also if an interrupt has struck in `settle`
            self._condemned.add(worker)

    def _look(self, worker: int) -> bool:
        """Look for errors of what the worker waits for, and show what that is; never an end of the wait."""
        self._prune(worker)
        flights = self._of[worker]
        self._show(worker, flights[0] if flights else None)
        oldest: dict[int, Flight] = {}  # by communicator: the one that it is at
        for flight in list(flights):
            oldest.setdefault(id(flight.fate.communicators[0]), flight)
        for flight in oldest.values():
            self._look_at(flight, (worker,))  # the others look at theirs where they wait, and `survey` at all
        return False

    def _look_at(self, flight: Flight, members: Sequence[int]) -> None:
        fate, launching = flight.fate, self._communicators.launching
        # Who has it may take long; the next look is soon.
        if fate.verdict is not None or not launching.acquire(blocking=False):
            return
        try:  # meanwhile nobody aborts them
            held = self._communicators.are_held(fate.members, fate.communicators)
            theirs = zip(fate.members, fate.communicators, strict=True)
            errors = {at: async_error(each, self._nccl) for at, each in theirs if held and at in members}
        finally:
            launching.release()
        wrong = [(at, error) for at, error in errors.items() if error is not None]
        if wrong:
            self._condemn_soon(fate, broken_on(wrong[0][0], flight.describe(), wrong[0][1]))

    def survey(self, before: Sequence[Flight | None]) -> list[Flight | None]:
        """What is the oldest of each worker; those that were it `before` are looked at. By any thread."""
        # Copies: the workers add to these and take out of them meanwhile.
        oldest = [next(iter(list(flights)), None) for flights in self._of]
        for flight, former in zip(oldest, before, strict=False):
            if flight is not None and flight is former and not self._is_done(flight):
                self._look_at(flight, flight.fate.members)
        return oldest

    def _show(self, worker: int, flight: Flight | None) -> None:
        """Let who asks where the worker is see what it waits for, None: nothing of NCCL's."""
        board, watch = self._board, self._board.asleep[worker]
        with board.lock:
            shown = board.waiting.get(worker)
            if shown is flight or not (shown is None or isinstance(shown, Flight)):
                return
            if flight is None:
                del board.waiting[worker]
                watch.stop()
            else:
                board.waiting[worker] = flight
                if shown is None:
                    watch.start()

    # --- by any thread ---------------------------------------------------------------------------

    def note(self, worker: int, failure: Failure) -> None:
        """The worker is interrupted: before anybody can see that it has left its command."""
        self._interrupts[worker] = failure

    def interrupt(self, worker: int, scope: int, failure: Failure) -> None:
        """Give up what the worker's command `scope` has on its way, and what it waits for of those before."""
        self.forgive(worker, scope)  # first: the worker itself may see the end of it at once
        shown = self._board.waiting.get(worker)
        first = min(scope, shown.scope) if isinstance(shown, Flight) else scope
        self._give_up(worker, range(first, scope + 1), _interrupted(worker), failure)
        self._show(worker, None)

    def forgive(self, worker: int, scope: int) -> None:
        """The worker's command `scope` has failed already, and with it what it was to do."""
        for flight in list(self._of[worker]):
            flight.forgiven |= flight.scope == scope

    def abort(self, through: int, why: str) -> None:
        """Give up what all workers have on their way of commands up to `through`."""
        for worker in range(len(self._of)):
            self._give_up(worker, range(through + 1), why)

    def _give_up(self, worker: int, scopes: range, why: str, failure: Failure | None = None) -> None:
        self._give_up_start(worker, scopes, why, failure)
        taken: list[Any] = []
        for flight in list(self._of[worker]):
            fate = flight.fate
            if flight.scope not in scopes or fate.verdict is not None or self._is_done(flight):
                continue
            if fate.communicators[0] not in taken:  # else that one takes it along
                taken.append(fate.communicators[0])
                self._condemn_soon(fate, given_up(flight.describe(), why, failure))

    def _give_up_start(self, worker: int, scopes: range, why: str, failure: Failure | None) -> None:
        if (start := self._starting) is None:
            return
        call, fate = start
        if call.seat.scope in scopes and worker in fate.members and fate.verdict is None:
            # Those who add their flights after it, if it ends all the same, find it here.
            fate.verdict = given_up(Flight(call, fate, None).describe(), why, failure)
            self._condemn_soon(fate, fate.verdict)

    def _is_done(self, flight: Flight) -> bool:
        try:
            return has_passed(self._cupy, flight.done)
        except self._cupy.cuda.runtime.CUDARuntimeError as error:
            return is_lost(error)  # who waits for that GPU will see

    def _condemn_soon(self, fate: Fate, verdict: Verdict) -> None:
        # What strikes before it is started changes nothing: who looks next does it.
        self._ordered.add(fate)
        if not self._communicators.in_thread(lambda: self.condemn(fate, verdict)):
            self._ordered.discard(fate)

    def condemn(self, fate: Fate, verdict: Verdict) -> None:
        """Nothing that the communicators of `fate` still have to do will be done.

        By a thread into which nothing is injected.
        """
        taken = self._communicators.take_out(fate.members, fate.communicators)
        try:
            for flight in [each for member in fate.members for each in list(self._of[member])]:
                same = flight.fate.communicators[0] is fate.communicators[0]
                if same and flight.fate.verdict is None and not self._is_done(flight):
                    flight.fate.verdict = verdict if flight.fate is fate else with_it(flight, verdict)
            self._condemned.update(fate.members)
        finally:
            self._ordered.discard(fate)
        # Now that what is aborted is known by its verdict: its events will pass.
        self._communicators.abort_soon(taken)


def _interrupted(worker: int) -> str:
    return f"worker {worker} was interrupted"
