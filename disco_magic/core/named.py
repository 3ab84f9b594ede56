"""What the blocks that `worker.span` names add up to: how often, and how long one takes, on every worker."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from disco_magic.core.words import human_seconds, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.core.timeline import Timeline

MOST: Final = 6
"""Names in a table; the others are counted."""
_NUMBER: Final = re.compile(r"[0-9]+")
_TIMES: Final = "\u00d7"
_WIDTH: Final = 24  # characters of a name


@dataclass(frozen=True, slots=True)
class Named:
    """Blocks whose names differ in digits alone, in a timeline's window.

    Attributes:
        name: theirs, with ``#`` for the digits: ``F#`` for ``F0`` and ``F1``; as it is if there is one only.
        label: the name of one of them.
        count: worker -> how many there were; blocks that a window cuts count, too.
        seconds: worker -> how long they took within the window, all together, waiting included.
    """

    name: str
    label: str
    count: dict[int, int]
    seconds: dict[int, float]

    def cell(self, worker: int) -> str:
        """``6 x 20.1 ms``, of a mean; nothing if there was none."""
        count = self.count.get(worker, 0)
        return f"{count:,} {_TIMES} {human_seconds(self.seconds[worker] / count)}" if count else ""


def named(timeline: Timeline) -> tuple[Named, ...]:
    """All of them, those first that took longest on all workers together."""
    counts: defaultdict[str, dict[int, int]] = defaultdict(dict)
    seconds: defaultdict[str, dict[int, float]] = defaultdict(dict)
    labels: defaultdict[str, list[str]] = defaultdict(list)
    for worker in timeline.workers:
        for span in timeline.lane(worker):
            if span.kind == "span":
                name = _NUMBER.sub("#", span.label)
                took = min(span.end_s, timeline.end_s) - max(span.start_s, timeline.start_s)
                labels[name].append(span.label)
                counts[name][worker] = counts[name].get(worker, 0) + 1
                seconds[name][worker] = seconds[name].get(worker, 0.0) + took
    found = [
        Named(
            labels[name][0] if len(set(labels[name])) == 1 else name,
            labels[name][0],
            counts[name],
            seconds[name],
        )
        for name in counts
    ]
    return tuple(sorted(found, key=lambda each: -sum(each.seconds.values())))


def named_rows(blocks: Sequence[Named], timeline: Timeline) -> list[tuple[str, ...]]:
    """A table as text: its header, and a row per worker that is shown; nothing without such blocks."""
    if not blocks:
        return []
    shown = blocks[:MOST]
    rows = [(str(worker), *(each.cell(worker) for each in shown)) for worker in timeline.workers]
    return [("worker", *(_head(each.name) for each in shown)), *rows]


def _head(name: str) -> str:
    text = " ".join(name.split())
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}\u2026"


def more_names(blocks: Sequence[Named]) -> str:
    """What `named_rows` does not show, in words."""
    more = len(blocks) - MOST
    return f"{plural(more, 'further name')} of worker.span took less" if more > 0 else ""
