"""Charges waits to the workers because of which others waited, in a timeline's window.

A wait is charged to whom it was for: the member that came last to the collective, or the other side of the
message. While that worker waited itself, the wait is charged to the one that it waited for, and so on:

    worker 0   | waits for 1 ................. |
    worker 1   | works | waits for 2 ......... |       charged to 1
    worker 2           | works ............... |       charged to 2

So a slow worker of one group is found behind those of all other groups that had to wait for its group.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from disco_magic.core.timeline import Span, Timeline


class _Wait(NamedTuple):
    """A wait of one worker.

    Attributes:
        start_s, end_s: when it began and ended.
        source: the worker that it was for; None: unknown, or the GPU.
    """

    start_s: float
    end_s: float
    source: int | None


class Charges:
    """What waits are charged to whom."""

    def __init__(self, timeline: Timeline, meetings: Iterable[Sequence[Span]]) -> None:
        self._timeline = timeline
        found: defaultdict[int, dict[float, _Wait]] = defaultdict(dict)  # by worker and start
        for members in meetings:
            last = last_of(members)
            for span in members:
                if span is not last:
                    found[span.worker][span.start_s] = _Wait(span.start_s, last.start_s, last.worker)
        for span in timeline.spans:
            if span.kind == "waiting":  # for those of the meetings above there is one already
                wait = _Wait(span.start_s, span.end_s, span.source)
                found[span.worker].setdefault(span.start_s, wait)
        self._waits = {worker: sorted(waits.values()) for worker, waits in found.items()}
        self._ends = {worker: [wait.end_s for wait in waits] for worker, waits in self._waits.items()}

    def of_collectives(self, meetings: Iterable[Sequence[Span]]) -> dict[int, float]:
        """By worker, how long others waited because of it in these collectives; in seconds."""
        charged: defaultdict[int, float] = defaultdict(float)
        window = self._timeline
        for members in meetings:
            last = last_of(members)
            for span in members:
                start_s, end_s = max(span.start_s, window.start_s), min(last.start_s, window.end_s)
                self._charge(charged, last.worker, start_s, end_s, len(self._waits))
        return charged

    def of_messages(self) -> dict[int, float]:
        """By worker, how long the workers that are shown waited because of it in messages; in seconds."""
        charged: defaultdict[int, float] = defaultdict(float)
        window = self._timeline
        for span in window.spans:
            if span.kind == "waiting" and span.source is not None and span.worker in window.workers:
                start_s, end_s = max(span.start_s, window.start_s), min(span.end_s, window.end_s)
                self._charge_known(charged, span.source, start_s, end_s, len(self._waits))
        return charged

    def _charge(
        self, charged: dict[int, float], worker: int, start_s: float, end_s: float, depth: int
    ) -> None:
        """Charge `worker` with a wait, less its own waits, which go to those that it waited for."""
        if start_s >= end_s:
            return
        charged[worker] += end_s - start_s
        waits = self._waits.get(worker, [])
        for wait in waits[bisect_right(self._ends.get(worker, []), start_s) :]:
            if wait.start_s >= end_s:
                break
            begin, end = max(start_s, wait.start_s), min(end_s, wait.end_s)
            charged[worker] -= end - begin
            if wait.source is not None and depth:
                self._charge_known(charged, wait.source, begin, end, depth - 1)

    def _charge_known(
        self, charged: dict[int, float], worker: int, start_s: float, end_s: float, depth: int
    ) -> None:
        """As `_charge`, without the time in which it is unknown what the worker did."""
        known_s = self._timeline.known_from_s(worker)
        self._charge(charged, worker, max(start_s, known_s), end_s, depth)


def last_of(members: Iterable[Span]) -> Span:
    """The call of the member that came last to a collective."""
    return max(members, key=attrgetter("start_s"))
