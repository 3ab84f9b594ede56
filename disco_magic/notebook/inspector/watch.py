"""Watched registers: statistics after every cell, with a line per worker."""

from __future__ import annotations

import math
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from disco_magic.values.parts import split

if TYPE_CHECKING:
    from collections.abc import Iterable

    from disco_magic.core.snapshot import RegisterInfo

KEPT: Final = 200
"""Points per register and worker; the oldest go first."""

_NAN: Final = "NaN count"
MEASURES: Final = ("mean", "minimum", "maximum", _NAN)
PLAIN: Final = ("int", "float")


@dataclass
class Watch:
    """The history of the watched registers."""

    names: set[str] = field(default_factory=set)
    points: dict[str, deque[tuple[str, tuple[RegisterInfo | None, ...]]]] = field(default_factory=dict)

    def add(self, name: str) -> None:
        """Watch `name`; its earlier points are kept."""
        self.names.add(name)
        self.points.setdefault(name, deque(maxlen=KEPT))

    def remove(self, name: str) -> None:
        """Watch `name` no longer, and drop its points."""
        self.names.discard(name)
        self.points.pop(name, None)

    def rename(self, name: str, new: str) -> None:
        """If `name` or a part of it is watched, watch it under the new name and keep its points."""
        for watched in [each for each in self.names if split(each)[0] == name]:
            called = new + watched.removeprefix(name)
            self.names.discard(watched)
            self.names.add(called)
            self.points[called] = self.points.pop(watched)

    def note(self, name: str, label: str, cells: Iterable[RegisterInfo | None]) -> None:
        """Add a point for `name` after the cell `label`; does nothing if it is not watched any more.

        IPython takes clicks for cells too, so an unchanged state adds no point.
        """
        seen, point = self.points.get(name), (label, tuple(cells))
        if seen is not None and (not seen or seen[-1] != point):
            seen.append(point)

    def lines(self, name: str, measure: str) -> dict[int, list[tuple[str, float | None]]]:
        """Worker -> points ``(label, number)``; None where there was no value or no statistics."""
        seen = list(self.points.get(name, ()))
        count = max((len(cells) for _, cells in seen), default=0)
        return {
            worker: [
                (label, _number(cells[worker] if worker < len(cells) else None, measure))
                for label, cells in seen
            ]
            for worker in range(count)
        }


def _number(info: RegisterInfo | None, measure: str) -> float | None:
    if info is None:
        return None
    if info.type in PLAIN:
        with suppress(ValueError):  # a large int, which is cut
            number = float(info.text)
            return float(math.isnan(number)) if measure == _NAN else number
    if measure == _NAN:
        return None if info.nans is None else float(info.nans)
    found: float | None = getattr(info, measure)
    return found
