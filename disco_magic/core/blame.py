"""Decides which of several failures is reported first, and which are the same: pure functions."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from disco_magic.errors import (
    Interrupted,
    PlaneAborted,
    PlaneError,
    PlaneMismatch,
    WorkerInterrupt,
    handled_by,
    interrupted_at,
    is_by,
)
from disco_magic.phrases import class_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from disco_magic.errors import Failure

# A class of the user's may have properties of these names.
_CAUSE: Final = BaseException.__dict__["__cause__"]
_CONTEXT: Final = BaseException.__dict__["__context__"]
_MEMBERS: Final = BaseExceptionGroup.__dict__["exceptions"]
_NUMBER: Final = re.compile(r"0x[0-9a-f]+|\d[\d._]*(e[-+]?\d+)?|\b(nan|inf)\b", re.IGNORECASE)
_WORD: Final = re.compile(r"[^\W_]+")


def rank(origin: Failure, failure: Failure) -> tuple[int, bool, bool, bool, int]:
    """Sort key: failures of the origin's kind and command come first, by worker, as their order is chance.

    What follows from another failure is not of the kind of an origin, see `standing`. Among those alike, a
    call made while an error of the user's was propagating (``finally: barrier()``) precedes the others; then
    a worker that waited for an absent one precedes the workers that waited for it. Of calls that do not fit
    together, that of the worker that called something else than most comes first.
    """
    alike = failure.seq == origin.seq and type(failure.exception) is type(origin.exception)
    if not alike or standing(failure) != standing(origin):
        return 1, False, False, False, 0
    by_itself = handled_by(failure.exception) is None
    return 0, by_itself, failure.first is not failure, not _is_astray(failure), failure.worker


def _is_astray(failure: Failure) -> bool:
    error: Any = failure.exception
    return is_by(failure, PlaneMismatch) and bool(error.astray == failure.worker)


def most_telling(failures: Sequence[Failure], blocking: Iterable[int] = ()) -> Failure:
    """Return the one of several workers' failures, `in_order`, that a person wants to look at first.

    If all were interrupted, prefer a worker of `blocking`, for which others waited; then one that was not in
    a collective: those, and a worker whose wait ended before its own interrupt, were waiting for it.
    Otherwise return the first, which the headline of the error names.
    """
    first = failures[0]
    if not is_consequence(first):
        return first
    struck = {each.worker: each for each in failures if is_by(each, WorkerInterrupt)}
    outside = (
        worker
        for worker, each in struck.items()
        if interrupted_at(each.exception) is not Interrupted.IN_COLLECTIVE
    )
    return next((struck[worker] for worker in [*blocking, *outside] if worker in struck), first)


def _apart(failures: Sequence[Failure]) -> Failure | None:
    """Of calls that do not fit, that of a worker that called from another line than most.

    None if there is no such worker, or if one has made another call than most: that tells more.
    """
    if not all(is_by(each, PlaneMismatch) for each in failures) or any(map(_is_astray, failures)):
        return None
    places: dict[str, list[Failure]] = {}
    for each in failures:
        lines = (line for line in each.traceback_text.splitlines() if line.startswith("  File "))
        places.setdefault("\n".join(lines), []).append(each)
    few, *others = sorted(places.values(), key=len)
    return few[0] if others and len(few) < len(others[0]) else None


def kind_of(failure: Failure) -> tuple[str, str]:
    """What makes two failures the same: the command in words, and the last line of the traceback."""
    return failure.command, failure.summary


def likeness_of(failure: Failure) -> str:
    """What failures of one command have in common that say the same of their own workers' elements.

    The words of the summary without its numbers. Of our own errors that say what others do, the class: each
    worker tells it from where it stands.
    """
    if is_by(failure, PlaneError, WorkerInterrupt):
        return class_name(failure.exception)
    return " ".join(_WORD.findall(_NUMBER.sub(" ", failure.summary)))


def is_consequence(failure: Failure) -> bool:
    """Whether a failure only follows from another one (a released wait, an interrupt)."""
    return is_by(failure, PlaneAborted, WorkerInterrupt)


def standing(failure: Failure) -> int:
    """Sort key: origins come first, then errors of the user's to which a released wait has led.

    Then those that only follow from others, see `is_consequence`.
    """
    return 2 if is_consequence(failure) else int(_is_of_release(failure))


def _is_of_release(failure: Failure) -> bool:
    """Whether all that its exception was raised from, or has in it, are released waits of its command.

    It is an error of the user's all the same: ``except Exception as e: raise RuntimeError("step") from e``.
    """
    links, seen, was_released = [failure.exception], {id(failure.exception)}, False
    for link in links:
        if _is_release(link, failure.seq):
            was_released = True
            continue
        before = _before(link)
        if not before or issubclass(type(link), PlaneMismatch):
            return False
        links += (each for each in before if id(each) not in seen)
        seen.update(map(id, before))
    return was_released


def _is_release(error: Any, seq: int) -> bool:
    """Whether a wait of command `seq` was released, to which no error of the user's had led."""
    if not issubclass(type(error), PlaneAborted) or handled_by(error) is not None:
        return False
    if error.unmet is not None:
        return bool(error.unmet.scope == seq)
    return error.failure is None or bool(error.failure.seq == seq)


def _before(error: BaseException) -> tuple[BaseException, ...]:
    """What an exception was raised from, or while handling; of a group, its members: they are the reason."""
    if issubclass(type(error), BaseExceptionGroup):
        members: tuple[BaseException, ...] = _MEMBERS.__get__(error)
        return members
    cause = _CAUSE.__get__(error)
    before = _CONTEXT.__get__(error) if cause is None else cause
    return () if before is None else (before,)


def in_order(failures: Iterable[Failure]) -> list[Failure]:
    """Sort failures: origins before what follows from them, see `standing`; those alike as `rank` says.

    Of calls that do not fit together, and none of which stands out, one from another line than most is first.
    """
    ordered = sorted(failures, key=standing)
    if not ordered:
        return []
    place = partial(rank, ordered[0])
    ordered.sort(key=place)
    alike = [each for each in ordered if place(each)[:-1] == place(ordered[0])[:-1]]
    apart = _apart(alike)
    return ordered if apart is None else [apart, *(each for each in ordered if each is not apart)]


def origin_first(failures: Mapping[int, Failure]) -> dict[int, Failure]:
    """Failures by worker, `in_order`."""
    place = {id(failure): number for number, failure in enumerate(in_order(failures.values()))}
    return dict(sorted(failures.items(), key=lambda each: place[id(each[1])]))
