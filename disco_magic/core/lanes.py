"""A timeline as text: a lane of characters per worker, for terminals and logs."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from disco_magic.core.named_blocks import more_names, named_rows
from disco_magic.core.spending import HEADER, stretches
from disco_magic.core.time_scale import TimeScale
from disco_magic.core.words import aligned, human_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.core.timeline import Span, Timeline

WIDTH: Final = 80
RUNNING, WAITING, IDLE, ERROR, UNKNOWN, PAUSE = "\u2588", "\u2591", "\u00b7", "!", " ", "/"
_LEGEND: Final = f"{RUNNING} running  {WAITING} waiting for others  {IDLE} idle  {ERROR} error"


def picture(timeline: Timeline) -> str:
    """The lanes with an axis, then the numbers."""
    summary, blocks = timeline.summary(), timeline.named()
    heads = [f"worker {worker} " for worker in timeline.workers]
    indent = max(map(len, heads))
    took = human_seconds(timeline.end_s - timeline.start_s)
    scale = TimeScale.of(timeline, WIDTH).in_columns()
    paused = f"  {PAUSE} a pause, shortened" if scale.pauses else ""
    lines = [
        f"Disco session {timeline.session_id}: {took}, {timeline.num_workers} workers",
        f"{'':{indent}}{axis(scale)}",
        *(
            f"{head:{indent}}{lane(timeline, worker, scale)}"
            for head, worker in zip(heads, timeline.workers, strict=True)
        ),
        f"{'':{indent}}{_LEGEND}{paused}",
        *aligned([HEADER, *summary.rows()]),
        *aligned(named_rows(blocks, timeline)),
    ]
    return "\n".join(filter(None, [*lines, more_names(blocks), summary.sentence, timeline.remark]))


def lane(timeline: Timeline, worker: int, scale: TimeScale) -> str:
    """One worker's time as characters.

    An error is shown wherever there was one; a character is idle only if nothing else happened in its time.
    """
    spans, edges = timeline.lane(worker), [scale.time(column) for column in range(round(scale.width) + 1)]
    waiting = _shares([span for span in spans if span.kind == "waiting"], edges)
    busy = _shares([span for span in spans if span.kind != "error"], edges)
    known_s = timeline.known_from_s(worker)
    characters = [
        UNKNOWN
        if first < known_s >= last
        else PAUSE
        if scale.is_pause((first + last) / 2)
        else IDLE
        if not all_s
        else WAITING
        if 2 * waited_s > all_s
        else RUNNING
        for (first, last), all_s, waited_s in zip(pairwise(edges), busy, waiting, strict=True)
    ]
    for span in spans:
        if span.kind == "error":
            column = _column(edges, span.start_s)
            # What ends with an error may end where a pause begins.
            characters[max(column - (characters[column] == PAUSE), 0)] = ERROR
    return "".join(characters)


def _column(edges: Sequence[float], time_s: float) -> int:
    return min(max(bisect_right(edges, time_s) - 1, 0), len(edges) - 2)


def _shares(spans: Sequence[Span], edges: Sequence[float]) -> list[float]:
    """Seconds of each column in which at least one span goes on."""
    shares = [0.0] * (len(edges) - 1)
    for begin, end in stretches(spans, edges[0], edges[-1]):
        for column in range(_column(edges, begin), _column(edges, end) + 1):
            shares[column] += max(0.0, min(end, edges[column + 1]) - max(begin, edges[column]))
    return shares


def axis(scale: TimeScale) -> str:
    """Times above their columns, each beginning at its mark."""
    text, width = "", round(scale.width)
    for place, said in scale.ticks(width // 14, 1):
        column, mark = round(place), f"|{said}"
        if column >= len(text) and column + len(mark) <= width + len(mark) // 2:
            text = f"{text:{column}}{mark}"
    return text
