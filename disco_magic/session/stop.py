"""The state of a cell's stop, what was asked for and done, and the errors that describe it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, cast

from disco_magic.errors import SessionClosed
from disco_magic.functions.stepping import done
from disco_magic.session.halfway import halfway
from disco_magic.session.meanwhile import sentence, tell
from disco_magic.session.sigint import interrupt
from disco_magic.session.stop_words import between_steps, given_up, told

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from disco_magic.core.doctor import Diagnosis
    from disco_magic.core.ledger import Expectation
    from disco_magic.core.messages import CellDone
    from disco_magic.errors import Failure
    from disco_magic.session.arguments import Life, Limit
    from disco_magic.session.failures import Unheard
    from disco_magic.session.session import Session


class SentCell(NamedTuple):
    """A cell as it was sent.

    Attributes:
        session: the session of its workers.
        seq, label, workers: see `PendingCell`.
        life: the session's life when it was sent, to which the next two belong.
        unheard, orphan: see `Queues`.
    """

    session: Session
    seq: int
    label: str
    workers: tuple[int, ...]
    life: Life
    unheard: dict[int, Unheard]
    orphan: Callable[[Unheard], None]

    @property
    def is_of_present_life(self) -> bool:
        """Whether its session has not been restarted since."""
        return self.session.life is self.life

    @property
    def is_outlived(self) -> bool:
        """Whether its session has been shut down or restarted since."""
        return self.session.closed or not self.is_of_present_life


class Stop:
    """The state of a stop. Several threads may stop a cell, and each adds what it knows.

    Attributes:
        cell: the cell.
        why: makes the error from this and the answers, if the cell is to be stopped; see `error`.
        was_cancelled: whether its handle was cancelled.
        last_step: the step after which its workers were asked to end.
        has_begun: whether workers were interrupted, or are about to be.
        unbegun: workers that had not begun the cell when it was withdrawn.
        replaced: workers whose threads were given up.
        before: earlier commands that Ctrl-C stopped too; None before Ctrl-C.
        spared: earlier cells that go on.
        then: where all workers were when Ctrl-C was pressed.
        struck: whether a SIGINT came, whichever thread took it out of the inbox.
    """

    def __init__(self, cell: SentCell) -> None:
        self.cell = cell
        # A plain function, not a bound method, which would be a reference cycle.
        self.why: Callable[[Stop, Expectation | None], BaseException] | None = None
        self.was_cancelled = False
        self.last_step: int | None = None
        self.has_begun = False
        self.unbegun: set[int] = set()
        self.replaced: set[int] = set()
        self.before: list[str] | None = None
        self.spared: list[str] = []
        self.then: Diagnosis | None = None
        self.struck = False

    def error(self, ended: Expectation | None) -> BaseException | None:
        """The error that replaces the result; None if the cell is not to be stopped. `ended`: the answers."""
        return None if self.why is None else self.why(self, ended)

    def between_steps(self, ended: Expectation | None) -> KeyboardInterrupt:
        """The error of a cell that ended between two steps, or by itself before the next one."""
        failures, cell = _failures(ended), self.cell
        if ended is not None and not failures:
            return self.as_it_ended()
        return interrupt(between_steps(cell, failures, done(cell.session.id, cell.workers, cell.seq)))

    def interrupted(self, ended: Expectation | None) -> KeyboardInterrupt:
        """The error of a cell that Ctrl-C has stopped, or was meant to stop."""
        by_itself = ended is not None and not self.has_begun
        if by_itself and not _failures(ended):  # nor by what stopped others
            return self.as_it_ended()
        error = interrupt(self.sentence(ended))
        error.diagnosis = self.then  # type: ignore[attr-defined]  # as `SyncTimeout` has it
        return error

    def late(
        self, ended: Expectation | None, limit: Limit, then: Diagnosis, failed: Sequence[Failure] = ()
    ) -> BaseException:
        """The error of a cell that was stopped because its time ran out.

        `then` and `failed`: where the workers were, and what had failed in the cell, before the stop.
        """
        if self.struck:
            return self.interrupted(ended)
        label, too_late, meanwhile = self.cell.label, self.cell.session.too_late, sentence(failed)
        if not ended:
            late = f"{label} took longer than {limit} and does not end"
            return tell(too_late(late, further=meanwhile), failed)
        if self.was_withdrawn:
            late = f"{label} did not begin within {limit} and was withdrawn"
        else:
            late = f"{label} took longer than {limit} and was stopped"
        return tell(too_late(late, then, "\n".join(filter(None, (meanwhile, given_up(self))))), failed)

    def as_it_ended(self) -> KeyboardInterrupt:
        """The error of a SIGINT that came when there was nothing left to stop."""
        return interrupt(f"{self.cell.label} was interrupted as it ended")

    def sentence(self, ended: Expectation | None) -> str:
        """The whole message."""
        if not ended:
            return f"{self.cell.label} was stopped and does not end; {self.cell.session.doctor()}"
        return told(self, _failures(ended), "" if self.was_withdrawn else self._halfway())

    @property
    def was_withdrawn(self) -> bool:
        """Whether it was stopped before any worker had begun it."""
        return self.unbegun.issuperset(self.cell.workers)

    def _halfway(self) -> str:
        """A sentence about models that the cell has left in the middle of a step; or ""."""
        if self.cell.is_outlived:
            return ""
        with suppress(SessionClosed):  # it may be by now
            said = halfway(self.cell.session, self.cell.seq)
            return said and f"{said}. `for batch in worker.steps(batches):` is stopped between two steps"
        return ""


def _failures(ended: Expectation | None) -> list[Failure]:
    """What failed in the cell, on the workers that have ended it."""
    replies = {} if ended is None else ended.replies
    failures = (cast("CellDone", reply).failure for reply in replies.values())
    return [each for each in failures if each is not None]
