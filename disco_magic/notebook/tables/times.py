"""``%%disco --time``: each worker's time in a cell, how much of it was waiting, and the straggler.

The compared load is the *computing* time: the time in which a worker was not asleep in a collective, waiting
for others. Total times are equal if a collective ends the cell, however uneven the work was.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Final

from disco_magic.core.gathered import gathered
from disco_magic.core.lanes import RUNNING as RUNNING_TEXT
from disco_magic.core.lanes import WAITING as WAITING_TEXT
from disco_magic.core.markup import (
    LINE_FONT,
    LINE_INDENT,
    SMALLEST,
    TableLook,
    cells,
    foot_lines,
    head_cells,
    upright,
)
from disco_magic.core.spending import stands_out
from disco_magic.core.words import aligned, fine_seconds, from_to, plural
from disco_magic.notebook.tables.reports import RUNNING, WAITING, bar, swatch
from disco_magic.phrases import ranges

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disco_magic.core.timeline import Span, Timeline

HEADER: Final = ("worker", "total", "computing", "waiting")
NOISE: Final = 0.05
"""Workers whose times differ by less than this share of the longest are called equally fast."""
NOISE_S: Final = 5e-3
"""Smaller differences in seconds do not count either: four threads begin a cell up to 3 ms apart."""
_WIDTH: Final = 24
_BESIDE: Final = 300
_LAST: Final = "last"
_LOOK: Final = TableLook(
    "disco-times",
    "{} th,{} td{text-align:right!important}",
    "{} td{white-space:nowrap!important}",  # no line ends before a unit
    "{} th:last-child,{} td:last-child{text-align:left!important}",
    "{} caption{color:inherit}",
    upright(420),
    SMALLEST,
    "{} thead th:last-child{writing-mode:horizontal-tb!important}",  # the legend
    "{} tr.last th{border-left:4px solid #d0452c}",
)


@dataclass(frozen=True, slots=True)
class WorkerTime:
    """The times of one worker in one cell, in seconds.

    Attributes:
        worker: its id.
        total_s: from the beginning to the end.
        waiting_s: of that, asleep in collectives and `recv`, waiting for others.
        came_last: number of collectives to which it came last.
        others_waited_s: how long the others waited because of it, all together; see `core.charging`.
    """

    worker: int
    total_s: float
    waiting_s: float = 0.0
    came_last: int = 0
    others_waited_s: float = 0.0

    @property
    def computing_s(self) -> float:
        """Everything except waiting for others, so also reading files and waiting for the GIL."""
        return max(0.0, self.total_s - self.waiting_s)


@dataclass(frozen=True, slots=True, repr=False)
class CellTimes:
    """The times of one cell; shows itself as a line if workers do not differ, else as a table.

    Attributes:
        label: ``Cell In[7]``.
        workers: one per worker that ran it.
        collectives: number of collectives to which all members came.
        remark: what is missing, in words; empty if nothing is.
    """

    label: str
    workers: tuple[WorkerTime, ...]
    collectives: int = 0
    remark: str = ""

    @property
    def imbalance(self) -> float:
        """The load imbalance: longest / mean computing time - 1. 0 is perfect, 1 takes twice the mean."""
        mean = self._mean_s
        return max(each.computing_s for each in self.workers) / mean - 1 if mean else 0.0

    @property
    def is_even(self) -> bool:
        """Whether the workers differ by no more than measurement noise."""
        limit = max(NOISE_S, NOISE * self._longest())
        return all(max(times) - min(times) <= limit for times in _columns(self.workers))

    @property
    def last(self) -> WorkerTime | None:
        """The straggler: the worker that others waited for longest, or that computed longest; or None."""
        waits = [each.others_waited_s for each in self.workers]
        if max(waits) > NOISE_S:
            if not stands_out(waits):
                return None
            return self.workers[waits.index(max(waits))]
        slowest = max(self.workers, key=lambda each: each.computing_s)
        limit = max(NOISE_S, NOISE * self._longest())
        return slowest if slowest.computing_s - self._mean_s > limit else None

    @property
    def sentence(self) -> str:
        """The load imbalance and the straggler in words."""
        last, imbalance = self.last, f"load imbalance {100 * self.imbalance:.0f} %"
        if last is None:
            return f"{imbalance}; no worker stands out"
        who = f"{imbalance}; worker {last.worker}"
        if last.others_waited_s > NOISE_S:
            came = f" came last to {last.came_last:,} of {plural(self.collectives, 'collective')}"
            waited = f"the others waited {fine_seconds(last.others_waited_s)} for it, all together"
            return f"{who}{came if last.came_last else ''}, {waited}"
        return f"{who} computed {fine_seconds(last.computing_s - self._mean_s)} longer than the mean"

    @property
    def _mean_s(self) -> float:
        return sum(each.computing_s for each in self.workers) / len(self.workers)

    def line(self) -> str:
        """All workers in one line, if they do not differ."""
        total, _, waiting = _columns(self.workers)
        text = f"time {ranges([each.worker for each in self.workers])} {_from_to(total)}"
        return text if max(waiting) < NOISE_S else f"{text}, of that {_from_to(waiting)} waiting for others"

    def groups(self) -> list[list[WorkerTime]]:
        """The rows of the table: a worker each; of many, those that differ by no more than noise together.

        The straggler is always alone.
        """
        limit = max(NOISE_S, NOISE * self._longest())
        return gathered(
            self.workers, lambda each: (each.computing_s, each.waiting_s, each.total_s), limit, self.last
        )

    def rows(self) -> list[tuple[str, ...]]:
        """The table's cells as text, a row for each of `groups`; see `HEADER`."""
        return [
            (ranges([each.worker for each in group]), *map(_from_to, _columns(group)))
            for group in self.groups()
        ]

    def __repr__(self) -> str:
        if self.is_even:
            return "\n".join(filter(None, (self.line(), self.remark)))
        longest_s, last = self._longest(), self.last
        bars = [
            f"  {_bar_text(_mean(group), longest_s)}{f' {_LAST}' if group[0] is last else ''}"
            for group in self.groups()
        ]
        table = aligned([HEADER, *self.rows()], words=1)
        lines = [table[0], *(f"{line}{drawn}".rstrip() for line, drawn in zip(table[1:], bars, strict=True))]
        return "\n".join(filter(None, (f"time of {self.label}: {self.sentence}", *lines, self.remark)))

    def _longest(self) -> float:
        return max(each.total_s for each in self.workers)

    def _repr_mimebundle_(self, *_: object, **__: object) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._html()}

    def _html(self) -> str:
        if self.is_even:
            return f'<div style="{LINE_FONT};{LINE_INDENT}">{escape(repr(self))}</div>'
        legend = f"{swatch(RUNNING)} computing {swatch(WAITING)} waiting for others"
        longest_s, last = self._longest(), self.last
        body = "".join(
            _row_html(_mean(group), row, longest_s, is_last=group[0] is last)
            for group, row in zip(self.groups(), self.rows(), strict=True)
        )
        caption = f"time of {escape(self.label)}: {escape(self.sentence)}"
        heads = (*HEADER, legend)
        return _LOOK.html(caption, head_cells(heads), body, foot_lines(len(heads), [self.remark]))


