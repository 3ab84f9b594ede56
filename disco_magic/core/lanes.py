"""A timeline as text: a lane of characters per worker, for terminals and logs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from disco_magic.core.named_blocks import more_names, named_rows
from disco_magic.core.spending import HEADER, stretches
from disco_magic.core.words import aligned, human_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.core.timeline import Span, Timeline

WIDTH: Final = 80
RUNNING, WAITING, IDLE, ERROR, UNKNOWN = "\u2588", "\u2591", "\u00b7", "!", " "
_LEGEND: Final = f"{RUNNING} running  {WAITING} waiting for others  {IDLE} idle  {ERROR} error"


def picture(timeline: Timeline) -> str:
    """The lanes with an axis, then the numbers."""
    summary, blocks = timeline.summary(), timeline.named()
    heads = [f"worker {worker} " for worker in timeline.workers]
    indent = max(map(len, heads))
    took = human_seconds(timeline.end_s - timeline.start_s)
    lines = [
        f"Disco session {timeline.session_id}: {took}, {timeline.num_workers} workers",
        f"{'':{indent}}{axis(timeline.start_s, timeline.end_s)}",
        *(
            f"{head:{indent}}{lane(timeline, worker)}"
            for head, worker in zip(heads, timeline.workers, strict=True)
        ),
        f"{'':{indent}}{_LEGEND}",
        *aligned([HEADER, *summary.rows()]),
        *aligned(named_rows(blocks, timeline)),
    ]
    return "\n".join(filter(None, [*lines, more_names(blocks), summary.sentence, timeline.remark]))


def lane(timeline: Timeline, worker: int, width: int = WIDTH) -> str:
    """One worker's time as `width` characters.

    An error is shown wherever there was one; a character is idle only if nothing else happened in its time.
    """
    start, step = timeline.start_s, (timeline.end_s - timeline.start_s) / width
    if step <= 0:
        return IDLE * width
    spans = timeline.lane(worker)
    waiting = _shares([span for span in spans if span.kind == "waiting"], start, step, width)
    busy = _shares([span for span in spans if span.kind != "error"], start, step, width)
    unknown = math.floor((timeline.known_from_s(worker) - start) / step)
    characters = [
        UNKNOWN if column < unknown else IDLE if not all_s else WAITING if 2 * waited_s > all_s else RUNNING
        for column, (all_s, waited_s) in enumerate(zip(busy, waiting, strict=True))
    ]
    for span in spans:
        if span.kind == "error":
            column = math.floor((span.start_s - start) / step)
            characters[min(max(column, 0), width - 1)] = ERROR
    return "".join(characters)


def _shares(spans: Sequence[Span], start_s: float, step_s: float, width: int) -> list[float]:
    """Seconds of each column in which at least one span goes on."""
    shares = [0.0] * width
    for begin, end in stretches(spans, start_s, start_s + step_s * width):
        first = min(math.floor((begin - start_s) / step_s), width - 1)
        last = min(math.floor((end - start_s) / step_s), width - 1)
        for column in range(first, last + 1):
            left = start_s + column * step_s
            shares[column] += max(0.0, min(end, left + step_s) - max(begin, left))
    return shares


def ticks(start_s: float, end_s: float, most: int) -> list[tuple[float, str]]:
    """At most `most` + 1 round times in a window, as ``(time, text)``, for an axis."""
    step = _round_step((end_s - start_s) / most)
    if step <= 0:
        return [(start_s, f"{start_s:g} s")]
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    first, last = math.ceil(start_s / step - 1e-9), math.floor(end_s / step + 1e-9)
    return [(number * step, f"{number * step:.{digits}f} s") for number in range(first, last + 1)]


def _round_step(step: float) -> float:
    """The next number of 1, 2, 5, 10, 20, ... (and 0.5, 0.2, ...)."""
    if step <= 0:
        return 0.0
    unit = 10.0 ** math.floor(math.log10(step))
    return next(factor * unit for factor in (1, 2, 5, 10) if factor * unit >= step * (1 - 1e-9))


def axis(start_s: float, end_s: float, width: int = WIDTH) -> str:
    """Times above their columns, each beginning at its mark."""
    text = ""
    for time, said in ticks(start_s, end_s, width // 14):
        column = 0 if end_s <= start_s else round((time - start_s) / (end_s - start_s) * width)
        mark = f"|{said}"
        if column >= len(text) and column + len(mark) <= width + len(mark) // 2:
            text = f"{text:{column}}{mark}"
    return text
