"""NaN and infinities as patterns over a heat map, which do not depend on colours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from disco_magic.notebook.pictures.colours import INK, PAINT, PAPER, SEQUENTIAL

if TYPE_CHECKING:
    from disco_magic.notebook.pictures.png import Bytes
    from disco_magic.values.pictures import Floats

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
