"""Stops a cell.

In steps, because CPython cannot end a thread that is in C code::

    0.00 s   cancel an await, release waits of the plane, inject WorkerInterrupt once
    0.35 s   inject again (the first one may have been caught)
    0.70 s   inject again
    0.90 s   give up the threads that are still stuck; new ones go on with the same registers
             (later if there are more than 16, and some of them have ended in the last pause)
    10.9 s   give up the cell: something other than a command holds a worker up

Ctrl-C also stops calls that were sent before the cell and hold it up. If a cell with a handle was sent before
it, all of that goes on, because that cell may need the calls: only this one is withdrawn, as if cancelled.

A worker that was interrupted and is cleaning up is left alone until another Ctrl-C; for a cell that was
cancelled or ran out of time, for 10 s at most if there is none.

`injection.PAUSES_S` says why interrupts are not repeated more often.
"""

from __future__ import annotations

import time
from queue import Empty
from typing import TYPE_CHECKING

from disco_magic.functions.stepping import ask
from disco_magic.session.pump import INTERRUPT, LOOK_UP_S
from disco_magic.session.stop import Stop
from disco_magic.workers.injection import PAUSES_S

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from disco_magic.core.doctor import Diagnosis
    from disco_magic.session.judging import Verdict

_SIGINTS_TO_INSIST = 2
_SIGINTS_TO_GIVE_UP = 3
_LOOKS_TO_GIVE_UP = 100
_MANY = 16  # more than have had their turns when a pause is over, on a machine that is busy


class Stopping:
    """Stops one cell, for all threads that want it stopped.

    Args:
        verdict: the cell's verdict; this waits for its answers, and writes its `stop`.
    """

    def __init__(self, verdict: Verdict) -> None:
        self._cell = verdict.cell
        self._verdict = verdict
        self._stop = verdict.stop
        self._sigints = 0
        self._is_patient = True  # lets workers clean up

    def ask(self) -> bool:
        """Ask the workers, if all are in loops of steps, to end after the same step; whether they will."""
        if self._stop.last_step is not None or not self._cell.is_of_present_life:
            return False
        self._stop.last_step = ask(self._cell.session.id, self._cell.workers, self._cell.seq)
        if self._stop.last_step is None:
            return False
        self._stop.why = Stop.between_steps
        return True

    def spares(self, diagnosis: Diagnosis) -> list[str]:
        """Earlier cells with handles, which go on when Ctrl-C stops this one; their handles can stop them.

        Without cells that are being stopped already. If there are any, calls before them go on too.
        """
        mine, ledger = self._cell, self._cell.session.ledger
        at_an_end = {each.seq for each in diagnosis.positions if each.state in ("stopping", "cleaning")}
        before = {
            seq: cell.label
            for seq, handle in mine.unheard.copy().items()
            if seq < mine.seq and ledger.is_awaited(seq, mine.workers) and (cell := handle())
        }
        return list(dict.fromkeys(label for seq, label in before.items() if seq not in at_an_end))

    def press(self) -> None:
        """Do what Ctrl-C does."""
        cell, stop = self._cell, self._stop
        if stop.before is None:
            stop.before = []
            if cell.is_of_present_life:
                stop.then = cell.session.diagnosis()
                stop.spared = self.spares(stop.then)
                before = stop.then.before(cell.seq, cell.workers)
                stop.before = list(dict.fromkeys(each.command for each in before))
        if stop.spared:
            self.withdraw()
        else:
            cell.session.interrupt_through(cell.seq, self._to_strike(cell.workers), cell.life)

    def withdraw(self) -> None:
        """Stop the cell alone, as `PendingCell.cancel` and the end of its time do."""
        cell, struck = self._cell, self._to_strike(self._begun())
        self._stop.unbegun.update(cell.session.withdraw(cell.seq, struck, cell.label, cell.life))

    def leave(self) -> None:
        """Stop the cell alone and return at once: nobody waits for its end, and no later wait raises it."""
        self.withdraw()
        cell = self._cell
        cell.session.unraised.pop(cell.seq, None)
        cell.unheard.pop(cell.seq, None)

    def _begun(self) -> list[int]:
        """The workers that have begun the cell, as far as is known."""
        return [worker for worker in self._cell.workers if worker not in self._stop.unbegun]

    def until_ended(self, strike: Callable[[], None]) -> None:
        """Interrupt, replace stuck threads, and wait until every worker has ended the cell or is given up.

        A worker that cleans up, in an ``except`` or ``finally``, is interrupted again only by another Ctrl-C,
        or after a while if there was none.
        """
        self._sigints = 1
        self._stop.has_begun = True
        looks = 0
        while True:
            self._strike_and_replace(strike)
            if self._is_settled or not self._cleaning():
                break
            while not self._is_settled and self._spares and self._cleaning():
                self._listen(time.monotonic() + LOOK_UP_S)
                looks += 1
                self._is_patient = self._stop.struck or looks < _LOOKS_TO_GIVE_UP
        self._sigints = 0
        # Counted in looks, not seconds: while C code holds the GIL, no worker could have answered.
        for _ in range(_LOOKS_TO_GIVE_UP):
            self._listen(time.monotonic() + LOOK_UP_S)
            if self._is_settled:
                break
        if not self._verdict.ended and (note := self._cell.unheard.get(self._cell.seq)):
            self._cell.orphan(note)  # a later failure is raised by the session
        elif self._verdict.outcome is None:
            self._verdict.settle()

    @property
    def _spares(self) -> bool:
        """Whether workers that clean up are left alone."""
        return self._is_patient and self._sigints < _SIGINTS_TO_INSIST

    @property
    def _is_settled(self) -> bool:
        """Whether the wait is over: the cell has ended, or Ctrl-C has given it up."""
        return self._verdict.is_over or self._sigints >= _SIGINTS_TO_GIVE_UP

    def _strike_and_replace(self, strike: Callable[[], None]) -> None:
        for pause in PAUSES_S:
            (self.press if self._stop.struck else strike)()
            self._listen_for(pause)
            if self._is_settled:
                break
        if not self._verdict.is_over:
            stuck = self._to_strike(self._begun())
            self._stop.replaced.update(self._cell.session.replace_stuck(stuck, self._cell.life))

    def _cleaning(self) -> set[int]:
        """The workers that are cleaning up."""
        cell = self._cell
        states = cell.session.stopping(cell.workers, cell.life)
        return {worker for worker, state in states.items() if state == "cleaning"}

    def _to_strike(self, workers: Sequence[int]) -> list[int]:
        """Those of `workers` that may be interrupted now."""
        cleaning = self._cleaning() if self._spares else set[int]()
        return [worker for worker in workers if worker not in cleaning]

    def _listen_for(self, pause_s: float) -> None:
        """Wait for so long; for many workers longer, as long as they end one after the other.

        Those that compute take turns at the interpreter, and each is struck in its own.
        """
        left = self._count_stopping()
        while True:
            self._listen(time.monotonic() + pause_s)
            before, left = left, self._count_stopping()
            if self._is_settled or not _MANY < left < before:
                return

    def _count_stopping(self) -> int:
        cell = self._cell
        return len(cell.session.stopping(cell.workers, cell.life))

    def _listen(self, deadline: float) -> None:
        while not self._verdict.is_over and self._sigints < _SIGINTS_TO_GIVE_UP:
            try:
                item = self._verdict.inbox.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                return
            if item is INTERRUPT:
                self._sigints += 1
                if not self._stop.struck:  # from now on, calls that were sent before are stopped too
                    self._stop.struck = True
                    self.press()
            else:
                self._verdict.accept(item)
