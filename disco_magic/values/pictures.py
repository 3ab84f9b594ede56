"""A two-dimensional part of an array as a small grid of numbers or as text, and histograms of elements."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.errors import NoPicture, UsageMistake
from disco_magic.phrases import class_name
from disco_magic.values.elements import check_count, elements_of, plane_of
from disco_magic.values.samples import SAMPLE, is_number, summaries
from disco_magic.values.table_blocks import cells_of, is_tabular, table_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.values.elements import Array, Elements
    from disco_magic.values.windows import Cut, Shape, Window

    Floats = np.ndarray[Any, np.dtype[np.float64]]
    Indices = np.ndarray[Any, np.dtype[np.int64]]
    Ends = tuple[()] | tuple[float, float]

BINS: Final = 32
"""Bins of a histogram, unless others are asked for."""
_CELL: Final = 24


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """A two-dimensional part of an array as numbers.

    Attributes:
        values: float64 `(r, c)`; NaN and infinite ones are kept. Complex numbers by their magnitude.
        rows, columns: int64 `(r,)` and `(c,)`, ascending: the array's index that each line shows.
        shape: of the whole array.
        extents: how many rows and columns there are along the two axes.
        what: the element type, ``"float32"``; ``"|complex64|"`` where magnitudes are shown.
        thinned: whether lines were left out.
    """

    values: Floats
    rows: Indices
    columns: Indices
    shape: Shape
    extents: tuple[int, int]
    what: str
    thinned: bool


@dataclass(frozen=True, slots=True)
class Block:
    """A two-dimensional part of an array as exact text.

    Attributes:
        cells: rows of text.
        rows, columns: the array's indices that they show.
        shape: of the whole array.
        extents: how many rows and columns there are along the two axes.
        row_labels, column_labels: a table's labels of these; () if it has none but their indices.
    """

    cells: tuple[tuple[str, ...], ...]
    rows: range
    columns: range
    shape: Shape
    extents: tuple[int, int]
    row_labels: tuple[str, ...] = ()
    column_labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Histogram:
    """The distribution of an array's values.

    Attributes:
        edges: `(k + 1,)`, ascending, equidistant; () without finite elements.
        counts: `(k,)`, of the finite elements; one on an edge is in the bin above it (or, rounded to float32,
            perhaps in the one below), the largest
            in the last.
        nans, infs: how many elements are NaN, and infinite.
        sampled: whether only a part of the elements was counted.
        size: elements of the whole array.
        ends: the smallest and the largest finite element; () if there is none.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    nans: int
    infs: int
    sampled: bool
    size: int
    ends: Ends = ()


def picture_of(value: Any, window: Window, limit: int = 128) -> Picture:
    """Return a part of an array as few numbers; of many lines some, evenly spread, with first and last.

    Args:
        value: an array of numbers, of NumPy, CuPy, PyTorch or JAX.
        window: the part; ``Window()`` is the default of any shape.
        limit: maximum number of rows, and of columns.

    Raises:
        NoPicture: it is no array of numbers, it has no elements, or the window does not fit into it.

    Cost: a copy of `limit` lines at most.
    """
    limit = check_count("limit", limit)
    elements = elements_to_show(value)
    cut = window.fit(elements.shape)
    (rows, some_rows), (columns, some_columns) = _spread(cut.rows, limit), _spread(cut.columns, limit)
    index = cut.to(_reach(cut.rows, some_rows), _reach(cut.columns, some_columns))
    part = cut.arranged(elements.lines(index, cut.in_order(some_rows, some_columns)))
    values = as_numbers(part, elements.name)
    what = f"|{elements.name}|" if part.dtype.kind == "c" else elements.name
    thinned = some_rows is not None or some_columns is not None
    return Picture(values, rows, columns, elements.shape, cut.extents, what, thinned)


