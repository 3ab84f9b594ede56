"""The collectives that NCCL has not completed yet, per worker.

A collective's call returns when it is queued. A later failure is raised when the worker next waits for its
GPU, at the end of its cell at the latest, or when it calls its next collective:

    queued -> done                                          nothing to raise
           -> NCCL reports an error     seen by a waiting worker  \
           -> a member is interrupted   seen by the interrupt      -> verdict, communicators aborted -> raised

Communicators are condemned in separate threads, into which nothing is injected: if that stopped half-way,
GPUs would wait for ever. If a member's part is already done (a root that has sent, say), it is told nothing.
"""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from disco_magic.devices.events import has_passed, is_lost
from disco_magic.errors import WorkerInterrupt
from disco_magic.functions.bridges import claimed
from disco_magic.planes.flight import Flight, end_cut_short, ended, given_up, interrupted, unfinished, with_it
from disco_magic.planes.nccl_errors import async_error
from disco_magic.planes.verdicts import Verdict, broken_on
from disco_magic.threads.locks import takes
from disco_magic.threads.patience import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from disco_magic.errors import Failure
    from disco_magic.planes.board import Board
    from disco_magic.planes.calls import Call
    from disco_magic.planes.communicators import Communicators
    from disco_magic.planes.device_memory import DeviceMemory
    from disco_magic.planes.flight import Fate

# For so long only the end of the work is looked for: looking for errors takes several times as long.
_AT_ONCE_S: Final = 300e-6
# Even on a busy machine, a thread needs no longer to note which flights are condemned.
_ORDER_S: Final = 5.0
# A GPU's queue is finite, and a thread that finds it full waits in C code.
MOST: Final = 256