def _row_html(each: WorkerTime, row: Sequence[str], longest_s: float, *, is_last: bool) -> str:
    parts = [("computing", RUNNING, each.computing_s), ("waiting", WAITING, each.waiting_s)]
    mark = f' <span class="mark">{_LAST}</span>' if is_last else ""
    return (
        f'<tr class="{_LAST if is_last else ""}"><th scope="row">{row[0]}{mark}</th>{cells(row[1:])}'
        f"<td>{bar(parts, longest_s, _BESIDE)}</td></tr>"
    )


def times_of(timeline: Timeline, seq: int, label: str, elapsed: Mapping[int, float]) -> CellTimes:
    """The times of one cell that has ended."""
    cells = {span.worker: span for span in timeline.spans if span.kind == "cell" and span.seq == seq}
    mine = tuple(
        span
        for span in timeline.spans
        if span.kind == "waiting" or (span.meeting is not None and span.meeting[1] == seq)
    )
    summary = replace(timeline, spans=mine).summary()
    workers = tuple(
        WorkerTime(worker, total_s, _waited(cells.get(worker)), spent.came_last, spent.others_waited_s)
        for worker, total_s in elapsed.items()
        for spent in (summary.workers[worker],)
    )
    dropped = any(timeline.whole_from_s[worker] > cell.start_s for worker, cell in cells.items())
    remark = f"who came last is known of the last {summary.collectives:,} collectives only"
    return CellTimes(label, workers, summary.collectives, remark if dropped else "")


def _waited(cell: Span | None) -> float:
    """Seconds of waiting in a cell; 0 if its record was lost in a restart."""
    return 0.0 if cell is None or cell.waited_s is None else cell.waited_s


def _from_to(seconds: Sequence[float]) -> str:
    return from_to(fine_seconds(min(seconds)), fine_seconds(max(seconds)))


def _columns(workers: Sequence[WorkerTime]) -> tuple[list[float], list[float], list[float]]:
    return (
        [each.total_s for each in workers],
        [each.computing_s for each in workers],
        [each.waiting_s for each in workers],
    )


def _mean(group: Sequence[WorkerTime]) -> WorkerTime:
    """What the bar of a row shows."""
    total_s, _, waiting_s = (sum(column) / len(group) for column in _columns(group))
    return WorkerTime(group[0].worker, total_s, waiting_s)


def _bar_text(each: WorkerTime, longest_s: float) -> str:
    whole = round(_WIDTH * each.total_s / longest_s)
    computing = round(_WIDTH * each.computing_s / longest_s)
    return RUNNING_TEXT * computing + WAITING_TEXT * (whole - computing)
