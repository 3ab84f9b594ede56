"""The memory layout of the arrays of one fold: rows of contiguous elements, with a pitch per array."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Rows(NamedTuple):
    """Arrays of one shape, each as `rows` rows of `inner` contiguous elements.

    Attributes:
        rows: 1 if all arrays are contiguous.
        inner: elements per row.
        pitches: bytes from row to row, per array.
    """

    rows: int
    inner: int
    pitches: tuple[int, ...]


def rows_of(arrays: Sequence[Any]) -> Rows | None:
    """`arrays`, all of one shape, as rows; None if one pitch per array does not describe them.

    Contiguous arrays are one row. Views of contiguous arrays that were cut along one axis can always be laid
    out, also together with contiguous arrays. Other views only by chance: copy them first.

    Args:
        arrays: at least one, of any kind that has `shape`, `strides` (in bytes) and `itemsize`; none empty.
    """
    strides = tuple([array.strides for array in arrays])
    return _rows(arrays[0].shape, strides, tuple([array.itemsize for array in arrays]))


# Cached, because a program calls its collectives with the same shapes again and again: a hit takes 1 us.
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
    """Length and strides of the axes; neighbouring axes are merged where they form one in every array."""
    axes: list[tuple[int, tuple[int, ...]]] = []
    for length, steps in zip(shape, zip(*strides, strict=True), strict=True):
        if length == 1:
            continue
        if axes and axes[-1][1] == tuple(length * step for step in steps):
            axes[-1] = (axes[-1][0] * length, steps)
        else:
            axes.append((length, steps))
    return axes
