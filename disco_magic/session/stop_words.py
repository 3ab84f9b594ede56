"""Messages about a stopped cell: where it was stopped, what came before it, what it may have left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disco_magic.core.words import plural, until_the_end
from disco_magic.phrases import people, people_who, ranges, who_has
from disco_magic.session.halfway import half_imported, older, refused

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disco_magic.errors import Failure
    from disco_magic.session.stop import SentCell, Stop


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
    if not stop.unbegun:
        return f"{label} was stopped on workers {ranges(workers)}; registers may differ between them"
    failed = {each.worker for each in failures}
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
