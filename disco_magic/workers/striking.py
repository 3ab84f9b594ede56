"""Ends what a worker executes, from other threads; of several workers at once, if need be.

A thread that stops workers which compute waits until each of them has had its turn at the interpreter, and
waits so again for every lock or pause. So they are struck together (`strike_all`), in one turn of its own.
"""

from __future__ import annotations

import _thread
import time
from collections import deque
from contextlib import suppress
from functools import partial
from itertools import compress
from operator import methodcaller
from typing import TYPE_CHECKING, Final

from disco_magic.errors import WorkerInterrupt
from disco_magic.functions.bridges import AGAIN_S, on_a_bridge
from disco_magic.functions.execution.unheard import spared
from disco_magic.workers import fragile
from disco_magic.workers.fragile import strike
from disco_magic.workers.pursuits import PURSUITS
from disco_magic.workers.serving import Serving

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from disco_magic.core.messages import Command
    from disco_magic.workers.lane import Lane

_TAKE: Final = methodcaller("acquire", False)  # noqa: FBT003 - without waiting
_RELEASE: Final = methodcaller("release")


class Striking(Serving):
    """The part of a `Worker` that ends what it executes; arguments as in `Serving`."""

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

    def strike(self, *, is_hit: bool = False) -> bool:
        """The second half of `interrupt`: end what was claimed; the result is the same.

        `is_hit`: its thread was injected into for this interrupt already, see `strike_all`.
        """
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
            if not is_hit and (again or (cancel is None and not spared)):
                self._inject(lane)
            if cancel is not None:
                try:
                    cancel()  # also ends the sleep of a loop in which an injection cannot strike
                except RuntimeError:  # the loop was closed in this moment: the await is over
                    if not (spared or is_hit):
                        self._inject(lane)
            return True

    @property
    def is_open(self) -> bool:
        """Whether `strike` would inject, unless the thread is in fragile code; with the mutex held."""
        lane = self.lane
        if lane.interrupted is None or lane.shielded or lane.crossing or lane.pursued is not None:
            return False
        return lane.released or (self.cells.cancel is None and not lane.told)

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
        with suppress(RuntimeError):
            # Too many threads, or the interpreter is ending: the next interrupt tries again.
            PURSUITS.begin(lane.thread_id, partial(self._pursue, lane, pursuit))
            return
        lane.pursued = None

    def _pursue(self, lane: Lane, pursuit: object, may: bool) -> bool:  # noqa: FBT001 - see `Pursuits.begin`
        """Strike the lane's thread unless it has ended its command; return whether the pursuit is over.

        `may`: whether it may be struck where it was a moment ago.
        """
        with self.mutex:
            if lane.pursued is not pursuit:
                return True
            if lane.interrupted is None:
                lane.pursued = None
                return True
            if not may or lane.shielded or on_a_bridge(lane) or not strike(lane.thread_id):
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


def strike_all(workers: Sequence[Striking]) -> list[Striking]:
    """Strike workers that were claimed; return those that were executing something, and may still be."""
    hit = _hit_together(workers) if len(workers) > 1 else set[int]()
    return [each for each in workers if (each.strike(is_hit=True) if each.id in hit else each.strike())]


def _hit_together(workers: Sequence[Striking]) -> set[int]:
    """Inject into all that may be injected into now; return their ids. Others are struck one by one."""
    mutexes = [each.mutex for each in workers]
    taken: list[bool] = []
    to_release = map(_RELEASE, compress(mutexes, taken))
    try:
        # By functions in C: what strikes the caller cannot come between taking a mutex and noting that.
        taken.extend(map(_TAKE, mutexes))
        return _hit(compress(workers, taken))
    finally:
        deque(to_release, 0)


def _hit(workers: Iterable[Striking]) -> set[int]:
    # Not within the `try`: on Python 3.13 what strikes in a comprehension passes over it.
    lanes = {each.lane.thread_id: each for each in workers if each.is_open}
    lanes.pop(_thread.get_ident(), None)  # its own interrupt would end this
    now = time.monotonic()
    struck = fragile.strike_all([key for key, each in lanes.items() if now >= each.lane.inject_at])
    later = time.monotonic() + AGAIN_S
    for thread_id in struck:
        lanes[thread_id].lane.inject_at = later
    return {lanes[thread_id].id for thread_id in struck}
