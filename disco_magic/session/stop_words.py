"""Messages about a stopped cell: where it was stopped, what came before it, what it may have left."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from disco_magic.core.words import plural, until_the_end
from disco_magic.phrases import people, people_who, ranges, who_has
from disco_magic.session.halfway import half_imported, older, refused

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disco_magic.core.doctor import Diagnosis
    from disco_magic.errors import Failure


class Stopped(NamedTuple):
    """What is known about the stop of a cell when the message is made.

    Attributes:
        label: the cell's label.
        workers: ids of the workers that it was sent to.
        failures: its failures, on the workers that have ended it.
        unbegun: workers that had not begun it when it was withdrawn.
        replaced: workers whose threads did not end and were given up.
        before: earlier commands that Ctrl-C stopped too.
        spared: earlier cells that go on.
        then: where all workers were when Ctrl-C was pressed; None if it was not.
    """

    label: str
    workers: tuple[int, ...]
    failures: Sequence[Failure]
    unbegun: frozenset[int]
    replaced: frozenset[int]
    before: Sequence[str]
    spared: Sequence[str]
    then: Diagnosis | None

    @property
    def was_withdrawn(self) -> bool:
        """Whether it was stopped before any worker had begun it."""
        return self.unbegun.issuperset(self.workers)


def told(stop: Stopped, halfway: str) -> str:
    """The message about a cell that has ended; `halfway`: a sentence about unfinished models, or ""."""
    where = f"Where they were: {stop.then}" if stop.then is not None else ""
    left = refused(stop.failures), older(stop.failures), half_imported(stop.failures), halfway
    return ". ".join(filter(None, (_who(stop), _what_was_before(stop), given_up(stop), *left, where)))


def between_steps(stop: Stopped, done: Mapping[int, int]) -> str:
    """The message about a cell that was asked to end after a step; `done`: steps of each worker."""
    steps = who_has((each, plural(count, "step")) for each, count in done.items())
    told = [f"{people_who(workers, 'has', 'have')} done {count}" for count, workers in steps.items()]
    each = " each" if len(told) == 1 < len(stop.workers) else ""
    stopped = f"{stop.label} was stopped between two steps: {', '.join(told)}{each}"
    return ". ".join(filter(None, (stopped, older(stop.failures))))


def _who(stop: Stopped) -> str:
    """On which workers it was stopped, and which had not begun it or had done it."""
    if stop.was_withdrawn:
        return f"{stop.label} was stopped before any worker had begun it"
    if not stop.unbegun:
        who = f"{stop.label} was stopped on workers {ranges(stop.workers)}"
        return f"{who}; registers may differ between them"
    failed = {each.worker for each in stop.failures}
    groups = {
        "stopped on": sorted(failed - stop.unbegun),
        "left out on": sorted(stop.unbegun),
        "done on": sorted(set(stop.workers) - failed - stop.unbegun),
    }
    said = [f"{what} {people(who)}" for what, who in groups.items() if who]
    return f"{stop.label} was {', '.join(said)}; registers may differ between them"


def _what_was_before(stop: Stopped) -> str:
    """A sentence about commands that were sent before it; or ""."""
    if not stop.spared:
        return f"So was what had been sent before it: {', '.join(stop.before)}" if stop.before else ""
    before = list(dict.fromkeys([*stop.before, *stop.spared]))
    if before != stop.spared:
        stops = "session.interrupt() stops all that was sent"
    else:
        stops = ".cancel() stops it" if len(before) == 1 else ".cancel() stops each"
    return f"{', '.join(before)} {'goes' if len(before) == 1 else 'go'} on - {stops}"


def given_up(stop: Stopped) -> str:
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
