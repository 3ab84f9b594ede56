"""Maps numbers to palette entries: the scale of a colour bar, and patterns for NaN and infinities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from disco_magic.notebook.pictures.colours import (
    DIFFERENCE,
    DIVERGING,
    INK,
    LEVELS,
    PAINT,
    PAPER,
    SEQUENTIAL,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from disco_magic.notebook.pictures.png import Bytes
    from disco_magic.values.pictures import Floats, Picture

Limits: TypeAlias = tuple[float, float]


def common_limits(pictures: Iterable[Picture]) -> Limits | None:
    """The smallest and the largest finite value of all pictures; None if there is none."""
    finite = [each.values[np.isfinite(each.values)] for each in pictures]
    together = np.concatenate([np.empty(0), *finite])
    if not together.size:
        return None
    return float(together.min()), float(together.max())


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values between `low` and `high` to entries of `palette`.

    With `zero_apart` the first entry is for exact zeros only, so that the smallest difference is visible.
    """

    low: float
    high: float
    palette: Bytes
    zero_apart: bool = False

    @classmethod
    def of(cls, limits: Limits | None, *, symmetric: bool = False) -> Scale:
        """The scale between `limits`; around zero, in two colours, if it is symmetric."""
        low, high = limits or (0.0, 0.0)
        if not symmetric:
            return cls(low, high, SEQUENTIAL)
        furthest = max(abs(low), abs(high))
        return cls(-furthest, furthest, DIVERGING)

    @classmethod
    def of_differences(cls, largest: float) -> Scale:
        """The scale of distances between 0 and `largest`."""
        return cls(0.0, largest, DIFFERENCE, zero_apart=True)

    @property
    def middle(self) -> float:
        """The middle between `low` and `high`, without overflow."""
        return self.low / 2 + self.high / 2

    def levels(self, values: Floats) -> Bytes:
        """Entries of the map, in the shape of `values`; the middle one if all are equal; any for NaN."""
        # Halves, because the difference of two doubles may overflow.
        low, span = self.low / 2, self.high / 2 - self.low / 2
        if not span:  # also for values so small that their halves are equal
            levels = np.full(values.shape, LEVELS // 2, np.uint8)
        else:
            with np.errstate(invalid="ignore", over="ignore"):
                part = np.clip(np.nan_to_num((values / 2 - low) / span), 0, 1)
            levels = np.rint(part * (LEVELS - 1)).astype(np.uint8)
        return np.where(values == 0, 0, np.maximum(levels, 1)).astype(np.uint8) if self.zero_apart else levels

    def pixels(self, values: Floats) -> Bytes:
        """Entries of the palette, in the shape of `values`; `PAINT` for values that are not finite."""
        pixels = self.levels(values)
        pixels[~np.isfinite(values)] = PAINT
        return pixels


_CLEAR, _INK, _PAPER, _PAINT = range(4)
PALETTE: Final = np.zeros((4, 4), np.uint8)
PALETTE[[_INK, _PAPER, _PAINT], :3] = SEQUENTIAL[[INK, PAPER, PAINT]]
PALETTE[[_INK, _PAPER, _PAINT], 3] = 255

# An element as 2 x 2 pixels: a checkerboard, the upper half, the lower half.
_NAN: Final = ((_PAINT, _PAPER), (_PAPER, _PAINT))
_PLUS: Final = ((_PAINT, _PAINT), (_INK, _INK))
_MINUS: Final = ((_INK, _INK), (_PAINT, _PAINT))


def patterns(values: Floats) -> Bytes | None:
    """Entries of `PALETTE`, uint8 `(2 r, 2 c)` for `values` `(r, c)`; None if all values are finite."""
    if np.isfinite(values).all():
        return None
    rows, columns = values.shape
    pixels = np.full((2 * rows, 2 * columns), _CLEAR, np.uint8)
    tiles = ((np.isnan(values), _NAN), (np.isposinf(values), _PLUS), (np.isneginf(values), _MINUS))
    for where, tile in tiles:
        for y, line in enumerate(tile):
            for x, entry in enumerate(line):
                pixels[y::2, x::2][where] = entry
    return pixels
