"""One worker: the ordered lane of `serving.py`, and the urgent one.

Urgent lane: called from other threads, while the worker executes or sleeps. It never runs user code.
"""

from __future__ import annotations

import _thread
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from disco_magic.bridges import AGAIN_S, on_a_bridge
from disco_magic.callers.sites import cell_site, innermost_site, own_site, runtime_file, site_of
from disco_magic.core.doctor import Position
from disco_magic.core.messages import full
from disco_magic.core.stats import Account
from disco_magic.core.waits import hopes
from disco_magic.errors import WorkerInterrupt
from disco_magic.fragile import Pursuit, strike
from disco_magic.functions.execution.unheard import spared
from disco_magic.injection import is_cleaning_up
from disco_magic.lane import Lane
from disco_magic.phrases import words
from disco_magic.serving import Serving
from disco_magic.stacks import frame_of
from disco_magic.values.allocations import nbytes_kept
from disco_magic.values.sizes import nbytes_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

    from disco_magic.core.doctor import State
    from disco_magic.core.messages import Command
    from disco_magic.core.timeline import Record


def _placing() -> Callable[[CodeType, int], str]:
    """Return a function that names a line of the user's code, "" for the runtime's; each is looked up once.

    By identity: two cells with the same text have equal code, but different places.
    """
    known: dict[tuple[int, int], str] = {}

    def place(code: CodeType, offset: int) -> str:
        key = id(code), offset
        if key not in known:
            known[key] = "" if runtime_file(code.co_filename) else str(site_of((code, offset)))
        return known[key]

    return place


