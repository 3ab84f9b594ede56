"""One worker: its ordered lane, see `serving.py`, and its urgent one, see also `striking.py`.

Urgent lane: called from other threads, while the worker executes or sleeps. It never runs user code.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from disco_magic.callers.sites import innermost_site, runtime_file, site_of
from disco_magic.core.doctor import Position
from disco_magic.core.messages import full
from disco_magic.core.seat import unread_in
from disco_magic.errors import WorkerInterrupt
from disco_magic.phrases import words
from disco_magic.threads.stacks import frame_of
from disco_magic.values.sizes import nbytes_kept, nbytes_of
from disco_magic.workers.lane import Lane
from disco_magic.workers.look import Look
from disco_magic.workers.striking import Striking

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

    from disco_magic.callers.sites import Stand
    from disco_magic.core.doctor import State
    from disco_magic.core.stats import Account
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


class Worker(Striking):
    """Interpreter, registers, context, and the thread that serves it; arguments as in `Serving`."""

    def abandon(self) -> Lane | None:
        """Give up the thread that an interrupt did not end; return its successor's lane, or None if it ended.

        The stuck thread keeps its pending exception, or gets one at the end of its plane call or before the
        first line of its program, and dies of it unless it catches that too. Whatever it does, nothing of it
        reaches the interpreter or the plane; but names that it binds in an ``except`` or ``finally`` of its
        own do reach the namespace.
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

    def position(self, look: Look | None = None) -> Position:
        """What the worker is doing now; `look`: at the threads of this worker and others, None: its own."""
        lane = self.lane
        stopping = lane.interrupted is not None
        try:
            command = lane.interrupted or full(lane.running[-1])
        except IndexError:
            return Position(self.id, "idle")
        look = look or Look([lane.thread_id])
        words = self.interpreter.describe(command)
        wait = self.plane.waiting.get(self.id)
        if wait is not None and not stopping:
            call, site = wait.call_of(self.id)
            needs = look.needs(wait, self.plane.left)
            waiting_s = self.plane.waiting_s(self.id)
            doing: State = "waiting" if needs else "moving"
            unread = unread_in(self.plane.mail[self.id], wait.scope) if needs else ()
            return Position(
                self.id, doing, words, site, call, needs, seconds=waiting_s, seq=command.seq, unread=unread
            )
        started = self.cells.started
        seconds = self.idle.pause() if started is None else time.perf_counter() - started
        asking = self.context.asking
        state: State = "stopping" if stopping else "asking" if asking else "executing"
        if stopping and lane.thread_id in look.cleaning:
            state = "cleaning"
        site, at_most = self._site(look.stand(lane.thread_id)), started is None
        return Position(
            self.id, state, words, site, asking, seconds=seconds, at_most=at_most, seq=command.seq
        )

    def _site(self, stand: Stand) -> str:
        """The line of the user's code that is executing, or at which it awaits; empty if there is none.

        In a module of the user's called by a cell: ``lib/comm.py, line 4 (Cell In[7], line 2)``.
        """
        awaits = self.cells.awaits
        cell = stand.cell or (awaits.site() if awaits is not None else None)
        if cell is not None:
            own = stand.own
            return str(cell) if own is None or own.is_labelled else f"{own} ({cell})"
        line = stand.innermost
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
        from disco_magic.core.stats import Account  # not needed before somebody asks

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
