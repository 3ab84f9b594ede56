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
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from disco_magic.core.timeline import Span, Timeline

_END: Final = itemgetter(1)


class _Wait(NamedTuple):
    """A wait of one worker.

    Attributes:
        start_s, end_s: when it began and ended.
        source: the worker that it was for; None: unknown, or the GPU.
    """

    start_s: float
    end_s: float
    source: int | None


class _Part(NamedTuple):
    """A part of a wait.

    Attributes:
        start_s, end_s: when it began and ended.
        due: the worker that worked meanwhile.
    """

    start_s: float
    end_s: float
    due: int


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
        # By worker and place in `_waits`: the parts of that wait, by who worked meanwhile.
        self._found: dict[tuple[int, int], list[_Part] | None] = {}

    def of_collectives(self, meetings: Iterable[Sequence[Span]]) -> dict[int, float]:
        """By worker, how long others waited because of it in these collectives; in seconds."""
        charged: defaultdict[int, float] = defaultdict(float)
        window = self._timeline
        for members in meetings:
            last = last_of(members)
            for span in members:
                start_s, end_s = max(span.start_s, window.start_s), min(last.start_s, window.end_s)
                self._charge(charged, last.worker, start_s, end_s)
        return charged

    def of_messages(self) -> dict[int, float]:
        """By worker, how long the workers that are shown waited because of it in messages; in seconds."""
        charged: defaultdict[int, float] = defaultdict(float)
        window = self._timeline
        for span in window.spans:
            if span.kind == "waiting" and span.source is not None and span.worker in window.workers:
                start_s, end_s = max(span.start_s, window.start_s), min(span.end_s, window.end_s)
                known_s = window.known_from_s(span.source)
                self._charge(charged, span.source, max(start_s, known_s), end_s)
        return charged

    def _charge(self, charged: dict[int, float], worker: int, start_s: float, end_s: float) -> None:
        """Charge `worker` with a wait, less its own waits, which go to those that it waited for."""
        for begin, end, due in self._parts(worker, start_s, end_s, len(self._waits)):
            charged[due] += end - begin

    def _parts(self, worker: int, start_s: float, end_s: float, depth: int) -> Iterator[_Part]:
        """A wait for `worker`, by who worked meanwhile, as far as that is known."""
        if start_s >= end_s:  # it ended before it was known what the worker did
            return
        mine = self._waits.get(worker, ())
        for index in self._meanwhile(worker, start_s, end_s):
            wait = mine[index]
            begin, end = max(start_s, wait.start_s), min(end_s, wait.end_s)
            if start_s < begin:
                yield _Part(start_s, begin, worker)
            if (parts := self._shares(worker, index)) is not None:
                yield from _between(parts, begin, end)
            elif wait.source is not None and depth:  # one that waits for itself, as clocks have it
                yield from self._parts_known(wait.source, begin, end, depth - 1)
            start_s = end
        if start_s < end_s:
            yield _Part(start_s, end_s, worker)

    def _parts_known(self, worker: int, start_s: float, end_s: float, depth: int) -> Iterator[_Part]:
        """As `_parts`, without the time in which it is unknown what the worker did."""
        known_s = self._timeline.known_from_s(worker)
        return self._parts(worker, max(start_s, known_s), end_s, depth)

    def _meanwhile(self, worker: int, start_s: float, end_s: float) -> Iterator[int]:
        """Which waits of `worker` were in that time."""
        waits = self._waits.get(worker, ())
        for index in range(bisect_right(self._ends.get(worker, ()), start_s), len(waits)):
            if waits[index].start_s >= end_s:
                return
            yield index

    def _shares(self, worker: int, index: int) -> list[_Part] | None:
        """The parts of one wait, found once: of 64 workers, each has a hundred others behind it.

        A chain of waits may be longer than Python can call functions in each other, so this keeps a stack of
        its own. None while those of this wait are being found.
        """
        key = worker, index
        if key not in self._found:
            stack = [key]
            while stack:
                if (top := stack[-1]) not in self._found:
                    self._found[top] = None
                    stack += [each for each in self._behind(top) if each not in self._found]
                    continue
                stack.pop()
                if self._found[top] is None:
                    wait = self._waits[top[0]][top[1]]
                    source, depth = wait.source, len(self._waits)
                    parts = () if source is None else self._parts_known(source, *wait[:2], depth)
                    self._found[top] = list(parts)
        return self._found[key]

    def _behind(self, key: tuple[int, int]) -> list[tuple[int, int]]:
        """The waits, meanwhile, of the worker that a wait was for."""
        wait = self._waits[key[0]][key[1]]
        source = wait.source
        return [] if source is None else [(source, each) for each in self._meanwhile(source, *wait[:2])]


def _between(parts: Sequence[_Part], start_s: float, end_s: float) -> Iterator[_Part]:
    """The `parts` in that time, which are in order."""
    for index in range(bisect_right(parts, start_s, key=_END), len(parts)):
        begin, end, due = parts[index]
        if begin >= end_s:
            return
        yield _Part(max(begin, start_s), min(end, end_s), due)


def last_of(members: Iterable[Span]) -> Span:
    """The call of the member that came last to a collective."""
    return max(members, key=attrgetter("start_s"))
