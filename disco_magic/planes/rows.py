"""How the arrays of one fold lie in memory: rows of neighbouring elements, each array at its own pitch."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Rows(NamedTuple):
    """Arrays of one shape, each as `rows` rows of `inner` neighbouring elements.

    Attributes:
        rows: 1 if all arrays are contiguous.
        inner: elements per row.
        pitches: bytes from row to row, per array.
    """

    rows: int
    inner: int
    pitches: tuple[int, ...]


def rows_of(arrays: Sequence[Any]) -> Rows | None:
    """`arrays`, all of one shape, as rows, or None where that takes more than one pitch per array.

    Contiguous arrays are one row. Views of contiguous arrays that were cut along one axis can always be laid
    out, with or without contiguous ones beside them; other views only by chance: copy them first.

    Args:
        arrays: at least one, of any kind that has `shape`, `strides` (in bytes) and `itemsize`; none empty.
    """
    strides = tuple([array.strides for array in arrays])
    return _rows(arrays[0].shape, strides, tuple([array.itemsize for array in arrays]))


# A program calls its collectives with the same shapes again and again: this is looked up in a microsecond.
@lru_cache(maxsize=1024)
def _rows(
    shape: tuple[int, ...], strides: tuple[tuple[int, ...], ...], sizes: tuple[int, ...]
) -> Rows | None:
    axes = _merged(shape, strides)
    inner = axes.pop()[0] if axes and axes[-1][1] == sizes else 1
    if len(axes) > 1:
        return None
    length, pitches = axes[0] if axes else (1, (0,) * len(sizes))
    return Rows(length, inner, pitches)


def _merged(
    shape: tuple[int, ...], strides: tuple[tuple[int, ...], ...]
) -> list[tuple[int, tuple[int, ...]]]:
    """Length and strides of the axes, neighbours taken together where they are one axis in every array."""
    axes: list[tuple[int, tuple[int, ...]]] = []
    for length, steps in zip(shape, zip(*strides, strict=True), strict=True):
        if length == 1:
            continue
        if axes and axes[-1][1] == tuple(length * step for step in steps):
            axes[-1] = (axes[-1][0] * length, steps)
        else:
            axes.append((length, steps))
    return axes