class Worker(Serving):
    """Interpreter, registers, context, and the thread that serves it; arguments as in `Serving`."""

    def interrupt(self, through: int) -> bool:
        """End what is executing if its `seq` is ``<= through``, and skip what has not begun.

        Workers that wait for this one in a collective of that command are released.

        Returns whether something was executing; it may still be, if it is stuck in C code. Call again to
        inject again: the first call only cancels a cell that awaits, so that its ``finally`` can await too.
        """
        self.claim(through)
        return self.strike()

    def skip(self, through: int) -> None:
        """Let no command up to that number begin; a running one goes on."""
        self.skip_through = max(self.skip_through, through)

    def claim(self, through: int) -> None:
        """The first half of `interrupt`: mark what executes as interrupted, whatever ends its waits later.

        Several workers are claimed before any is struck: otherwise a worker that waits for another one would
        be released by its departure, and go on as if only the other one had been interrupted.
        """
        self.skip(through)
        with self.mutex:
            if self.lane.interrupted is None:
                self.lane.seize(through)

    def strike(self) -> bool:
        """The second half of `interrupt`: end what was claimed; the result is the same."""
        with self.mutex:
            lane = self.lane
            command = lane.interrupted
            if command is None:
                return False
            again, lane.released = lane.released, True
            if not again:
                self.plane.leave(self.id, command.seq, self.failure(command, WorkerInterrupt()))
            spared = lane.told and not again  # it has this interrupt, from a plane call that it came out of
            cancel = self.cells.cancel
            if again or (cancel is None and not spared):
                self._inject(lane)
            if cancel is not None:
                try:
                    cancel()  # also ends the sleep of a loop in which an injection cannot strike
                except RuntimeError:  # the loop was closed in this moment: the await is over
                    if not spared:
                        self._inject(lane)
            return True

    def claim_cell(self, seq: int) -> tuple[bool, bool]:
        """Like `claim`, of one cell; what was sent before it goes on, and if it has not begun it never will.

        Returns whether it had not begun, and whether to strike it.
        """
        unbegun = self.withdrawals.add(seq)
        claimed = not unbegun or self._claims(seq)  # all earlier commands have ended
        if claimed:
            self.claim(seq)
        return unbegun, claimed

    def _claims(self, seq: int) -> bool:
        """Whether the thread is at command `seq`, which may not have begun: registers are dropped before."""
        try:
            return self.lane.running[-1][0] == seq
        except IndexError:
            return False

    def _inject(self, lane: Lane) -> None:
        now = time.monotonic()
        if lane.shielded or now < lane.inject_at:
            return
        lane.withheld = on_a_bridge(lane)
        if lane.withheld or lane.pursued is not None:
            return
        if strike(lane.thread_id):
            lane.inject_at = now + AGAIN_S
            return
        lane.pursued = pursuit = object()
        with suppress(
            RuntimeError
        ):  # too many threads, or the interpreter is ending: the next interrupt tries again
            Pursuit(lane.thread_id, partial(self._pursue, lane, pursuit))
            return
        lane.pursued = None

    def _pursue(self, lane: Lane, pursuit: object) -> bool:
        """Strike the lane's thread unless it has ended its command; return whether the pursuit is over."""
        with self.mutex:
            if lane.pursued is not pursuit:
                return True
            if lane.interrupted is None:
                lane.pursued = None
                return True
            if lane.shielded or on_a_bridge(lane) or not strike(lane.thread_id):
                return False
            lane.pursued = None
            lane.inject_at = time.monotonic() + AGAIN_S
            return True

    @spared
    def unheard(self, lane: Lane) -> bool:
        """Strike the calling thread, the lane's, again in a moment: Python has swallowed what struck it.

        Returns whether it was meant to be struck. Takes no lock: it may be called in the middle of anything.
        """
        command = lane.interrupted
        if command is None:
            return False
        try:
            # Not by `threading`: the thread may be in that module just now, and hold its lock.
            _thread.start_new_thread(self._strike_again, (lane, command))
        except RuntimeError:  # too many threads, or the interpreter is ending: the next interrupt tries again
            return False
        return True

    def _strike_again(self, lane: Lane, command: Command) -> None:
        with self.mutex:
            if lane.interrupted is command:
                lane.inject_at = 0.0  # the thread is not handling the last one
                self._inject(lane)

    def abandon(self) -> Lane | None:
        """Give up the thread that an interrupt did not end; return its successor's lane, or None if it ended.

        The stuck thread keeps its pending exception, or gets one at the end of its plane call, and dies of
        it unless it catches that too. Whatever it does, nothing of it reaches the interpreter or the plane;
        but names that it binds in an ``except`` or ``finally`` of its own do reach the namespace.
        """
        with self.mutex:
            lane = self.lane
            command = lane.interrupted
            if command is None:
                return None
            lane.abandoned = True
            # Not the register that gets the failure below.
            dest = getattr(command, "dest", 0)
            self.lane = Lane(tuple(register for register in command.kills if register != dest))
        self.recorder = self.context.recorder = self.recorder.succeed(self.plane.waited_s(self.id))
        self.registers = self.interpreter.move()
        if dest in command.kills:
            # The poison of the register that had this id before: the thread did not get as far as its kill.
            self.registers.poisons.pop(dest, None)
        # The stuck thread keeps its own runner, so that it cannot end what its successor executes.
        self.cells = self.cells.succeed()
        at = innermost_site(frame_of(lane.thread_id))
        error = WorkerInterrupt(f"its thread did not end and was given up, at {at}")
        scope, _ = self.scopes.get(command.seq, (None, None))
        try:
            if scope is not None:
                scope.abandoned(self.id)
        except Exception as reason:  # noqa: BLE001 - of a front end; the worker needs its new thread anyway
            error.add_note(f"what it had printed could not be shown: {words(reason)}")
        self.fail(command, error)
        return self.lane

    def position(self) -> Position:
        """What the worker is doing now."""
        lane = self.lane
        stopping = lane.interrupted is not None
        try:
            command = lane.interrupted or full(lane.running[-1])
        except IndexError:
            return Position(self.id, "idle")
        words = self.interpreter.describe(command)
        wait = self.plane.waiting.get(self.id)
        if wait is not None and not stopping:
            call, site = wait.call_of(self.id)
            needs = tuple(hopes(wait, self.plane.left) or wait.missing())
            waiting_s = self.plane.waiting_s(self.id)
            doing: State = "waiting" if needs else "moving"
            return Position(self.id, doing, words, site, call, needs, seconds=waiting_s, seq=command.seq)
        started = self.cells.started
        seconds = self.idle.pause() if started is None else time.perf_counter() - started
        asking = self.context.asking
        state: State = "stopping" if stopping else "asking" if asking else "executing"
        if stopping and is_cleaning_up(lane.thread_id):
            state = "cleaning"
        at_most = started is None
        return Position(
            self.id, state, words, self._site(), asking, seconds=seconds, at_most=at_most, seq=command.seq
        )

    def _site(self) -> str:
        """The line of the user's code that is executing, or at which it awaits; empty if there is none.

        In a module of the user's called by a cell: ``lib/comm.py, line 4 (Cell In[7], line 2)``.
        """
        frame, awaits = frame_of(self.lane.thread_id), self.cells.awaits
        cell = cell_site(frame) or (awaits.site() if awaits is not None else None)
        if cell is not None:
            own = own_site(frame)
            return str(cell) if own is None or own.is_labelled else f"{own} ({cell})"
        line = innermost_site(frame)
        return str(line) if line.filename and (self.cells.started is None or line.is_labelled) else ""

    def missing_because(self) -> str:
        """Where the worker is while others wait for it, in words; runs no user code."""
        place = self.position()
        return "not yet at this command" if place.state == "idle" else str(place)

    @property
    def is_executing(self) -> bool:
        """Whether a command is being executed."""
        return bool(self.lane.running) or self.lane.interrupted is not None

    def record(self, seq: int | None = None) -> Record:
        """What it did and when, as far as that is kept; of the command `seq`, None: of all."""
        lane = self.lane
        try:
            now = lane.interrupted or lane.running[-1]
        except IndexError:
            now = None
        waiting_s = self.plane.waiting_s(self.id)
        return self.recorder.record(
            self.id, now, waiting_s, describe=self.interpreter.describe, place=_placing(), seq=seq
        )

    def account(self) -> Account:
        """What the worker holds and how it spent its time."""
        idle_s, waiting_s, alive_s = self.idle.seconds(), self.plane.waited_s(self.id), self.alive.seconds()
        held = [value for _, value in self.registers.contents()]
        device = self.context.place.device
        return Account(
            registers=len(held),
            nbytes=sum(map(nbytes_of, held)),
            device=str(device),
            device_nbytes=nbytes_kept(held, device),
            running_s=max(0.0, alive_s - idle_s - waiting_s),
            waiting_s=waiting_s,
            idle_s=idle_s,
        )
