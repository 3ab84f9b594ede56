"""Where a time is in a timeline's picture: to scale, but for long pauses in which no worker does anything.

In a notebook people think between cells: drawn to scale, a cell of a second would be a sliver in a minute.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from disco_magic.core.spending import stretches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.core.timeline import Timeline

    Pair = tuple[float, float]

MOST_PAUSES: Final = 12
"""Pauses that are shortened; the longest ones."""
_IDLE: Final = 0.5  # share of all the time: if pauses are not more, nothing is shortened
_LONG: Final = 0.1  # share of the time in which somebody works: no shorter pause is shortened


def pauses_of(timeline: Timeline) -> list[Pair]:
    """The pauses that a picture shortens, as ``(start_s, end_s)``, in order."""
    # What was dropped need not have been a pause. Before a worker began, it did nothing.
    whole = [timeline.known_from_s(each) for each in timeline.workers if timeline.dropped[each]]
    start, end = max(whole, default=timeline.start_s), timeline.end_s
    busy = stretches([span for each in timeline.workers for span in timeline.lane(each)], start, end)
    if not busy:
        return []
    long_s = _LONG * sum(map(_length, busy))
    ends, starts = [start, *(last for _, last in busy)], [*(first for first, _ in busy), end]
    found = [pause for pause in zip(ends, starts, strict=True) if _length(pause) > long_s]
    found = sorted(sorted(found, key=_length)[-MOST_PAUSES:])
    return found if sum(map(_length, found)) > _IDLE * (end - timeline.start_s) else []


def _length(pair: Pair) -> float:
    return pair[1] - pair[0]


class TimeScale(NamedTuple):
    """The places of times in a picture, from 0 to its width.

    Attributes:
        times, places: the ends of all pieces, where each follows the one before; a piece is to scale.
        pauses: the pieces that are shortened pauses.
    """

    times: tuple[float, ...]
    places: tuple[float, ...]
    pauses: frozenset[Pair] = frozenset()

    @classmethod
    def of(cls, timeline: Timeline, width: float, *, pause: float = 1.0, least: float = 1.0) -> TimeScale:
        """The scale of a picture of that width.

        Args:
            timeline: what is drawn.
            width: of the picture, in pixels or characters.
            pause: width of a shortened pause.
            least: width that the time between two of them has, however short it is; the rest goes by length.
        """
        pauses = pauses_of(timeline)
        times = sorted({timeline.start_s, *(edge for each in pauses for edge in each), timeline.end_s})
        pieces = [*pairwise(times)] or [(timeline.start_s, timeline.end_s)]
        even = [piece for piece in pieces if piece not in pauses]
        rest = width - pause * len(pauses) - least * len(even)
        each_s = sum(map(_length, even))
        widths = [
            pause if piece in pauses else least + rest * (_length(piece) / each_s if each_s else 1.0)
            for piece in pieces
        ]
        edges = (pieces[0][0], *(last for _, last in pieces))
        return cls(edges, tuple(accumulate(widths, initial=0.0)), frozenset(pauses))

    def in_columns(self) -> TimeScale:
        """The same with pieces of whole characters."""
        return self._replace(places=tuple(float(math.floor(place + 0.5)) for place in self.places))

    @property
    def width(self) -> float:
        """The width of the picture."""
        return self.places[-1]

    def is_pause(self, time_s: float) -> bool:
        """Whether a time is in a pause that is shortened."""
        return any(first < time_s < last for first, last in self.pauses)

    @property
    def even(self) -> list[Pair]:
        """The pieces that are no pauses."""
        return [piece for piece in pairwise(self.times) if piece not in self.pauses]

    @property
    def step_s(self) -> float:
        """Seconds of a pixel or a character outside pauses, of all together."""
        paused = sum(self.place(last) - self.place(first) for first, last in self.pauses)
        return sum(map(_length, self.even)) / (self.width - paused)

    def place(self, time_s: float) -> float:
        """Where a time is; at the edge if it lies outside."""
        return _between(self.times, self.places, time_s)

    def time(self, place: float) -> float:
        """The time at a place."""
        return _between(self.places, self.times, place)

    def ticks(self, most: int, character: float) -> list[tuple[float, str]]:
        """Round times as ``(place, text)``, and the first time after each pause; none in a pause.

        Args:
            most: about how many.
            character: its width. Where two texts would meet, the time after a pause stays, not the round one.
        """
        step = _round_step(sum(map(_length, self.even)) / most)
        if step <= 0:
            return [(0.0, f"{self.times[0]:g} s")]
        digits = max(0, -math.floor(math.log10(step) + 1e-9))
        after = {last for _, last in self.pauses}
        wanted = [
            (self.place(first), f"{first:.{digits + 1}f} s") for first, _ in self.even if first in after
        ]
        for first, last in self.even:
            numbers = range(math.ceil(first / step - 1e-9), math.floor(last / step + 1e-9) + 1)
            wanted += [(self.place(number * step), f"{number * step:.{digits}f} s") for number in numbers]
        kept: list[tuple[float, str]] = []
        for place, text in wanted:
            if all(abs(place - at) >= character * (max(len(text), len(other)) + 2) for at, other in kept):
                kept.append((place, text))
        return sorted(kept)


def _between(given: Sequence[float], wanted: Sequence[float], value: float) -> float:
    """Go along a line of straight pieces from one of its coordinates to the other."""
    at = min(max(bisect_right(given, value), 1), len(given) - 1)
    low, high = given[at - 1], given[at]
    if value >= high:
        return wanted[at]
    return wanted[at - 1] + max(0.0, value - low) / (high - low) * (wanted[at] - wanted[at - 1])


def _round_step(step: float) -> float:
    """The next number of 1, 2, 5, 10, 20, ... (and 0.5, 0.2, ...)."""
    if step <= 0:
        return 0.0
    unit = 10.0 ** math.floor(math.log10(step))
    return next(factor * unit for factor in (1, 2, 5, 10) if factor * unit >= step * (1 - 1e-9))
