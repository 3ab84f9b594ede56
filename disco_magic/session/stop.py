"""The state of a cell's stop, what was asked for and done, and the errors that describe it.

These say where it was stopped, what came before it, what it may have left, and which workers have failed in a
cell that ran out of time: that may be why the others did not finish.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, cast

from disco_magic.callers.tracebacks import site_of_error
from disco_magic.core.words import plural, until_the_end
from disco_magic.errors import CellError, SessionClosed
from disco_magic.functions.stepping import done
from disco_magic.phrases import people, people_who, who_has
from disco_magic.session.halfway import half_imported, halfway, older, refused
from disco_magic.session.sigint import interrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from disco_magic.core.doctor import Diagnosis
    from disco_magic.core.ledger import Expectation
    from disco_magic.core.messages import CellDone
    from disco_magic.errors import Failure, SyncTimeout
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


def told(stop: Stop, failures: Sequence[Failure], halfway: str) -> str:
    """The message about a cell that has ended."""
    where = f"Where they were: {stop.then}" if stop.then is not None else ""
    left = refused(failures), older(failures), half_imported(failures), halfway
    return ". ".join(
        filter(None, (_who(stop, failures), _what_was_before(stop), given_up(stop), *left, where))
    )


def between_steps(cell: SentCell, failures: Sequence[Failure], done: Mapping[int, int]) -> str:
    """The message about a cell that was asked to end after a step; `done`: steps of each worker."""
    steps = who_has((each, plural(count, "step")) for each, count in done.items())
    told = [f"{people_who(workers, 'has', 'have')} done {count}" for count, workers in steps.items()]
    each = " each" if len(told) == 1 < len(cell.workers) else ""
    stopped = f"{cell.label} was stopped between two steps: {', '.join(told)}{each}"
    return ". ".join(filter(None, (stopped, older(failures))))


def _who(stop: Stop, failures: Sequence[Failure]) -> str:
    """On which workers it was stopped, and which had not begun it or had done it."""
    label, workers = stop.cell.label, stop.cell.workers
    if stop.was_withdrawn:
        return f"{label} was stopped before any worker had begun it"
    failed = {each.worker for each in failures}
    if not stop.unbegun and failed in (set(), set(workers)):
        return f"{label} was stopped on {people(workers)}; registers may differ between them"
    groups = {
        "stopped on": sorted(failed - stop.unbegun),
        "left out on": sorted(stop.unbegun),
        "done on": sorted(set(workers) - failed - stop.unbegun),
    }
    said = [f"{what} {people(who)}" for what, who in groups.items() if who]
    return f"{label} was {', '.join(said)}; registers may differ between them"


def _what_was_before(stop: Stop) -> str:
    """A sentence about commands that were sent before it; or ""."""
    stopped = stop.before or []
    if not stop.spared:
        return f"So was what had been sent before it: {', '.join(stopped)}" if stopped else ""
    before = list(dict.fromkeys([*stopped, *stop.spared]))
    if before != stop.spared:
        stops = "session.interrupt() stops all that was sent"
    else:
        stops = ".cancel() stops it" if len(before) == 1 else ".cancel() stops each"
    return f"{', '.join(before)} {'goes' if len(before) == 1 else 'go'} on - {stops}"


def given_up(stop: Stop) -> str:
    """A sentence about threads that did not end; or ""."""
    if not stop.replaced:
        return ""
    workers = sorted(stop.replaced)
    one = len(workers) == 1
    ended = f"{'The thread' if one else 'The threads'} of {people(workers)} did not end"
    anew = "was replaced by a new one: it is" if one else "were replaced by new ones: each is"
    runs = "If it runs on, it takes" if one else "Those that run on take"
    return (
        f"{ended} and {anew} in a call that cannot be interrupted, or its code catches every exception. "
        f"{runs} time from the others and may change registers {until_the_end()}"
    )


def sentence(failed: Sequence[Failure]) -> str:
    """``worker 0 failed meanwhile: ValueError: no at Cell In[7], line 2``; a line per kind of failure."""
    sites = ((each, site_of_error(each.exception)) for each in failed)
    texts = who_has(
        (each.worker, f"{each.summary} at {site}" if site.filename else each.summary) for each, site in sites
    )
    return "\n".join(f"{people(workers)} failed meanwhile: {text}" for text, workers in texts.items())


def tell(late: SyncTimeout, failed: Sequence[Failure]) -> SyncTimeout:
    """Attach the failures to `late`, and return it."""
    if failed:
        late.failures = {each.worker: each for each in failed}
        late.__cause__ = CellError(late.failures)
    return late
