"""What is said of a cell that was stopped, or will be: where, what it came after, what it may have left."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, cast

from disco_magic.core.words import plural, until_the_end
from disco_magic.errors import SessionClosed, UnknownName
from disco_magic.functions.stepping import done
from disco_magic.phrases import people, ranges, who_has
from disco_magic.session.halfway import halfway, may_be_sharded, older, refused
from disco_magic.session.judging import Judging
from disco_magic.session.meanwhile import sentence, tell
from disco_magic.session.sigint import interrupt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.core.doctor import Diagnosis
    from disco_magic.core.messages import CellDone
    from disco_magic.errors import Failure
    from disco_magic.session.arguments import Limit


class StopWords(Judging):
    """Mixed into `PendingCell`, which has these attributes."""

    workers: tuple[int, ...]

    def __init__(self) -> None:
        super().__init__()
        self._was_stopped = False
        self._unbegun: set[int] = set()  # those who had not begun when it was withdrawn
        self._replaced: set[int] = set()
        self._before: list[str] | None = None  # what Ctrl-C has stopped, too
        self._spared: list[str] = []  # what goes on although it was sent before
        self._then: Diagnosis | None = None  # where everybody was when it struck
        self._struck = False  # a SIGINT came, whichever thread took it out of the inbox

    def ending(self) -> str:
        """When it will end, if it was asked to end between two steps; else ""."""
        last = self._last_step
        return "" if last is None else f"ends after step {last:,} \u00b7 press again to stop at once"

    def between_steps(self) -> KeyboardInterrupt:
        """The error of a cell that has ended so, or by itself before the next step."""
        if self._ended is not None and not self._failures():
            return interrupt(self._as_it_ended())
        steps = who_has((each, plural(count, "step")) for each, count in self._steps().items())
        told = [
            f"{people(workers)} {'has' if len(workers) == 1 else 'have'} done {count}"
            for count, workers in steps.items()
        ]
        each = " each" if len(told) == 1 < len(self.workers) else ""
        stopped = f"{self.label} was stopped between two steps: {', '.join(told)}{each}"
        return interrupt(". ".join(filter(None, (stopped, older(self._failures())))))

    def _steps(self) -> dict[int, int]:
        return done(self.session.id, self.workers, self.seq)

    def interrupted(self) -> KeyboardInterrupt:
        """The error of a cell that Ctrl-C has stopped, or was to."""
        by_itself = self._ended is not None and not self._was_stopped
        if by_itself and not self._failures():  # nor by what stopped others
            return interrupt(self._as_it_ended())
        return interrupt(self._stopped_sentence())

    def _failures(self) -> list[Failure]:
        """What it has failed with, of those that have ended it."""
        replies = {} if self._ended is None else self._ended.replies
        failures = (cast("CellDone", reply).failure for reply in replies.values())
        return [failure for failure in failures if failure is not None]

    def _as_it_ended(self) -> str:
        return f"{self.label} was interrupted as it ended"

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
        if self.was_withdrawn:
            late = f"{self.label} did not begin within {limit} and was withdrawn"
        else:
            late = f"{self.label} took longer than {limit} and was stopped"
        further = "\n".join(filter(None, (meanwhile, self._given_up())))
        return tell(self.session.too_late(late, then, further), failed)

    @property
    def was_withdrawn(self) -> bool:
        """Whether it was stopped before any worker had begun it."""
        return self._unbegun.issuperset(self.workers)

    def _stopped_sentence(self) -> str:
        if not self._ended:
            return f"{self.label} was stopped and does not end; {self.session.doctor()}"
        text, before = self._who_was_stopped(), self._what_was_before()
        where = f"Where they were: {self._then}" if self._then is not None else ""
        failures = self._failures()
        left = refused(failures), older(failures), "" if self.was_withdrawn else self._halfway()
        return ". ".join(filter(None, (text, before, self._given_up(), *left, where)))

    def _who_was_stopped(self) -> str:
        """On which workers, and who had not begun it or had done it."""
        if self.was_withdrawn:
            return f"{self.label} was stopped before any worker had begun it"
        if not self._unbegun:
            who = f"{self.label} was stopped on workers {ranges(self.workers)}"
            return f"{who}; registers may differ between them"
        failed = {each.worker for each in self._failures()}
        groups = {
            "stopped on": sorted(failed - self._unbegun),
            "left out on": sorted(self._unbegun),
            "done on": sorted(set(self.workers) - failed - self._unbegun),
        }
        said = [f"{what} {people(who)}" for what, who in groups.items() if who]
        return f"{self.label} was {', '.join(said)}; registers may differ between them"

    def _what_was_before(self) -> str:
        """What to say of what had been sent before it."""
        if not self._spared:
            return f"So was what had been sent before it: {', '.join(self._before)}" if self._before else ""
        before = list(dict.fromkeys([*(self._before or ()), *self._spared]))
        if before != self._spared:
            stops = "session.interrupt() stops all that was sent"
        else:
            stops = ".cancel() stops it" if len(before) == 1 else ".cancel() stops each"
        return f"{', '.join(before)} {'goes' if len(before) == 1 else 'go'} on - {stops}"

    def _halfway(self) -> str:
        """What to say of what it may have left in the midst of something."""
        if not may_be_sharded() or self.session.closed or self.session.life is not self._life:
            return ""
        with suppress(SessionClosed, UnknownName):  # meanwhile
            return halfway(self.session)
        return ""

    def _given_up(self) -> str:
        """What to say of threads that did not end; nothing if all did."""
        if not self._replaced:
            return ""
        return (
            f"The thread of {ranges(sorted(self._replaced))} did not end and was replaced by a new one: it "
            "is in a call that cannot be interrupted, or its code catches every exception. If it runs on, "
            f"it takes time from the others and may change registers {until_the_end()}"
        )
