"""Totals of a timeline's named blocks: how many, and how long they took, by worker and name."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from disco_magic.core.words import TIMES, fine_seconds, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.core.timeline import Span, Timeline

MOST_NAMES: Final = 6
"""Names shown in a table; the others are counted."""
_NUMBER: Final = re.compile(r"[0-9]+")
_WIDTH: Final = 24  # characters of a name


@dataclass(frozen=True, slots=True)
class Named:
    """Blocks whose names differ only in digits, in a timeline's window.

    Attributes:
        name: their name with ``#`` for the digits, ``F#`` for ``F0`` and ``F1``; as it is if all are one.
        label: the name of one of them.
        count: worker -> how many there were, including blocks that the window cuts.
        seconds: worker -> how long they took within the window in total, waiting included.
    """

    name: str
    label: str
    count: dict[int, int]
    seconds: dict[int, float]

    def cell(self, worker: int) -> str:
        """Count and mean, ``6 x 20.1 ms``; empty if there was none."""
        count = self.count.get(worker, 0)
        return f"{count:,} {TIMES} {fine_seconds(self.seconds[worker] / count)}" if count else ""


def without_number(label: str) -> str:
    """``F#`` for ``F0`` and ``F1``: names that differ only in digits are of one kind."""
    return _NUMBER.sub("#", label)


def named(timeline: Timeline) -> tuple[Named, ...]:
    """All named blocks; those that took longest on all workers together come first."""
    blocks: defaultdict[str, list[Span]] = defaultdict(list)
    for worker in timeline.workers:
        for span in timeline.lane(worker):
            if span.kind == "span":
                blocks[without_number(span.label)].append(span)
    found = [_added_up(name, spans, timeline) for name, spans in blocks.items()]
    return tuple(sorted(found, key=lambda each: -sum(each.seconds.values())))


def _added_up(name: str, spans: Sequence[Span], timeline: Timeline) -> Named:
    labels = {span.label for span in spans}
    seconds: defaultdict[int, float] = defaultdict(float)
    for span in spans:
        seconds[span.worker] += min(span.end_s, timeline.end_s) - max(span.start_s, timeline.start_s)
    return Named(
        name if len(labels) > 1 else spans[0].label,
        spans[0].label,
        dict(Counter(span.worker for span in spans)),
        dict(seconds),
    )


def named_rows(blocks: Sequence[Named], timeline: Timeline) -> list[tuple[str, ...]]:
    """A table as text: a header, and a row per worker that is shown; empty without such blocks."""
    if not blocks:
        return []
    shown = blocks[:MOST_NAMES]
    rows = [(str(worker), *(each.cell(worker) for each in shown)) for worker in timeline.workers]
    return [("worker", *(_head(each.name) for each in shown)), *rows]


def _head(name: str) -> str:
    text = " ".join(name.split())
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}\u2026"


def more_names(blocks: Sequence[Named]) -> str:
    """How many names `named_rows` does not show, in words."""
    more = len(blocks) - MOST_NAMES
    return f"{plural(more, 'further name')} of worker.span took less" if more > 0 else ""
