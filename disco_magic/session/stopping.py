"""How a cell is stopped.

In steps, because CPython cannot end a thread that sits in C code::

    0.00 s   cancel an await, release waits of the plane, inject WorkerInterrupt once
    0.35 s   inject again (the first one may have been caught)
    0.70 s   inject again
    0.90 s   give up the threads that are still stuck; new ones go on with the same registers
    10.9 s   give up the cell: something holds a worker up that is no command

Ctrl-C also stops calls that were sent before the cell and hold it up. If a cell was that has a handle, all of
it goes on, as that cell may need the calls: this one is left out in its turn, as if it had been cancelled.

Who has got the interrupt and cleans up is left alone from then on, until another Ctrl-C; if nobody presses
that, of a cell that was cancelled or whose time is over, for 10 s.

`injection.PAUSES_S` says why not more often.
"""

from __future__ import annotations

import time
from contextlib import suppress
from queue import Empty
from typing import TYPE_CHECKING, cast

from disco_magic.errors import SessionClosed, UnknownName
from disco_magic.functions.stepping import ask, done
from disco_magic.injection import PAUSES_S
from disco_magic.session.halfway import halfway, may_be_sharded
from disco_magic.session.judging import Judging
from disco_magic.session.meanwhile import sentence, tell
from disco_magic.session.pump import INTERRUPT, LOOK_UP_S
from disco_magic.session.sigint import interrupt
from disco_magic.session.stop_words import Stopped, between_steps, given_up, told

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from disco_magic.core.doctor import Diagnosis
    from disco_magic.core.messages import CellDone
    from disco_magic.errors import Failure
    from disco_magic.session.arguments import Limit
    from disco_magic.session.failures import Unheard

_SIGINTS_TO_INSIST = 2
_SIGINTS_TO_GIVE_UP = 3
_LOOKS_TO_GIVE_UP = 100