def _spread(span: range, limit: int) -> tuple[Indices, list[int] | None]:
    """At most `limit` numbers of `span`, including both ends; also as a list if that leaves some out."""
    if len(span) <= limit:
        return np.arange(span.start, span.stop), None
    parts = max(limit - 1, 1)
    chosen = span.start + (np.arange(limit) * (len(span) - 1) + parts // 2) // parts
    return chosen, chosen.tolist()


def _reach(span: range, chosen: list[int] | None) -> slice:
    return slice(span.start, span.stop) if chosen is None else slice(None)


def block_of(value: Any, window: Window, limit: tuple[int, int] = (16, 10)) -> Block:
    """Return the first elements of a part of an array as text: as NumPy writes each, 24 characters at most.

    Args:
        value: an array of any element type, a table of pandas or polars, or a column of one; objects are
            shown by the names of their types.
        window: the part.
        limit: maximum number of rows, and of columns.

    Raises:
        NoPicture: it is no array, it has no elements, or the window does not fit into it.
    """
    height, width = (check_count("limit", each) for each in limit)
    elements = None if is_tabular(value) else elements_of(value)
    shape = table_shape(value) if elements is None else elements.shape
    _check_filled(shape)
    cut = window.fit(shape)
    rows, columns = cut.rows[:height], cut.columns[:width]
    if elements is None:
        return _block_of_table(value, cut, rows, columns)
    part = plane_of(elements, cut, rows, columns)
    cells = tuple(tuple(text_of(element, part.dtype) for element in row) for row in part)
    return Block(cells, rows, columns, elements.shape, cut.extents)


def _block_of_table(table: Any, cut: Cut, rows: range, columns: range) -> Block:
    # A table with one axis is one row, as an array is.
    is_upright = len(cut.axes) == 2 and cut.axes[0] < cut.axes[1]
    found = cells_of(table, *((rows, columns) if is_upright else (columns, rows)))
    lines = zip(*found.columns, strict=True) if is_upright else found.columns
    cells = tuple(tuple(map(_cut_short, line)) for line in lines)
    labels = [tuple(map(_cut_short, each)) for each in (found.row_labels, found.column_labels)]
    down, across = labels if is_upright else labels[::-1]
    return Block(cells, rows, columns, cut.shape, cut.extents, down, across)


def text_of(element: Any, dtype: np.dtype[Any]) -> str:
    """Return an element of an array of `dtype` in at most 24 characters; runs no code of objects."""
    if dtype.kind in "SUT":
        text = repr(element.item() if dtype.kind != "T" else element)
    elif dtype.hasobject:
        text = class_name(element) if dtype.kind == "O" else "objects"
    else:
        text = str(element)
    return _cut_short(text)


def _cut_short(text: str) -> str:
    return text if len(text) <= _CELL else f"{text[: _CELL - 1]}\u2026"


def histogram_of(value: Any, bins: int = BINS, sample: int = SAMPLE, between: Ends = ()) -> Histogram:
    """Return the distribution of at most `sample` elements, evenly spread over the array.

    Args:
        value: an array of numbers, of NumPy, CuPy, PyTorch or JAX. Complex ones count by magnitude.
        bins: at most 1,000.
        sample: at least 1.
        between: where the first bin begins and the last one ends, so that several arrays have the same bins;
            elements beyond are in the nearest. (): from the smallest element to the largest.

    Raises:
        NoPicture: it is no array of numbers.
    """
    if check_count("bins", bins) > 1000:
        raise UsageMistake(f"bins is {bins}, expected at most 1,000")
    elements = elements_of(value)
    seen = numbers(elements.sample(check_count("sample", sample)), elements.name)
    (told,) = summaries([seen], bins)
    size = math.prod(elements.shape)
    ends: Ends = () if told.minimum is None or told.maximum is None else (told.minimum, told.maximum)
    limits = between or ends
    edges = _edges(*limits, bins) if limits else ()
    counts = _counts(as_numbers(seen, elements.name), edges) if between else told.histogram
    return Histogram(edges, counts, told.nans, told.infs, seen.size < size, size, ends)


def _counts(values: Floats, edges: Sequence[float]) -> tuple[int, ...]:
    # By the edges themselves: the width of a bin may be more, or less, than a float holds.
    bins = len(edges) - 1
    places = np.searchsorted(edges, values[np.isfinite(values)], side="right") - 1
    return tuple(np.bincount(np.clip(places, 0, bins - 1), minlength=bins).tolist())


def shared_ends(histograms: Sequence[Histogram]) -> Ends:
    """Where bins for all these arrays begin and end; () without a finite element, or with equal bins."""
    if len({each.edges for each in histograms}) < 2:
        return ()
    lows, highs = zip(*(each.ends for each in histograms if each.ends), strict=True)
    return min(lows), max(highs)


def _edges(low: float, high: float, bins: int) -> tuple[float, ...]:
    if low == high:  # all are in the bin in the middle
        half = max(0.5, abs(low) / 2**20)
        low, high = low - half, low + half
    # Not by their difference, which may be more than a float holds.
    return tuple(low * (1 - place / bins) + high * (place / bins) for place in range(bins + 1))


def elements_to_show(value: Any) -> Elements:
    """Return the elements of an array that is not empty."""
    elements = elements_of(value)
    _check_filled(elements.shape)
    return elements


def _check_filled(shape: Shape) -> None:
    if 0 in shape:
        raise NoPicture(f"an array of shape {shape} has no elements")


def numbers(part: Array, name: str) -> Array:
    """Return `part`, whose elements have to be numbers."""
    if not is_number(part.dtype):
        raise NoPicture(f"elements of type {name} are not numbers")
    return part


def as_numbers(part: Array, name: str) -> Floats:
    """Return `part` as float64, complex numbers by their magnitude; a copy."""
    with np.errstate(all="ignore"):
        magnitudes = np.abs(part) if part.dtype.kind == "c" else numbers(part, name)
        return magnitudes.astype(np.float64)
