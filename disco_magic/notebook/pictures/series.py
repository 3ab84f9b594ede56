"""Numbers of several workers over cells, merged onto one axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from disco_magic.notebook.pictures.axes import number
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