class Stopping(Judging):
    """Mixed into `PendingCell`, which has these attributes."""

    workers: tuple[int, ...]
    _orphan: Callable[[Unheard], None]

    def __init__(self) -> None:
        super().__init__()
        self._was_stopped = False
        self._unbegun: set[int] = set()  # those who had not begun when it was withdrawn
        self._replaced: set[int] = set()
        self._before: list[str] | None = None  # what Ctrl-C has stopped, too
        self._spared: list[str] = []  # what goes on although it was sent before
        self._then: Diagnosis | None = None  # where everybody was when it struck
        self._struck = False  # a SIGINT came, whichever thread took it out of the inbox
        self._sigints = 0
        self._is_patient = True  # with those who clean up

    def ending(self) -> str:
        """When it will end, if it was asked to end between two steps; else ""."""
        last = self._last_step
        return "" if last is None else f"ends after step {last:,} \u00b7 press again to stop at once"

    @property
    def was_withdrawn(self) -> bool:
        """Whether it was stopped before any worker had begun it."""
        return self._stopped().was_withdrawn

    def between_steps(self) -> KeyboardInterrupt:
        """The error of a cell that has ended so, or by itself before the next step."""
        stop = self._stopped()
        if self._ended is not None and not stop.failures:
            return interrupt(self._as_it_ended())
        return interrupt(between_steps(stop, done(self.session.id, self.workers, self.seq)))

    def interrupted(self) -> KeyboardInterrupt:
        """The error of a cell that Ctrl-C has stopped, or was to."""
        by_itself = self._ended is not None and not self._was_stopped
        if by_itself and not self._stopped().failures:  # nor by what stopped others
            return interrupt(self._as_it_ended())
        return interrupt(self._stopped_sentence())

    def late(self, limit: Limit, then: Diagnosis, failed: Sequence[Failure] = ()) -> BaseException:
        """The error of a cell that was stopped because time ran out.

        `then` and `failed`: who was where, and what had failed in it, before it was stopped.
        """
        if self._struck:
            return self.interrupted()
        meanwhile = sentence(failed)
        if not self._ended:
            late = f"{self.label} took longer than {limit} and does not end"
            return tell(self.session.too_late(late, further=meanwhile), failed)
        stop = self._stopped()
        if stop.was_withdrawn:
            late = f"{self.label} did not begin within {limit} and was withdrawn"
        else:
            late = f"{self.label} took longer than {limit} and was stopped"
        further = "\n".join(filter(None, (meanwhile, given_up(stop))))
        return tell(self.session.too_late(late, then, further), failed)

    def _as_it_ended(self) -> str:
        return f"{self.label} was interrupted as it ended"

    def _stopped_sentence(self) -> str:
        if not self._ended:
            return f"{self.label} was stopped and does not end; {self.session.doctor()}"
        stop = self._stopped()
        return told(stop, "" if stop.was_withdrawn else self._halfway())

    def _halfway(self) -> str:
        """What to say of what it may have left in the midst of something."""
        if not may_be_sharded() or self.is_outlived:
            return ""
        with suppress(SessionClosed, UnknownName):  # meanwhile
            return halfway(self.session)
        return ""

    def _stopped(self) -> Stopped:
        replies = {} if self._ended is None else self._ended.replies
        failures = (cast("CellDone", reply).failure for reply in replies.values())
        return Stopped(
            self.label,
            self.workers,
            [each for each in failures if each is not None],
            frozenset(self._unbegun),
            frozenset(self._replaced),
            self._before or [],
            self._spared,
            self._then,
        )

    def _ask(self) -> bool:
        """Ask its workers to end after the same step, if it is in loops of steps; whether they will."""
        if self._last_step is not None or self.session.life is not self._life:
            return False
        self._last_step = ask(self.session.id, self.workers, self.seq)
        if self._last_step is None:
            return False
        self._why = Stopping.between_steps
        return True

    def spares(self, diagnosis: Diagnosis) -> list[str]:
        """The cells before it that go on when Ctrl-C stops this one: who has their handles can stop them.

        Not those that are being stopped already. Where there are any, calls before them go on, too.
        """
        at_an_end = {each.seq for each in diagnosis.positions if each.state in ("stopping", "cleaning")}
        before = {
            seq: cell.label
            for seq, handle in list(self._unheard.items())
            if seq < self.seq and self.session.ledger.is_awaited(seq, self.workers) and (cell := handle())
        }
        return list(dict.fromkeys(label for seq, label in before.items() if seq not in at_an_end))

    def _press(self) -> None:
        """What Ctrl-C does."""
        if self._before is None:
            self._before = []
            if self.session.life is self._life:
                self._then = self.session.diagnosis()
                self._spared = self.spares(self._then)
                before = self._then.before(self.seq, self.workers)
                self._before = list(dict.fromkeys(each.command for each in before))
        if self._spared:
            self._withdraw()
        else:
            self.session.interrupt_through(self.seq, self._to_strike(self.workers), self._life)

    def _withdraw(self) -> None:
        struck = self._to_strike(self._begun())
        self._unbegun.update(self.session.withdraw(self.seq, struck, self.label, self._life))

    def _begun(self) -> list[int]:
        """Those who have begun it, for all that is known."""
        return [worker for worker in self.workers if worker not in self._unbegun]

    def _stop(self, strike: Callable[[], None]) -> None:
        """Strike, replace what is stuck, wait until every worker has ended the cell or is given up.

        Who cleans up, in an ``except`` or ``finally`` of its own, is struck again only by another Ctrl-C, or
        if that takes long and nobody has pressed it.
        """
        self._sigints = 1
        self._was_stopped = True
        looks = 0
        while True:
            self._strike_and_replace(strike)
            if self._is_settled or not self._cleaning():
                break
            while not self._is_settled and self._spares and self._cleaning():
                self._listen(time.monotonic() + LOOK_UP_S)
                looks += 1
                self._is_patient = self._struck or looks < _LOOKS_TO_GIVE_UP
        self._sigints = 0
        # Looks, not seconds: while C code holds the interpreter's lock nobody could have answered.
        for _ in range(_LOOKS_TO_GIVE_UP):
            self._listen(time.monotonic() + LOOK_UP_S)
            if self._is_settled:
                break
        if not self._ended and (note := self._unheard.get(self.seq)):
            self._orphan(note)  # what fails in the end is the session's
        elif self._outcome is None:
            self._settle()

    @property
    def _spares(self) -> bool:
        """Whether those who clean up are not struck."""
        return self._is_patient and self._sigints < _SIGINTS_TO_INSIST

    @property
    def _is_settled(self) -> bool:
        """Whether nobody waits any more for those who have not ended."""
        return self._is_over or self._sigints >= _SIGINTS_TO_GIVE_UP

    def _strike_and_replace(self, strike: Callable[[], None]) -> None:
        for pause in PAUSES_S:
            (self._press if self._struck else strike)()
            self._listen(time.monotonic() + pause)
            if self._is_settled:
                break
        if not self._is_over:
            self._replaced.update(self.session.replace_stuck(self._to_strike(self._begun()), self._life))

    def _cleaning(self) -> set[int]:
        """Its workers that clean up."""
        places = self.session.diagnosis().positions if self.session.life is self._life else ()
        return {each.worker for each in places if each.state == "cleaning" and each.worker in self.workers}

    def _to_strike(self, workers: Sequence[int]) -> list[int]:
        """Those of `workers` that may be struck now."""
        cleaning = self._cleaning() if self._spares else set[int]()
        return [worker for worker in workers if worker not in cleaning]

    def _listen(self, deadline: float) -> None:
        while not self._is_over and self._sigints < _SIGINTS_TO_GIVE_UP:
            try:
                item = self._inbox.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                return
            if item is INTERRUPT:
                self._sigints += 1
                if not self._struck:  # from now on also calls that were sent before
                    self._struck = True
                    self._press()
            else:
                self._accept(item)
