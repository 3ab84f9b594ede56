"""What came of a cell, decided once for all who ask.

Several threads may wait for a cell, look at it, and stop it at the same time. The first that finds it ended
decides what came of it (`_settle`); a stop that is under way, or was asked for, is part of that decision.
What somebody has been given stays; until then who stops the cell may say more of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from disco_magic.core.ledger import Expectation
from disco_magic.core.messages import CellDone, Lost
from disco_magic.core.partings import parting
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
from disco_magic.locks import new_rlock
from disco_magic.offers import Offers
from disco_magic.session.pump import GIVEN_UP, take_sigint
from disco_magic.session.recording import timeline_of
from disco_magic.session.results import CellResult

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from disco_magic.functions.execution.running import CellScope
    from disco_magic.session.arguments import Life
    from disco_magic.session.dref import DRef
    from disco_magic.session.failures import Unheard
    from disco_magic.session.pump import Inbox
    from disco_magic.session.session import Session

__tracebackhide__ = is_told


class Judging(Offers):
    """Mixed into `PendingCell`, which has these attributes."""

    _not_offered = frozenset(
        {"between_steps", "ending", "failures", "heard", "interrupted", "is_ended_by_session", "is_outlived"}
        | {"late", "note_late_sigint", "session_ends", "spares", "stop_soon", "was_withdrawn"}
    )
    session: Session
    seq: int
    label: str
    _life: Life
    _inbox: Inbox
    _values: DRef | None
    _scope: CellScope | None
    _unheard: dict[int, Unheard]

    def __init__(self) -> None:
        self._ended: Expectation | None = None  # the answers
        self._outcome: CellResult | BaseException | None = None
        self._is_of_stop = False  # the outcome
        self._is_handed = False
        self._is_before_end = False  # it had ended when its session did
        self._cancelled = False
        self._last_step: int | None = None  # after which its workers were asked to end
        # Of a wait that stops it, or will. Not bound to this: a cycle would keep it.
        self._why: Callable[[Any], BaseException] | None = None
        # Reentrant, so that a finalizer that strikes in it gets to `_is_settling`.
        self._settling = new_rlock()
        self._is_settling = False

    @property
    def is_outlived(self) -> bool:
        """Whether its session was shut down or restarted since the cell was sent."""
        return self.session.closed or self.session.life is not self._life

    @property
    def _is_over(self) -> bool:
        """Whether there is nothing to wait for: all have answered, or the cell was given up."""
        return self._ended is not None or self._outcome is not None

    def _accept(self, item: object) -> None:
        """Take what the pump delivers, or another waiter puts back."""
        if isinstance(item, Lost):
            with self._settling:
                if self._outcome is None:
                    why = self._why
                    self._end(WorkerLost(item.worker, item.reason) if why is None else why(self))
                self._ended = Expectation(self.seq, set())
        elif isinstance(item, Expectation):
            self._ended = item
        elif item is not GIVEN_UP:
            return
        self._inbox.put(item)  # whoever waits in another thread needs it too

    def _settle(self) -> None:
        """Decide what came of it, if it has ended and nobody has."""
        with self._settling:
            if self._outcome is not None or self._ended is None or self._is_settling:
                return
            self._is_settling = True
            try:
                self._judge()
            finally:
                self._is_settling = False

    def _judge(self) -> None:
        result = self._result()
        failures, others = self.session.take_failures(result.errors.values())
        outcome: CellResult | BaseException = result
        if failures:
            cancelled = self._cancelled and all(map(is_of_interrupt, failures.values()))
            outcome = (CellError if result.errors else WorkerError)(failures, others, cancelled=cancelled)
            outcome.result = result  # type: ignore[attr-defined]
        why = self._why
        has_failed = not all(map(is_of_interrupt, failures.values()))
        if why is None or (self._last_step is not None and has_failed):
            self._end(outcome)
        else:
            self._end(self._in_place_of(outcome, why(self)))
            self._is_of_stop = True

    def _result(self) -> CellResult:
        ended = cast("Expectation", self._ended)
        replies = {worker: cast("CellDone", reply) for worker, reply in ended.replies.items()}
        result = CellResult(self.label, replies, self._values, self.session.num_workers)
        if self._scope is not None:
            result.stdout.update(self._scope.stdout)
        return result

    def _end(self, outcome: CellResult | BaseException) -> None:
        self._outcome = outcome
        self._is_before_end |= not self.is_outlived
        self._values = self._why = None
        self._unheard.pop(self.seq, None)
        if self._ended is None:
            self._inbox.put(GIVEN_UP)  # nobody else would wake those who wait for it, too

    def _fail(self, error: BaseException) -> None:
        """Make the error of a stop the outcome, unless the cell came to another one before.

        Raises:
            KeyboardInterrupt: `error`, where somebody has been given the outcome: Ctrl-C is never lost.
        """
        with self._settling:
            pressed = isinstance(error, KeyboardInterrupt)
            if not self._is_handed and (self._outcome is None or self._is_of_stop or pressed):
                self._end(self._in_place_of(self._outcome, error))
                self._is_of_stop = True
            elif pressed:
                raise _with_result_of(self._outcome, error)

    def _in_place_of(
        self, previous: CellResult | BaseException | None, error: BaseException
    ) -> BaseException:
        """`error`, which has the result of an outcome that nobody was given."""
        if isinstance(previous, WorkerError) and self.session.life is self._life:
            self.session.give_back([each for each in previous.told if each.seq != self.seq])  # not the cell's
        return _with_result_of(previous, error)

    def _hand_over(self) -> CellResult | BaseException:
        """The outcome, which stays from now on."""
        with self._settling:
            if self._outcome is None:  # what strikes while it is decided finds none
                raise UsageMistake(
                    f"{self.label} was waited for by a finalizer or a signal handler that struck while the "
                    "same thread found out how it ended"
                )
            self._is_handed = True
            return self._outcome

    def _tell_parting(self, error: BaseException) -> None:
        """Note below the error of calls that did not fit where workers had gone apart before."""
        if not isinstance(error, WorkerError) or hasattr(error, "__notes__"):
            return
        found = [each.exception for each in error.failures.values() if each.seq == self.seq]
        if any(
            type(each) is PlaneMismatch or (type(each) is PlaneAborted and not each.failure) for each in found
        ):
            said = parting(timeline_of(self.session, self.seq).spans, self.seq)
            if said:
                error.add_note(said)

    def _take_sigint(self, hear: Callable[[], object] | None = None) -> bool:
        """As `pump.take_sigint`; nobody finds the answers gone meanwhile."""
        with self._settling:
            return take_sigint(self._inbox, hear)


def _with_result_of(previous: CellResult | BaseException | None, error: BaseException) -> BaseException:
    result = previous if isinstance(previous, CellResult) else getattr(previous, "result", None)
    error.result = result  # type: ignore[attr-defined]
    return error