class Flights:
    """The collectives of one plane that are in flight.

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
        # Only the thread that serves the worker adds and removes flights; any thread reads them.
        self._of: list[deque[Flight]] = [deque() for _ in memory.places]
        self._incomplete: list[deque[Flight]] = [deque() for _ in memory.places]
        self._starting: tuple[Call, Fate] | None = None
        self._ordered: set[Fate] = set()  # to be condemned by threads that may not have begun yet
        self._condemned: set[int] = set()
        self._untold: dict[int, Verdict] = {}  # worker -> what `settle` has to raise
        self._interrupts: dict[int, Failure] = {}  # worker -> its last interrupt
        self._struck: dict[int, Flight | None] = {}  # worker -> what it waited for when it was interrupted

    # --- by the worker's own thread --------------------------------------------------------------

    def add(self, call: Call, fate: Fate) -> Flight:
        """Record that `call` is done when its stream has done all it was given so far. In a plane call."""
        worker, scope, left = call.worker, call.seat.scope, self._board.left
        flights = self._of[worker]
        if left[worker] >= scope:  # interrupted; `flights` may belong to a newer thread already
            text, why = f"{call.describe()} at {call.site}", interrupted(worker)
            self._condemn_soon(fate, given_up(text, why, self._interrupts.get(worker)))
            return Flight(call, fate, None)
        self._prune(worker)
        # A new event: re-recording an earlier one would change it for a flight that still uses it.
        done = self._cupy.cuda.Event(disable_timing=True)
        done.record(self._memory.streams[worker])
        flights.append(flight := Flight(call, fate, done))
        # Either the thread that takes the communicators out finds the flight, or we see that they are gone.
        if not self._communicators.are_held(fate.members, fate.communicators):
            fate.note_abort(flight.describe())
            self._condemned.add(worker)
        # Likewise: an interrupt looks for flights after it has noted the departure.
        if left[worker] >= scope:
            flight.forgiven = True
            self._give_up(worker, range(scope, scope + 1), interrupted(worker), self._interrupts.get(worker))
        if len(flights) >= MOST:
            oldest = flights[0].done
            self.wait(worker, lambda: has_passed(self._cupy, oldest) or left[worker] >= scope)
        return flight

    @contextmanager
    def starting(self, call: Call, fate: Fate) -> Iterator[None]:
        """Context while all parts of one collective, of which `call` is one, are started; one at a time.

        A start may not end by itself: the first one connects the members, and CUDA can be configured to wait
        for what is started. An interrupt of a member then finds no flight to give up, only this start.
        """
        self._starting = call, fate
        try:
            yield
        finally:
            self._starting = None

    def wait(self, worker: int, is_done: Callable[[], bool]) -> None:
        """Return when ``is_done()``, as `wait_until`; raise if a collective failed.

        Raises:
            PlaneError, PlaneAborted: a collective of the worker, of this command or an earlier one, failed.
        """
        try:
            if not wait_until(is_done, _AT_ONCE_S):
                wait_until(lambda: is_done() or self._look(worker))
        except WorkerInterrupt:  # `interrupt` may be called only now: workers are struck together, first
            self._struck[worker] = next(iter(self._of[worker]), None)  # it may not have been shown yet
            raise
        finally:
            self._show(worker, None)
        self._prune(worker)
        self.settle(worker)

    def settle(self, worker: int) -> None:
        """Raise if a collective of the worker failed; once per failure."""
        if worker not in self._condemned:
            return
        self.forgive(worker, command := ended(self._interrupts.get(worker)))
        taken = self._take_condemned(worker)
        # A command that is claimed ends with its interrupt, also in its clean-up; the next one is told.
        if claimed() is None and (verdict := self._untold.pop(worker, None)) is not None:
            raise verdict.error()
        end_cut_short(taken, command)  # not struck yet: it would compute with those

    def _take_condemned(self, worker: int) -> list[Flight]:
        self._condemned.discard(worker)
        taken = [flight for flight in self._of[worker] if flight.fate.verdict is not None]
        for flight in taken:
            self._of[worker].remove(flight)
            if not flight.forgiven and flight.fate.verdict is not None:
                self._untold.setdefault(worker, flight.fate.verdict)
            self._incomplete[worker].append(flight)
        return taken

    def incomplete(self, worker: int) -> list[tuple[Any, bool, BaseException]]:
        """See `Place.incomplete`: what was condemned since the last call.

        An interrupted worker did not reach `settle`, and its next command must not read what was given up.
        """
        # The threads do not wait for a GPU before they have noted what is condemned.
        if self._ordered:
            wait_until(lambda: not any(worker in fate.members for fate in list(self._ordered)), _ORDER_S)
        self._take_condemned(worker)
        if worker in self._untold:  # of an earlier command, not raised yet
            self._condemned.add(worker)
        told: list[tuple[Any, bool, BaseException]] = []
        if flights := self._incomplete[worker]:
            # Until its own kernel has ended, another member's may write into memory that is reused here.
            wait_until(lambda: not self._communicators.are_ending, _ORDER_S)
        while flights:
            flight = flights.popleft()
            array, verdict = flight.result(), flight.fate.verdict
            if array is not None and verdict is not None:
                told.append((array, flight.is_new, verdict.error()))
        return told

    def _prune(self, worker: int) -> None:
        flights = self._of[worker]
        while flights and flights[0].fate.verdict is None and has_passed(self._cupy, flights[0].done):
            if flights[0].fate.verdict is not None:  # given up between the two looks: an abort lets it pass
                break
            flights.popleft()
        if flights and flights[0].fate.verdict is not None:  # also if an interrupt has struck in `settle`
            self._condemned.add(worker)

    def _look(self, worker: int) -> bool:
        """Look for NCCL errors in what the worker waits for, and show what that is; always return False."""
        self._prune(worker)
        flights = self._of[worker]
        self._show(worker, flights[0] if flights else None)
        for flight in unfinished(flights, self._is_done):
            self._look_at(flight, (worker,))  # the others look at their own when they wait, `survey` at all
        return False

    def _look_at(self, flight: Flight, members: Sequence[int]) -> None:
        fate, launching = flight.fate, self._communicators.launching
        errors, mine = [], False
        try:  # locked, so that they are not aborted
            for mine in takes(launching, 0.0):  # noqa: B007 - read below
                break  # its holder may keep it for long; the next look is soon
            held = mine and self._communicators.are_held(fate.members, fate.communicators)
            if held and fate.verdict is None:
                own = filter(lambda of: of[0] in members, zip(fate.members, fate.communicators, strict=True))
                errors = [(at, async_error(each, self._nccl)) for at, each in own]
        finally:
            if mine:
                launching.release()
        if wrong := [(at, error) for at, error in errors if error is not None]:
            self._condemn_soon(fate, broken_on(wrong[0][0], flight.describe(), wrong[0][1]))

    def survey(self, before: Sequence[Flight]) -> list[Flight]:
        """The oldest flights of all workers; look for errors in those that were it `before`. Any thread."""
        oldest = [each for flights in self._of for each in unfinished(flights, self._is_done)]
        for flight in filter(before.__contains__, oldest):
            self._look_at(flight, flight.fate.members)
        return oldest

    def _show(self, worker: int, flight: Flight | None) -> None:
        """Show on the board that the worker waits for `flight`; None: for nothing of NCCL's."""
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
        """Note that the worker is interrupted, before any thread can see that it has left its command."""
        self._interrupts[worker] = failure

    def interrupt(self, worker: int, scope: int, failure: Failure) -> None:
        """Give up the flights of the worker's command `scope`, and the earlier ones that it waits for."""
        self.forgive(worker, scope)  # first, because the worker itself may see their end at once
        struck = self._struck.pop(worker, None)  # long over if a thread that was given up was struck late
        shown = struck if struck in list(self._of[worker]) else self._board.waiting.get(worker)
        first = min(scope, shown.scope) if isinstance(shown, Flight) else scope
        self._give_up(worker, range(first, scope + 1), interrupted(worker), failure)
        self._show(worker, None)

    def forgive(self, worker: int, scope: int) -> None:
        """Do not raise for flights of the worker's command `scope`, which has failed already."""
        for flight in list(self._of[worker]):
            flight.forgiven |= flight.scope == scope

    def abort(self, through: int, why: str) -> None:
        """Give up the flights of all workers of commands up to `through`."""
        for worker in range(len(self._of)):
            self._give_up(worker, range(through + 1), why)

    def _give_up(self, worker: int, scopes: range, why: str, failure: Failure | None = None) -> None:
        self._give_up_start(worker, scopes, why, failure)
        taken: list[Any] = []
        for flight in list(self._of[worker]):
            fate = flight.fate
            if flight.scope not in scopes or fate.verdict is not None or self._is_done(flight):
                continue
            if fate.communicators[0] not in taken:  # else it is condemned with the earlier flight
                taken.append(fate.communicators[0])
                self._condemn_soon(fate, given_up(flight.describe(), why, failure))

    def _give_up_start(self, worker: int, scopes: range, why: str, failure: Failure | None) -> None:
        if (start := self._starting) is None:
            return
        call, fate = start
        if call.seat.scope in scopes and worker in fate.members and fate.verdict is None:
            # Set at once, for members that add their flights if the start ends all the same.
            fate.verdict = given_up(Flight(call, fate, None).describe(), why, failure)
            self._condemn_soon(fate, fate.verdict)

    def _is_done(self, flight: Flight) -> bool:
        try:
            return has_passed(self._cupy, flight.done)
        except self._cupy.cuda.runtime.CUDARuntimeError as error:
            return is_lost(error)  # raised to the worker that waits for that GPU

    def _condemn_soon(self, fate: Fate, verdict: Verdict) -> None:
        # If an interrupt strikes before the thread is started, the next look condemns it.
        self._ordered.add(fate)
        if not self._communicators.in_thread(lambda: self.condemn(fate, verdict)):
            self._ordered.discard(fate)

    def condemn(self, fate: Fate, verdict: Verdict) -> None:
        """Take out the communicators of `fate`, fail their unfinished flights, abort them.

        Called by a thread into which nothing is injected.
        """
        taken = self._communicators.take_out(fate.members, fate.communicators)
        try:
            flights = [each for member in fate.members for each in list(self._of[member])]
            theirs = (each for each in flights if each.fate.communicators[0] is fate.communicators[0])
            for flight in (each for each in theirs if each.fate.verdict is None and not self._is_done(each)):
                flight.fate.verdict = verdict if flight.fate is fate else with_it(flight, verdict)
            self._condemned.update(fate.members)
        finally:
            self._ordered.discard(fate)
        # Only when all flights have a verdict: an abort lets their events pass.
        self._communicators.abort_soon(taken)
