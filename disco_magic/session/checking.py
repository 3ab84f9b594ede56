"""Divergence checks: whether registers agree between workers.

::

    check -> Survey, a call in every worker's ordered lane -> its answers -> compare -> CheckReport
          -> Sample, the same way, only of arrays whose values differ -> how far they are apart
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

from disco_magic.callers.current import refuse_in_worker
from disco_magic.core.circles import Circles
from disco_magic.core.divergence import compare, to_explain
from disco_magic.core.held import marked_everywhere
from disco_magic.core.messages import Answer, Fetch
from disco_magic.core.numbers import truth
from disco_magic.core.report import CheckReport
from disco_magic.core.topology import axes_of
from disco_magic.errors import SyncTimeout, UsageMistake, is_told
from disco_magic.errors.mistakes import about
from disco_magic.functions.participants import both_said, is_grouped
from disco_magic.functions.surveys import Nearness, Sample, Survey
from disco_magic.functions.tolerances import Tolerance, tolerance_of
from disco_magic.phrases import ranges
from disco_magic.session.apart import told_apart
from disco_magic.session.arguments import check_there
from disco_magic.session.calls import Calls
from disco_magic.values.frames import COLUMN
from disco_magic.values.gaps import gap, is_of
from disco_magic.values.parts import as_listed, split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from disco_magic.core.check_row import CheckRow
    from disco_magic.core.circles import Workers
    from disco_magic.core.held import Found
    from disco_magic.core.topology import Axes
    from disco_magic.session.arguments import Limit
    from disco_magic.session.session import Session

__tracebackhide__ = is_told

_EXACT = Tolerance()
_DIFFERS = attrgetter("differs")


class Checks(Calls):
    """The `check()` mixin of `Session`."""

    def check(
        self,
        *names: str,
        values: bool | None = None,
        workers: Sequence[int] | None = None,
        in_group: bool = False,
        over: Axes | None = None,
        rtol: float = 0.0,
        atol: float = 0.0,
        timeout: float | None = None,
    ) -> CheckReport:
        """Compare registers between workers, after everything sent so far, and wait for the result.

        Compared are: whether all workers have them, types, shapes, dtypes and devices. For Python's own
        containers, named tuples and dataclass instances: their length, the types of plain values in them, and
        arrays, containers and objects in them as if they were registers, ``params['w']``,
        ``config.layers[0]``. For data frames of pandas and polars: the columns. Instances count as the same
        type if their classes have the same qualified name, even if each worker has defined its own. Contents
        of other objects, deeper than 8 containers or beyond 1,000 parts (10,000 when values are compared) are
        not compared; the report names them. DTensors have to agree between workers that hold the same part.
        In the middle of a cell, use `WorkerContext.check`.

        Args:
            *names: registers or parts of them, ``params['w']``, ``model.norm.weight``; none: all registers.
            values: compare values too, bit for bit (0.0 is not -0.0, a NaN equals the same NaN): those of
                `names`, or without names those of registers and parts marked by `worker.replicated` or
                replicated by a plan, and of DTensors whose same part is on several workers. None: if names
                are given. Works for arrays, those of PyTorch and JAX on the CPU, numbers, text, columns and
                labels of data frames, and containers of these; PyTorch's modules are compared by their
                ``state_dict()``.
                The report lists what could not be compared, and is then false. Without names, a register
                marked by only some of the workers that have it is a difference too.
            workers: compare only these; None: all.
            in_group: workers have to agree only with those of their group.
            over: only with those that differ along these axes of the mesh. Registers that
                ``worker.replicated(w, over=...)`` has marked have to agree only along the axes of their
                marks, unless both names and axes are given here.
            rtol: with `values`, how far a floating-point number may be from that of the first of the workers
                that have to agree; as in `WorkerContext.check`.
            atol: as `rtol`; see there.
            timeout: seconds to wait at most; None: `self.timeout`.

        Returns:
            CheckReport: true if nothing differs and all requested values could be compared; rows,
                a table as text and HTML, `raise_if_differing()`.

        Raises:
            UnknownName: no worker has a register of that name; near misses are in the message.
            WorkerError: something failed before this.
            SyncTimeout: the time ran out; the workers go on.
            UsageMistake: called on a worker; no such worker; a tolerance without values to compare.
            KeyboardInterrupt: Ctrl-C or the stop button; the workers go on.

        Cost: microseconds per register; with `values` one pass over their data on every worker, at about
        1 GB/s per core, without copying contiguous arrays; with a tolerance, values that differ are gathered
        on the first worker, one after the other.

        Example:
            >>> session.run("same = np.zeros(3); mine = same + worker_id // 3").errors
            {}
            >>> report = session.check("same", "mine")
            >>> report.ok, [row.name for row in report.differing]
            (False, ['mine'])
            >>> print(report.summary)
            [0-3] different: mine; equal: same
        """
        refuse_in_worker(self.id, "check", "worker.check(x)")
        wrong = [name for name in names if not isinstance(name, str)]
        if wrong:
            raise UsageMistake(f"check takes names of registers, got {type(wrong[0]).__name__}")
        values = bool(names) if values is None else truth("check", "values", values)
        in_group = is_grouped("check", in_group)
        chosen = self._chosen(workers)
        tolerance = tolerance_of(rtol, atol)
        if tolerance and not values:
            raise UsageMistake(f"check: {tolerance} is about values, which are compared with values=True")
        names = tuple(dict.fromkeys(map(as_listed, names)))

        def select(found: Mapping[int, Found]) -> Iterable[str]:
            self._refuse_unknown(names, found)
            return dict.fromkeys([*names, *all_names(found)])

        asked = self._asked_circles(chosen, over, in_group=in_group)
        # A caller that says which workers have to agree overrides the marks of parts.
        survey = Survey(names or None, values, parts=values and asked is None and chosen == self._everybody)
        title = f"Disco session {self.id}"
        return self.compared(
            title, survey, chosen, select, circles=asked, timeout=timeout, tolerance=tolerance
        )

    def _refuse_unknown(self, names: Iterable[str], found: Mapping[int, Found]) -> None:
        for name in names:
            if not any(name in each.registers for each in found.values()):
                with about("check"):
                    check_there(self._launcher, *split(name))

    def _asked_circles(self, workers: Workers, over: Axes | None, *, in_group: bool) -> Circles | None:
        """The workers that have to agree with each other, if the caller limited that; else None."""
        if in_group and over is not None:
            raise both_said("check", over)
        if over is not None:
            self.taking_part("check", over, in_group=True)
            return Circles.along(self.mesh, axes_of(over), workers)
        if not in_group:
            return None
        groups = self.topology.parts()
        places = [f"group {number}" for number in range(len(groups))] if len(groups) > 1 else [""]
        return Circles.among(workers, groups, places)

    def compared(
        self,
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
        limit = self.patience(timeout)
        try:
            self.keep_pace(limit, "the check")
            found: dict[int, Found] = self._asked(survey, workers, limit)
            compared = self._comparison(found, select(found), survey, workers, circles)
            rows = compared(circles or Circles((workers,)))
            if tolerance and any(map(_DIFFERS, rows)):
                nearness = Nearness(rows, tolerance, workers)
                rows = next(iter(self._asked(nearness, workers, limit).values()))
            rows = self._with_gaps(rows, workers, limit)
            is_apart = circles is None and any(map(_DIFFERS, rows))
            along = self._agreeing_axes(compared, workers) if is_apart else ()
            return CheckReport(
                title, workers, rows, str(tolerance), named=survey.names is not None, along=along
            )
        except KeyboardInterrupt as struck:
            if type(struck) is not KeyboardInterrupt:  # this thread is a worker of another session
                raise
            words = (
                f"{title}: the check was interrupted; the workers end what they were sent, nothing is changed"
            )
        raise KeyboardInterrupt(words)

    def _comparison(
        self,
        found: Mapping[int, Found],
        names: Iterable[str],
        survey: Survey,
        workers: Workers,
        asked: Circles | None,
    ) -> Callable[[Circles], tuple[CheckRow, ...]]:
        """A function that compares these registers, as `survey` has found them, within circles of workers.

        Within those along the axes of its mark, a register that has one: as far as that concerns `workers`
        and the circles `asked`, but not if the caller has named both registers and workers, axes or groups.
        """
        selected, marked, are_named = list(names), marked_everywhere(found), survey.names is not None
        says_it_all = are_named and (asked is not None or len(workers) < self.num_workers)
        return partial(
            compare,
            found,
            names=selected,
            by_value=(selected if are_named else marked) if survey.values else (),
            marks=survey.values and not are_named,
            apart={} if says_it_all else Circles.of_marks(marked, self.mesh, workers, asked),
        )

    def _agreeing_axes(
        self, compared: Callable[[Circles], Sequence[CheckRow]], workers: Workers
    ) -> tuple[str, ...]:
        """The axes of the mesh along which nothing differs of what is compared."""
        circles = {axis: Circles.along(self.mesh, (axis,), workers) for axis in self.mesh}
        several = {axis: each for axis, each in circles.items() if any(len(one) > 1 for one in each.workers)}
        return tuple(axis for axis, each in several.items() if not any(row.differs for row in compared(each)))

    def _asked(self, function: Survey | Nearness | Sample, workers: Workers, limit: Limit) -> dict[int, Any]:
        """Call `function` on each of `workers`; return the results by worker."""
        answer = self.call_packed(function, workers=workers)
        ended = self.ask(
            lambda seq, kills: Fetch(seq, answer.register, kills, workers), workers, limit, "check"
        )
        replies = {worker: cast("Answer", ended.replies[worker]) for worker in workers}
        self.raise_failures([reply.failure for reply in replies.values() if reply.failure is not None])
        return {worker: reply.value for worker, reply in replies.items()}

    def _with_gaps(self, rows: tuple[CheckRow, ...], workers: Workers, limit: Limit) -> tuple[CheckRow, ...]:
        """Add to the first few rows that differ only in value how far they are apart."""
        wanted = {row.name: row for row in to_explain(rows)}
        arrays = tuple(name for name, row in wanted.items() if math.prod(row.shape or ()) > 1)
        samples: dict[int, dict[str, Any]] = {}
        if arrays:
            with suppress(SyncTimeout):  # that they differ is known already
                samples = self._asked(Sample(arrays), workers, limit)
        told = {}
        for name, row in wanted.items():
            place, circle = row.first_differing
            if name in arrays:
                parts = [samples[worker][name] for worker in circle if name in samples.get(worker, ())]
                said = _gap(row.shape or (), parts, circle)
                if row.type == COLUMN and not said:  # of texts, or with missing values: no array describes it
                    said = self._why_apart(row)
            else:
                said = self._why_apart(row) if row.shape is None else ""
            told[name] = f"{place}: {said}" if place and said else said
        return tuple(replace(row, gap=told.get(row.name, "")) for row in rows)

    def _why_apart(self, row: CheckRow) -> str:
        """Say where containers of numbers and text first differ: those of the first worker that differs."""
        first, other = row.first_pair
        why = told_apart(cast("Session", self), row.name, first, other)
        return f"{ranges((other,))} {why}" if why else ""


def all_names(found: Mapping[int, Found]) -> list[str]:
    """Names of what the workers hold, each once."""
    return list(dict.fromkeys(name for each in found.values() for name in each.registers))


def _gap(shape: tuple[int, ...], samples: Sequence[Any], circle: Workers) -> str:
    """How far a circle's arrays are apart; "" if another thread's cell has changed one meanwhile."""
    forms = {(sample.size, sample.dtype) for sample in samples}
    whole = len(samples) == len(circle) and len(forms) == 1 and is_of(samples[0], shape)
    return gap(samples, shape) if whole else ""
