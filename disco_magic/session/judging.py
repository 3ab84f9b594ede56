"""Decides the outcome of a cell, once for all threads that ask.

Several threads may wait for a cell, look at it, and stop it at the same time. The first that finds it ended
decides its outcome (`settle`); a stop that is under way, or was asked for, is part of that decision. An
outcome that was handed to a caller is final; until then, the thread that stops the cell may replace it.
"""

from __future__ import annotations

from contextlib import suppress
from queue import Empty
from typing import TYPE_CHECKING, TypeVar, cast

from disco_magic.core.ledger import Expectation
from disco_magic.core.messages import CellDone, Lost
from disco_magic.core.partings import parting
from disco_magic.core.unmet import settled
from disco_magic.errors import (
    CellError,
    PlaneAborted,
    PlaneMismatch,
    UsageMistake,
    WorkerError,
    WorkerLost,
    is_of_interrupt,
    is_told,
)
from disco_magic.functions.execution.printed import Printed
from disco_magic.session.halfway import tell_halfway
from disco_magic.session.pump import GIVEN_UP, INTERRUPT, sigint_held_back, take_sigint
from disco_magic.session.recording import timeline_of
from disco_magic.session.results import CellResult
from disco_magic.session.stop import Stop
from disco_magic.threads.locks import new_rlock
from disco_magic.values.operands import with_others

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.errors import Failure
    from disco_magic.functions.execution.running import CellScope
    from disco_magic.session.dispatch import Look
    from disco_magic.session.dref import DRef
    from disco_magic.session.pending import PendingCell
    from disco_magic.session.pump import CellInbox
    from disco_magic.session.session import Session
    from disco_magic.session.stop import SentCell

T = TypeVar("T")
__tracebackhide__ = is_told


