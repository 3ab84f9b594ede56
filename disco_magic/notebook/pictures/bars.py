"""The bars of a histogram on a drawing, the axes around them, and their description in words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from disco_magic.core.words import plural
from disco_magic.notebook.pictures.axes import axes_svg, number, number_ticks, width_of
from disco_magic.notebook.pictures.colours import MINUS_SIGN, NAN_SIGN, PLUS_SIGN

if TYPE_CHECKING:
    from disco_magic.values.pictures import Floats, Histogram, Indices

_MOST: Final = 50  # more bins are drawn in groups, because a bar needs a few pixels to point at
_TOP, _BOTTOM = 8, 18  # pixels: space above the bars, numbers below them


def grouped(histogram: Histogram) -> tuple[Floats, Indices]:
    """Edges and counts of at most 50 bars."""
    edges = np.asarray(histogram.edges, np.float64)
    counts = np.asarray(histogram.counts, np.int64)[: max(0, len(edges) - 1)]
    if len(counts) <= _MOST:
        return edges, counts
    starts = np.arange(0, len(counts), math.ceil(len(counts) / _MOST))
    return np.append(edges[starts], edges[-1]), np.add.reduceat(counts, starts)


def in_words(histogram: Histogram) -> str:
    """The number of elements, whether that is a sample, and how many are in no bar."""
    return ", ".join(filter(None, (amount(histogram), missing(histogram))))


def amount(histogram: Histogram) -> str:
    """``65,536 elements``, ``sample of 65,536 of 1,000,000 elements``."""
    whole = plural(histogram.size, "element") if histogram.size else "no elements"
    counted = int(np.sum(histogram.counts)) + histogram.nans + histogram.infs
    return f"sample of {counted:,} of {whole}" if histogram.sampled else whole


def missing(histogram: Histogram) -> str:
    """``3 NaN, 1 infinite``, with their signs in heat maps; "" if all are finite."""
    words = [f"{NAN_SIGN} {histogram.nans:,} NaN"] if histogram.nans else []
    words += [f"{PLUS_SIGN}{MINUS_SIGN} {histogram.infs:,} infinite"] if histogram.infs else []
    return ", ".join(words)


class Bars:
    """The bars of one histogram in `width` x `height` pixels; a count of `most` has the full height."""

    def __init__(self, histogram: Histogram, width: int, height: int, most: int | None) -> None:
        self._edges, self._counts = grouped(histogram)
        self._most = max(1, int(self._counts.max(initial=0)) if most is None else most)
        whole = [count for count, _ in number_ticks(0, self._most, 3) if count == round(count) and count > 0]
        self._ticks = [(round(count), f"{round(count):,}") for count in whole]
        self._left = width_of([text for _, text in self._ticks]) + 8
        self._width = width - self._left - 12
        self._bottom = height - _BOTTOM
        self._ends = [self._x(float(edge)) for edge in self._edges]

    def _x(self, value: float) -> float:
        # Halves, because the difference of two doubles may overflow.
        low, high = float(self._edges[0]) / 2, float(self._edges[-1]) / 2
        part = (value / 2 - low) / (high - low) if high > low else 0.5
        return round(self._left + part * self._width, 1)

    def _y(self, count: int) -> int:
        # At least one pixel, so that one element among a million is visible.
        return self._bottom - (max(round((self._bottom - _TOP) * count / self._most), 1) if count else 0)

    def axes(self) -> str:
        """Counts at the left, values below."""
        rows = ((self._y(count), text) for count, text in self._ticks)
        columns = ((self._x(value), text) for value, text in self._values())
        return axes_svg(self._left, self._left + self._width, self._bottom, rows, columns)

    def _values(self) -> list[tuple[float, str]]:
        """The labels of as many round values as fit."""
        if not len(self._edges):
            return []
        low, high = float(self._edges[0]), float(self._edges[-1])
        for most in range(7, 1, -1):
            ticks = number_ticks(low, high, most)
            if len(ticks) * (width_of([text for _, text in ticks]) + 12) <= self._width:
                break
        return ticks

    def outline(self) -> str:
        """All bars as one path."""
        return "".join(
            f"M{left:g} {self._bottom}V{self._y(count)}H{max(right - 1, left + 1):g}V{self._bottom}z"
            for left, right, count, _ in self._columns()
            if count
        )

    def targets(self) -> str:
        """Invisible lines over the full height with the range and count of each bar as tooltip."""
        columns = self._columns()
        width = min((right - left for left, right, _, _ in columns), default=0)
        lines = (
            f'<path d="M{(left + right) / 2:.1f} {_TOP}V{self._bottom}"><title>{said}</title></path>'
            for left, right, _, said in columns
        )
        return f'<g stroke="transparent" stroke-width="{width:.1f}">{"".join(lines)}</g>'

    def _columns(self) -> list[tuple[float, float, int, str]]:
        """Left and right end, count and words of every bar."""
        columns = []
        for i, count in enumerate(self._counts.tolist()):
            bin_text = _bin_text(float(self._edges[i]), float(self._edges[i + 1]))
            left, right = self._ends[i], self._ends[i + 1]
            if left == right:  # a bin without width: all elements are equal
                left, right = left - self._width / 20, right + self._width / 20
            columns.append((left, right, count, f"{bin_text}: {count:,}"))
        return columns


def _bin_text(low: float, high: float) -> str:
    """``0.25 to 0.5``: with one digit more than distinguishes the ends."""
    halves = high / 2 - low / 2  # the difference of two doubles may overflow
    if halves <= 0:
        return number(low)
    digits = math.floor(math.log10(max(abs(low), abs(high)))) - math.floor(math.log10(halves)) + 2
    ends = (0.0 if abs(end) < halves * 1e-6 else end for end in (low, high))
    return " to ".join(f"{end:.{min(digits, 15)}g}" for end in ends)
