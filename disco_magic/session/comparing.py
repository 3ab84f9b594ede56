"""What a check asks the workers, and what it makes of their answers.

::

    Survey, a call in every worker's ordered lane -> its answers -> compare -> CheckReport
    Sample, the same way, only of arrays whose values differ -> how far they are apart
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

from disco_magic.core.circles import Circles
from disco_magic.core.divergence import compare, to_explain
from disco_magic.core.held import marked_everywhere
from disco_magic.core.messages import Answer, Fetch
from disco_magic.core.report import CheckReport
from disco_magic.core.topology import axes_of
from disco_magic.errors import SyncTimeout, UsageMistake, WorkerError, is_by, is_told
from disco_magic.functions.participants import both_said
from disco_magic.functions.surveys import Nearness, Sample, Survey
from disco_magic.functions.tolerances import Tolerance, tolerance_of
from disco_magic.phrases import people, ranges, words
from disco_magic.session.apart import told_apart
from disco_magic.values.distances import gap, is_of
from disco_magic.values.frames import COLUMN
from disco_magic.values.parts import as_listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from disco_magic.core.check_row import CheckRow
    from disco_magic.core.circles import Workers
    from disco_magic.core.held import Found
    from disco_magic.core.topology import Axes
    from disco_magic.session.arguments import Limit
    from disco_magic.session.checking import Checks
    from disco_magic.session.session import Session

__tracebackhide__ = is_told

_EXACT = Tolerance()
_DIFFERS = attrgetter("differs")


def check_registers(
    checks: Checks,
    names: Sequence[str],
    workers: Workers,
    *,
    values: bool,
    in_group: bool,
    over: Axes | None,
    rtol: float,
    atol: float,
    timeout: float | None,
) -> CheckReport:
    """See `Checks.check`, which has checked the arguments as far as it knows them."""
    tolerance = tolerance_of(rtol, atol)
    if tolerance and not values:
        raise UsageMistake(f"check: {tolerance} is about values, which are compared with values=True")
    names = tuple(dict.fromkeys(map(as_listed, names)))

    def select(found: Mapping[int, Found]) -> Iterable[str]:
        for name in names:
            if not any(name in each.registers for each in found.values()):
                checks.refuse_unknown(name)
        return dict.fromkeys([*names, *all_names(found)])

    asked = _asked_circles(checks, workers, over, in_group=in_group)
    # A caller that says which workers have to agree overrides the marks of parts.
    are_all = len(workers) == checks.num_workers
    survey = Survey(names or None, values, parts=values and asked is None and are_all)
    title = f"Disco session {checks.id}"
    try:
        return compared(
            checks, title, survey, workers, select, circles=asked, timeout=timeout, tolerance=tolerance
        )
    except WorkerError as error:
        raise _no_index(error) or error from None


def _no_index(error: WorkerError) -> UsageMistake | None:
    """What to say of an index of an array that workers do not have; None for other errors."""
    first = error.origin
    if first.command != f"call {Survey.disco_name}" or not is_by(first, UsageMistake):
        return None
    return UsageMistake(f"check: on {people(tuple(error.failures))}, {words(first.exception)}")


def _asked_circles(checks: Checks, workers: Workers, over: Axes | None, *, in_group: bool) -> Circles | None:
    """The workers that have to agree with each other, if the caller limited that; else None."""
    if in_group and over is not None:
        raise both_said("check", over)
    if over is not None:
        checks.taking_part("check", over, in_group=True)
        return Circles.along(checks.mesh, axes_of(over), workers)
    if not in_group:
        return None
    groups = checks.topology.parts()
    places = [f"group {number}" for number in range(len(groups))] if len(groups) > 1 else [""]
    return Circles.among(workers, groups, places)


def compared(
    checks: Checks,
    title: str,
    survey: Survey,
    workers: Workers,
    select: Callable[[Mapping[int, Found]], Iterable[str]],
    *,
    circles: Circles | None,
    timeout: float | Limit | None,
    tolerance: Tolerance = _EXACT,
) -> CheckReport:
    """Ask the workers, and compare the registers that `select` chooses from their answers.

    `circles` are the workers that have to agree with each other; None: all of them.
    """
    limit = checks.patience(timeout)
    try:
        checks.keep_pace(limit, "the check")
        found: dict[int, Found] = _asked(checks, survey, workers, limit)
        of_circles = _comparison(checks, found, select(found), survey=survey, workers=workers, asked=circles)
        rows = of_circles(circles or Circles((workers,)))
        if tolerance and any(map(_DIFFERS, rows)):
            nearness = Nearness(rows, tolerance, workers)
            rows = next(iter(_asked(checks, nearness, workers, limit).values()))
        rows = _with_gaps(checks, rows, workers, limit)
        is_apart = circles is None and any(map(_DIFFERS, rows))
        along = _agreeing_axes(checks, of_circles, workers) if is_apart else ()
        names = survey.names
        return CheckReport(
            title, workers, rows, str(tolerance), named=names is not None, along=along, asked=names or ()
        )
    except KeyboardInterrupt as struck:
        if type(struck) is not KeyboardInterrupt:  # this thread is a worker of another session
            raise
        words = f"{title}: the check was interrupted; the workers end what they were sent, nothing is changed"
    raise KeyboardInterrupt(words)


def _comparison(
    checks: Checks,
    found: Mapping[int, Found],
    names: Iterable[str],
    *,
    survey: Survey,
    workers: Workers,
    asked: Circles | None,
) -> Callable[[Circles], tuple[CheckRow, ...]]:
    """A function that compares these registers, as `survey` has found them, within circles of workers.

    Within those along the axes of its mark, a register that has one: as far as that concerns `workers`
    and the circles `asked`, but not if the caller has named both registers and workers, axes or groups.
    """
    selected, marked, are_named = list(names), marked_everywhere(found), survey.names is not None
    says_it_all = are_named and (asked is not None or len(workers) < checks.num_workers)
    return partial(
        compare,
        found,
        names=selected,
        by_value=(selected if are_named else marked) if survey.values else (),
        marks=survey.values and not are_named,
        apart={} if says_it_all else Circles.of_marks(marked, checks.mesh, workers, asked),
    )


def _agreeing_axes(
    checks: Checks, of_circles: Callable[[Circles], Sequence[CheckRow]], workers: Workers
) -> tuple[str, ...]:
    """The axes of the mesh along which nothing differs of what is compared."""
    circles = {axis: Circles.along(checks.mesh, (axis,), workers) for axis in checks.mesh}
    several = {axis: each for axis, each in circles.items() if any(len(one) > 1 for one in each.workers)}
    return tuple(axis for axis, each in several.items() if not any(row.differs for row in of_circles(each)))


def _asked(
    checks: Checks, function: Survey | Nearness | Sample, workers: Workers, limit: Limit
) -> dict[int, Any]:
    """Call `function` on each of `workers`; return the results by worker."""
    answer = checks.call_packed(function, workers=workers)
    ended = checks.ask(
        lambda seq, kills: Fetch(seq, answer.register, kills, workers), workers, limit, "check"
    )
    replies = {worker: cast("Answer", ended.replies[worker]) for worker in workers}
    checks.raise_failures([reply.failure for reply in replies.values() if reply.failure is not None])
    return {worker: reply.value for worker, reply in replies.items()}


def _with_gaps(
    checks: Checks, rows: tuple[CheckRow, ...], workers: Workers, limit: Limit
) -> tuple[CheckRow, ...]:
    """Add to the first few rows that differ only in value how far they are apart."""
    wanted = {row.name: row for row in to_explain(rows)}
    arrays = tuple(name for name, row in wanted.items() if math.prod(row.shape or ()) > 1)
    samples: dict[int, dict[str, Any]] = {}
    if arrays:
        with suppress(SyncTimeout):  # that they differ is known already
            samples = _asked(checks, Sample(arrays), workers, limit)
    told = {}
    for name, row in wanted.items():
        place, circle = row.first_differing
        if name in arrays:
            parts = [samples[worker][name] for worker in circle if name in samples.get(worker, ())]
            said = _gap(row.shape or (), parts, circle)
            if row.type == COLUMN and not said:  # of texts, or with missing values: no array describes it
                said = _why_apart(checks, row)
        else:
            said = _why_apart(checks, row) if row.shape is None else ""
        told[name] = f"{place}: {said}" if place and said else said
    return tuple(replace(row, gap=told.get(row.name, "")) for row in rows)


def _why_apart(checks: Checks, row: CheckRow) -> str:
    """Say where containers of numbers and text first differ: those of the first worker that differs."""
    first, other = row.first_pair
    why = told_apart(cast("Session", checks), row.name, first, other)
    return f"{ranges((other,))} {why}" if why else ""


def all_names(found: Mapping[int, Found]) -> list[str]:
    """Names of what the workers hold, each once."""
    return list(dict.fromkeys(name for each in found.values() for name in each.registers))


def _gap(shape: tuple[int, ...], samples: Sequence[Any], circle: Workers) -> str:
    """How far a circle's arrays are apart; "" if another thread's cell has changed one meanwhile."""
    forms = {(sample.size, sample.dtype) for sample in samples}
    whole = len(samples) == len(circle) and len(forms) == 1 and is_of(samples[0], shape)
    return gap(samples, shape) if whole else ""
