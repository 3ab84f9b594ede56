"""Numbers of several workers over cells: merged onto one axis, and drawn as lines."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from disco_magic.notebook.pictures.axes import axes_svg, index_ticks, number, number_ticks, width_of
from disco_magic.notebook.pictures.colours import LINES
from disco_magic.phrases import ranges, who_has

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Point: TypeAlias = tuple[str, float | None]
# A cell with several points (a loop) appears as often: (label, number of earlier appearances).
Cell: TypeAlias = tuple[str, int]
Line: TypeAlias = tuple[str, "dict[Cell, float | None]"]


def lines_of(series: Mapping[int, Sequence[Point]]) -> list[Line]:
    """The different lines, each with its workers, ``[0-2]``."""
    if not series:
        return []
    # Compared as text, because a NaN is not equal to itself.
    groups = who_has((worker, repr(list(points))) for worker, points in series.items()).values()
    return [(ranges(workers), _by_cell(series[workers[0]])) for workers in groups]


def _by_cell(points: Sequence[Point]) -> dict[Cell, float | None]:
    seen: dict[str, int] = {}
    line: dict[Cell, float | None] = {}
    for label, y in points:
        before = seen.get(label, 0)
        seen[label] = before + 1
        line[label, before] = None if y is None else float(y)
    return line


def cells_of(lines: Sequence[Line]) -> list[Cell]:
    """All cells, in the order of the worker with the most cells, with those of the others merged in."""
    merged: list[Cell] = []
    for _, line in sorted(lines, key=lambda each: len(each[1]), reverse=True):
        known, place = set(merged), 0
        if known.issuperset(line):
            continue
        for cell in line:
            if cell not in known:
                merged.insert(place, cell)
            place = merged.index(cell) + 1
    return merged


def said(lines: Sequence[Line]) -> str:
    """The lines in words: where they begin and end."""
    words = []
    for name, line in lines:
        known = [y for y in line.values() if y is not None]
        ends = f"from {number(known[0])} to {number(known[-1])}" if known else "without a number"
        words.append(f"{name} {ends}")
    return ", ".join(words)


_DASHES: Final = ("", "7 3", "2 2", "8 3 2 3", "12 4", "4 2 1 2 1 2")
_TOP, _BOTTOM = 22, 18  # pixels: the title above, the cells' labels below
_LINE: Final = 11  # pixels from one name to the next
_MOST_PLACES: Final = 11  # numbers below, of places in a list or an array
_MOST_DOTS: Final = 64  # up to this number of cells, each point gets a dot with a tooltip
_CROSS, _UP, _DOWN = "\u00d7", "\u25b2", "\u25bc"


class Plot:
    """Axes for `cells` from left to right and for all `finite` numbers upwards; lines are added singly."""

    def __init__(
        self,
        cells: Sequence[Cell],
        finite: Sequence[float],
        names: Sequence[str],
        width: int,
        height: int,
        *,
        log: bool,
    ) -> None:
        self._cells = {cell: index for index, cell in enumerate(cells)}
        self._log = log
        low, high = (min(finite), max(finite)) if finite else (1.0, 1.0)
        ticks = _decades(low, high) if log else number_ticks(low, high, 4)
        self._ticks = ticks if finite else []
        self._low, self._high = self._scaled(low), self._scaled(high)
        self._left = width_of([text for _, text in self._ticks]) + 8
        self._right = width - width_of(names) - 10
        self._bottom = height - _BOTTOM
        self._ends: list[tuple[float, str, str]] = []

    def _scaled(self, y: float) -> float:
        # Halves, because the difference of two doubles may overflow.
        return math.log10(y) if self._log else y / 2

    def _x(self, place: int) -> float:
        last = len(self._cells) - 1
        part = place / last if last else 0.5
        return round(self._left + 6 + part * (self._right - self._left - 12), 1)

    def _y(self, y: float) -> float:
        span = self._high - self._low
        part = (self._scaled(y) - self._low) / span if span else 0.5
        return round(self._bottom - 6 - part * (self._bottom - _TOP - 10), 1)

    # --- axes ---

    def axes(self) -> str:
        """The numbers at the left, the cells' labels below."""
        labels = [label for label, _ in self._cells]
        room = max(1, (self._right - self._left) // (width_of(labels) + 10))
        places = self._places(labels, room)
        rows = ((self._y(y), text) for y, text in self._ticks)
        columns = ((self._x(place), escape(labels[place])) for place in places)
        return axes_svg(self._left, self._right, self._bottom, rows, columns)

    @staticmethod
    def _places(labels: Sequence[str], room: int) -> Sequence[int]:
        """Which cells have a label; if these are numbers, round ones."""
        if all(map(str.isdecimal, labels)) and labels:
            indices = np.array(list(map(int, labels)))
            return [place for place, _ in index_ticks(indices, min(room, _MOST_PLACES))]
        return range(0, len(labels), max(1, -(-len(labels) // room)))

    # --- lines ---

    def line(self, index: int, name: str, points: Mapping[Cell, float | None]) -> str:
        """Line number `index`: its colour and dashes, dots where there is room, signs for NaN and Inf."""
        colour = LINES[index % len(LINES)]
        # Another round of colours begins with other dashes, so 36 lines can be distinguished.
        dash = _DASHES[(index + index // len(LINES)) % len(_DASHES)]
        path, marks, joined = "", "", False
        for cell, place in self._cells.items():
            y = points.get(cell)
            usable = y is not None and math.isfinite(y)
            if y is not None and usable:
                x, height = self._x(place), self._y(y)
                path += f"{'L' if joined else 'M'}{x:g} {height:g}"
                marks += self._dot(x, height, f"{name} {cell[0]}: {number(y)}")
            elif y is not None:
                marks += self._edge(place, y, f"{name} {cell[0]}: {number(y)}")
            joined = usable
        if path:
            self._ends.append((height, name, colour))
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        return (
            f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.6"{dashes}/>'
            f'<g fill="{colour}">{marks}</g>'
        )

    def _dot(self, x: float, y: float, said: str) -> str:
        if len(self._cells) > _MOST_DOTS:
            return ""
        return f'<circle cx="{x:g}" cy="{y:g}" r="2.2"><title>{escape(said)}</title></circle>'

    def _edge(self, place: int, y: float, said: str) -> str:
        """A sign at the upper or lower edge for NaN and infinities."""
        sign = _CROSS if math.isnan(y) else _UP if y > 0 else _DOWN
        height = _TOP + 4 if sign == _UP else self._bottom - 1
        return (
            f'<text x="{self._x(place):g}" y="{height}" text-anchor="middle" font-size="12"'
            f' font-weight="bold">{sign}<title>{escape(said)}</title></text> '
        )

    def names(self) -> str:
        """The names at the ends of the lines drawn so far, moved apart where lines end at the same height."""
        self._ends.sort()
        heights = [y for y, _, _ in self._ends]
        for i in range(1, len(heights)):
            heights[i] = max(heights[i], heights[i - 1] + _LINE)
        lowest = float(self._bottom - 4)
        for i in reversed(range(len(heights))):  # back up, from below the axis
            heights[i] = min(heights[i], lowest)
            lowest = heights[i] - _LINE
        return "".join(
            f'<text x="{self._right + 4}" y="{height + 3.5:g}" fill="{colour}">{name}</text> '
            for height, (_, name, colour) in zip(heights, self._ends, strict=True)
        )


def _decades(low: float, high: float) -> list[tuple[float, str]]:
    """At most six powers of ten between `low` and `high`, which are more than two apart."""
    first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
    step = max(1, -(-(last - first + 1) // 6))
    powers = [float(f"1e{power}") for power in range(first, last + 1, step)]
    return [(power, number(power)) for power in powers]
