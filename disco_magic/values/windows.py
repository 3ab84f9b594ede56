"""Windows: which two-dimensional part of an array is looked at."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

from disco_magic.errors import NoPicture

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

Shape = tuple[int, ...]
Span = tuple[int, int]
T = TypeVar("T")


class Cut(NamedTuple):
    """A window that was fitted to a shape.

    Attributes:
        shape: of the whole array.
        axes: (row axis, column axis); of an array with one axis only the column axis, of one without axes ().
        rows, columns: indices along these axes; ``range(1)`` where there is no such axis.
        fixed: index along each other axis, in their order.
    """

    shape: Shape
    axes: tuple[int, ...]
    rows: range
    columns: range
    fixed: tuple[int, ...]

    @property
    def extents(self) -> tuple[int, int]:
        """How many rows and columns there are to choose from; 1 where there is no such axis."""
        axes, shape = self.axes, self.shape
        return shape[axes[0]] if len(axes) == 2 else 1, shape[axes[-1]] if axes else 1

    def in_order(self, for_rows: T, for_columns: T) -> list[T]:
        """What is given for rows and columns, in the order of the array's axes; it may have fewer."""
        given = (for_rows, for_columns)[2 - len(self.axes) :]
        return [each for _, each in sorted(zip(self.axes, given, strict=True), key=operator.itemgetter(0))]

    def to(self, rows: slice, columns: slice) -> tuple[int | slice, ...]:
        """The index that selects some rows and columns of the array; `arranged` gives the result two axes."""
        kept, others = iter(self.in_order(rows, columns)), iter(self.fixed)
        return tuple(next(kept) if axis in self.axes else next(others) for axis in range(len(self.shape)))

    def arranged(self, part: Array) -> Array:
        """Return what `to` has selected, or some lines of it, as rows and columns."""
        if part.ndim == 2:
            return part.T if self.axes[0] > self.axes[1] else part
        return part.reshape(1, -1)


@dataclass(frozen=True, slots=True)
class Window:
    """A two-dimensional part of an array; fields that are None follow from the array's shape.

    Attributes:
        rows, columns: (start, stop) along the two axes; None: all.
        axes: (row axis, column axis), counted from 0; None: the last two. An array with one axis is one row,
            its `axes` are ``(0,)``; one without axes is a single element, its `axes` are ``()``.
        fixed: the index along each other axis, in their order; None: zeros.
    """

    rows: Span | None = None
    columns: Span | None = None
    axes: tuple[int, ...] | None = None
    fixed: tuple[int, ...] | None = None

    @classmethod
    def of(cls, shape: Shape) -> Window:
        """All of the last two axes, at index 0 of the others."""
        axes = tuple(range(len(shape)))[-2:]
        return cls(None, None, axes, (0,) * (len(shape) - len(axes)))

    def fit(self, shape: Shape) -> Cut:
        """Return the part of an array of `shape`, all of whose axes have elements.

        Raises:
            NoPicture: there is no such part.
        """
        axes = _axes(self.axes, shape)
        rows = _span("rows", self.rows, shape[axes[0]] if len(axes) == 2 else 1, shape)
        columns = _span("columns", self.columns, shape[axes[-1]] if axes else 1, shape)
        return Cut(shape, axes, rows, columns, _fixed(self.fixed, axes, shape))


def _axes(given: Any, shape: Shape) -> tuple[int, ...]:
    all_axes = tuple(range(len(shape)))
    if given is None:
        return all_axes[-2:]
    axes = _whole_numbers(given)
    if axes is None or len(set(axes) & set(all_axes)) != len(axes) or len(axes) != len(all_axes[-2:]):
        _refuse("axes", given, shape, f"{len(all_axes[-2:])} of the axes {all_axes}")
    return axes


def _fixed(given: Any, axes: tuple[int, ...], shape: Shape) -> tuple[int, ...]:
    lengths = tuple(length for axis, length in enumerate(shape) if axis not in axes)
    fixed = (0,) * len(lengths) if given is None else _whole_numbers(given)
    if (
        fixed is None
        or len(fixed) != len(lengths)
        or not all(map(operator.contains, map(range, lengths), fixed))
    ):
        _refuse("fixed", given, shape, f"an index for each of {len(lengths)} further axes, below {lengths}")
    return fixed


def _span(what: str, given: Any, length: int, shape: Shape) -> range:
    span = (0, length) if given is None else _whole_numbers(given)
    if span is None or len(span) != 2 or not 0 <= span[0] < span[1] <= length:
        _refuse(what, given, shape, f"(start, stop) with 0 <= start < stop <= {length}")
    return range(*span)


def _whole_numbers(given: Any) -> tuple[int, ...] | None:
    try:
        return tuple(map(operator.index, given))
    except TypeError:
        return None


def _refuse(what: str, given: Any, shape: Shape, expected: str) -> NoReturn:
    raise NoPicture(f"the window does not fit into shape {shape}: {what} expected {expected}, got {given!r}")
