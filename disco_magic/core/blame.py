"""Which of several failures is told first, and which are the same: plain functions of failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disco_magic.errors import (
    DiscoError,
    Interrupted,
    PlaneAborted,
    PlaneError,
    PlaneMismatch,
    WorkerInterrupt,
    interrupted_at,
    is_by,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.errors import Failure


def rank(origin: Failure, failure: Failure) -> tuple[int, bool, bool, int]:
    """Failures of the origin's kind and command first, by worker: which came first among them is chance.

    Of those a call to which an error of the user's has led comes before the others, ``finally: barrier()``;
    and then who has waited for somebody that is not there, before who has waited for that one.
    """
    alike = failure.seq == origin.seq and type(failure.exception) is type(origin.exception)
    if not alike:
        return 1, False, False, 0
    return 0, not _was_led_to(failure.exception), failure.first is not failure, failure.worker


def _was_led_to(error: BaseException) -> bool:
    """Whether a collective was called while an exception of the user's was on its way."""
    link = error
    while issubclass(type(link), PlaneError) and link.__context__ is not None:
        link = link.__context__
    return link is not error and not issubclass(type(link), DiscoError | WorkerInterrupt)


def most_telling(failures: Sequence[Failure]) -> Failure:
    """Of failures on several workers the one that a person wants to look at first.

    Where all were interrupted, those in a collective have waited for who was not; so has one whose wait was
    over before it was interrupted itself. Where calls do not fit, those who made theirs at another line than
    most have more likely gone astray; at one line, the one who made another call. Else the first.
    """
    first = failures[0]
    if is_consequence(first):
        struck = (each for each in failures if is_by(each, WorkerInterrupt))
        return next(
            (each for each in struck if interrupted_at(each.exception) is not Interrupted.IN_COLLECTIVE),
            first,
        )
    if not is_by(first, PlaneMismatch):
        return first
    places: dict[str, list[Failure]] = {}
    for each in failures:
        lines = (line for line in each.traceback_text.splitlines() if line.startswith("  File "))
        places.setdefault("\n".join(lines), []).append(each)
    few, *others = sorted(places.values(), key=len)
    if others and len(few) < len(others[0]):
        return few[0]
    worker = first.exception.astray if isinstance(first.exception, PlaneMismatch) else None
    return next((each for each in failures if each.worker == worker), first)


def kind_of(failure: Failure) -> tuple[str, str]:
    """What makes it one more of the same: the command in words, and what the traceback ends with."""
    return failure.command, failure.summary


def is_consequence(failure: Failure) -> bool:
    """Whether a failure only follows from another one (a released wait, an interrupt)."""
    return is_by(failure, PlaneAborted, WorkerInterrupt)