class Verdict:
    """The outcome of one cell.

    Args:
        cell: the cell.
        inbox: receives its answers.
        values: the register of its values.
        scope: keeps its printed text; None: nothing does.

    Attributes:
        cell, inbox: the arguments.
        stop: the state of its stop.
        ended: the answers; None before all workers have answered.
        outcome: what `PendingCell.wait` returns or raises; None before that is decided.
        is_before_end: whether the cell ended before its session.
    """

    def __init__(self, cell: SentCell, inbox: CellInbox, values: DRef, scope: CellScope | None) -> None:
        self.cell = cell
        self.inbox = inbox
        self.stop = Stop(cell)
        self.ended: Expectation | None = None
        self.outcome: CellResult | BaseException | None = None
        self.is_before_end = False
        self._values: DRef | None = values
        self._scope = scope
        self._is_of_stop = False  # whether the outcome is the error of a stop
        self._is_handed = False
        self._has_notes = False
        # Reentrant, so that a finalizer that runs in it can look at `_is_settling`.
        self._settling = new_rlock()
        self._is_settling = False

    def shown(self, pending: PendingCell, on_look: Look | None, wait: Callable[[Look | None], T]) -> T:
        """Return ``wait(look)``, which waits for the cell and calls `look` now and then.

        That is `on_look`, or what shows a cell that prints by itself.
        """
        session, scope = self.cell.session, self._scope
        if on_look is not None or session.show_wait is None or not isinstance(scope, Printed):
            return wait(on_look)
        workers = self.cell.workers
        with session.show_wait(session, workers, quiet_since=scope.quiet_since, cell=pending) as look:
            return wait(look)

    @property
    def is_over(self) -> bool:
        """Whether there is nothing to wait for: all have answered, or the cell was given up."""
        return self.ended is not None or self.outcome is not None

    def accept(self, item: object) -> None:
        """Take an item that the pump has delivered, or that another waiter has put back."""
        if isinstance(item, Lost):
            with self._settling:
                if self.outcome is None:
                    self._end(self.stop.error(self.ended) or WorkerLost(item.worker, item.reason))
                self.ended = Expectation(self.cell.seq, set())
        elif isinstance(item, Expectation):
            self.ended = item
        elif item is not GIVEN_UP:
            return
        self.inbox.put(item)  # back, for waiters in other threads

    def look(self) -> bool:
        """Take an item from the inbox, if there is one; return whether there is an outcome now."""
        with self._settling:
            try:
                item = self.inbox.get_nowait()
            except Empty:
                return False
            if item is INTERRUPT:
                self.inbox.put(item)  # back, for the thread that waits
                return False
            self.accept(item)
            self.settle()
            return self.outcome is not None

    def failures(self) -> list[Failure] | None:
        """See `PendingCell.failures`."""
        if isinstance(self.outcome, WorkerError):
            return [each for each in self.outcome.told if each.seq == self.cell.seq]
        if self.outcome is not None:
            return []
        with sigint_held_back(), self._settling, suppress(Empty):
            item = self.inbox.get_nowait()
            self.inbox.put(item)
            if isinstance(item, Expectation):
                failures = [cast("CellDone", reply).failure for reply in item.replies.values()]
                return [*filter(None, failures)]
        return None

    def settle(self) -> None:
        """Decide the outcome, if the cell has ended and that was not done."""
        with self._settling:
            if self.outcome is not None or self.ended is None or self._is_settling:
                return
            self._is_settling = True
            try:
                self._judge()
            finally:
                self._is_settling = False

    def _judge(self) -> None:
        result = self._result()
        failures, others = self.cell.session.take_failures(result.errors.values(), self.cell.life)
        outcome: CellResult | BaseException = result
        if failures:
            cancelled = self.stop.was_cancelled and all(map(is_of_interrupt, failures.values()))
            if result.errors:
                failures = with_others(failures, self.cell.workers)
            outcome = (CellError if result.errors else WorkerError)(failures, others, cancelled=cancelled)
            if self.cell.is_of_present_life:
                self.cell.session.with_where_sent(outcome)
            if not result.errors:
                outcome.add_note(f"{self.cell.label} itself has ended without an error")
            outcome.result = result  # type: ignore[attr-defined]
        has_failed = not all(map(is_of_interrupt, failures.values()))
        goes_first = self.stop.last_step is not None and has_failed
        error = None if goes_first else self.stop.error(self.ended)
        if error is None:
            self._end(outcome)
        else:
            self._end(self._in_place_of(outcome, error))
            self._is_of_stop = True

    def _result(self) -> CellResult:
        ended = cast("Expectation", self.ended)
        replies = cast("dict[int, CellDone]", ended.replies)
        if failures := settled(replies):
            replies = {
                worker: each._replace(failure=failures.get(worker)) for worker, each in replies.items()
            }
        result = CellResult(self.cell.label, replies, self._values, self.cell.session.num_workers)
        if self._scope is not None:
            result.stdout.update(self._scope.stdout)
        return result

    def _end(self, outcome: CellResult | BaseException) -> None:
        self.outcome = outcome
        self.is_before_end |= not self.cell.is_outlived
        self._values = self.stop.why = None
        self.cell.unheard.pop(self.cell.seq, None)
        if self.ended is None:
            self.inbox.put(GIVEN_UP)  # wakes waiters in other threads

    def fail(self, error: BaseException) -> None:
        """Make the error of a stop the outcome, unless there is another one already.

        Raises:
            KeyboardInterrupt: `error`, if the outcome was handed out already, so that Ctrl-C is never lost.
        """
        with self._settling:
            pressed = isinstance(error, KeyboardInterrupt)
            if not self._is_handed and (self.outcome is None or self._is_of_stop or pressed):
                self._end(self._in_place_of(self.outcome, error))
                self._is_of_stop = True
            elif pressed:
                raise _with_result_of(self.outcome, error)

    def _in_place_of(
        self, previous: CellResult | BaseException | None, error: BaseException
    ) -> BaseException:
        """`error`, with the result of the outcome that it replaces."""
        session, cell = self.cell.session, self.cell
        if isinstance(previous, WorkerError) and cell.is_of_present_life:
            session.give_back([each for each in previous.told if each.seq != cell.seq])  # of other commands
        return _with_result_of(previous, error)

    def hand_over(self) -> CellResult | BaseException:
        """The outcome, which is final from now on."""
        with self._settling:
            if self.outcome is None:  # a finalizer or signal handler asks while it is being decided
                raise UsageMistake(
                    f"{self.cell.label} was waited for by a finalizer or a signal handler that struck while "
                    "the same thread found out how it ended"
                )
            self._is_handed = True
            return self.outcome

    def add_notes(self, error: BaseException) -> None:
        """Add to its error where workers had diverged before, and which models are left half done; once."""
        if self._has_notes:
            return
        self._has_notes = True  # what other cells do later is not this one's
        _tell_parting(self.cell.session, self.cell.seq, error)
        if not self.cell.is_outlived:
            tell_halfway(self.cell.session, self.cell.seq, error)

    def take_sigint(self, hear: Callable[[], object] | None = None) -> bool:
        """As `pump.take_sigint`; no other thread finds the inbox empty meanwhile."""
        with self._settling:
            return take_sigint(self.inbox, hear)


def _with_result_of(previous: CellResult | BaseException | None, error: BaseException) -> BaseException:
    result = previous if isinstance(previous, CellResult) else getattr(previous, "result", None)
    error.result = result  # type: ignore[attr-defined]
    return error


def _tell_parting(session: Session, seq: int, error: BaseException) -> None:
    if not isinstance(error, WorkerError):
        return
    found = [each.exception for each in error.failures.values() if each.seq == seq]
    if any(
        type(each) is PlaneMismatch or (type(each) is PlaneAborted and not each.failure) for each in found
    ):
        said = parting(timeline_of(session, seq).spans, seq)
        if said:
            error.add_note(said)
