"""Failures that were not raised yet: reported by the workers at any time, raised by the next wait."""

from __future__ import annotations

import logging
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from disco_magic.callers.sites import site_of
from disco_magic.core.doctor import Diagnosis
from disco_magic.core.ledger import Expectation, Ledger
from disco_magic.errors import WorkerError, is_of_interrupt, is_told
from disco_magic.errors.summaries import describe
from disco_magic.session.dispatch import Dispatch
from disco_magic.session.pump import GIVEN_UP, sigint_held_back
from disco_magic.session.queues import KEPT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from disco_magic.core.doctor import Position
    from disco_magic.errors import Failure
    from disco_magic.session.arguments import Life
    from disco_magic.session.pending import PendingCell  # noqa: F401 - in the name of the base class below
    from disco_magic.session.pump import Inbox

__tracebackhide__ = is_told


_TOLD: Final = 3
_LOG: Final = logging.getLogger("disco_magic")


def _without_stop(place: Position) -> Position:
    """Return the position as if Stop, the last command that every worker was sent, had not been sent."""
    behind = max(0, place.behind - 1)
    return replace(place, behind=behind, state=place.state if behind or place.state != "queued" else "idle")


class Unheard(weakref.ref["PendingCell"]):
    """A session's weak reference to a cell's handle, kept until the cell's outcome has been taken.

    When the handle dies before that, this is put into the queue of orphans; by C code, as `dref` explains.

    Attributes:
        seq: sequence number of the cell's command.
        inbox: where the replies are, or will be.
    """

    __slots__ = ("inbox", "seq")
    inbox: Inbox
    seq: int


class Failures(Dispatch):
    """The mixin of `Session` that collects and raises failures."""

    def take_failures(
        self, further: Iterable[Failure] = (), life: Life | None = None
    ) -> tuple[dict[int, Failure], list[Failure]]:
        """Return failures not raised yet, and `further` ones: see `Ledger.take_failures`.

        Args:
            further: of the command that is asked about.
            life: its life, None: the present one. What failed since a restart has nothing to do with it, and
                its number is another command's.
        """
        if not self._orphans.empty():
            self.adopt_orphans()

        def act() -> tuple[dict[int, Failure], list[Failure]]:
            is_present = life is None or life is self.life
            return (self.ledger if is_present else Ledger(self.num_workers)).take_failures(further)

        return self._locked(act)

    def adopt_orphans(self) -> None:
        """Make failures the session's of cells whose handles were dropped; forget those cells."""
        if not self._orphans.empty():
            with sigint_held_back():  # an interrupt here would lose what failed
                self._locked(self._adopt_all)

    def give_back(self, failures: Iterable[Failure]) -> None:
        """Give failures back that were taken but not raised: see `Ledger.give_back`."""
        self._locked(lambda: self.ledger.give_back(failures))

    def _adopt_all(self) -> None:
        while not self._orphans.empty():
            self._adopt(self._orphans.get_nowait())

    def _adopt(self, orphan: Unheard) -> None:
        """Make the failures of a cell the session's: its handle was dropped before anybody waited for it."""
        self.unheard.pop(orphan.seq, None)
        self._pump.forget(orphan.seq)
        items = []
        while not orphan.inbox.empty():
            items.append(orphan.inbox.get_nowait())
        for item in items:
            if isinstance(item, Expectation):
                self.ledger.keep_failures(item)
            elif item is GIVEN_UP:  # left for another thread that waits for the cell its handle gave up
                orphan.inbox.put(item)

    def failures_of_handles(self) -> list[Failure]:
        """Return failures of cells that have ended without being waited for or cancelled, each only once.

        Their handles still raise them.
        """
        failures: list[Failure] = []
        for seq, handle in self.unraised.copy().items():
            cell = handle()
            failed = None if cell is None else cell.failures()
            if failed is not None:
                self.unraised.pop(seq, None)
                failures.extend(failed)
        return failures

    def log_failures(self) -> None:
        """Log failures that were never raised, as the session ends; interrupts are left out.

        Handles would still raise them, but may never be asked.
        """
        if not self.forsaken:  # else the fork's parent process logs it
            self._log(*self.take_failures(self.failures_of_handles()))

    def log_unraised(self) -> None:
        """As `log_failures`, of a life after which another one follows; its ledger stays as it is."""
        found = self._locked(lambda: self.ledger.unraised)
        self._log(*Ledger(self.num_workers).take_failures([*self.failures_of_handles(), *found]))

    def _log(self, failures: dict[int, Failure], others: list[Failure]) -> None:
        told = {worker: each for worker, each in failures.items() if not is_of_interrupt(each)}
        further = [each for each in others if not is_of_interrupt(each)]
        if further and not told:
            first = further.pop(0)
            told[first.worker] = first
        if told:
            _LOG.warning("session ended with failures that were never raised: %s", describe(told, further))

    def log_unfinished(self, why: str, where: Sequence[Position]) -> None:
        """Log that the session's end, for the reason `why`, stopped work; `where`: each worker's position."""
        sent = tuple(map(_without_stop, where))
        if any(each.state != "idle" for each in sent):
            _LOG.warning(
                "%s, and what was not done by then is stopped: %s\n"
                "session.sync_all() waits for it, and so does a handle's wait()",
                why,
                Diagnosis(self.id, sent),
            )

    def log_use_at_end(self) -> None:
        """Log that the program's end has closed the session while threads of the program used it."""
        _LOG.warning(
            "the program has ended while its threads used session %d, which is closed now: what they send"
            " raises SessionClosed\njoin() threads, and shutdown() executors, before the program ends",
            self.id,
        )

    def with_where_sent(self, error: WorkerError) -> WorkerError:
        """Add notes that say from which lines the calls that failed were sent, if that is still known."""
        sent = ((each, self.sent_from[each.seq & KEPT]) for each in error.told)
        lines = dict.fromkeys(
            f"{each.command} was sent at {site_of(spot[1:])}"
            for each, spot in sent
            if spot is not None and spot[0] == each.seq
        )
        for line in list(lines)[:_TOLD]:
            error.add_note(line)
        return error

    def raise_failures(self, further: Sequence[Failure] = ()) -> None:
        """Raise WorkerError if anything failed since errors were last raised."""
        # Without the lock: workers report failures before they answer.
        if not further and self._orphans.empty() and not self.ledger.has_failures:
            return
        failures, others = self.take_failures(further)
        if failures:
            # Not by a variable of this frame, which is in the traceback of the error.
            raise self.with_where_sent(WorkerError(failures, others))
