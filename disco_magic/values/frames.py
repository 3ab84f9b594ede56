"""Data frames of pandas and polars, their columns, and what is known without reading these.

Only for the libraries' own classes: derived ones may have properties of the user's.
"""

from __future__ import annotations

import sys
from typing import Any, Final

import numpy as np

from disco_magic.values.kinds import home_of, type_name

_LIBRARIES: Final = ("pandas", "polars")
_LINE: Final = 60
_CHANGING: Final = "another thread is changing the data frame"
COLUMN: Final = "column"
"""The name of a column's type."""


class Column:
    """A column of a data frame, a Series without its labels, or an index without its name.

    Attributes:
        dtype: as text; None if it is unknown.
        values: the elements: of pandas an array, NumPy's or one of its own; of polars a Series.
        length: how many there are.
    """

    __slots__ = ("dtype", "length", "values")

    def __init__(self, dtype: str | None, values: Any, length: int) -> None:
        self.dtype = dtype
        self.values = values
        self.length = length

    def series(self) -> Any:
        """Return the column as its library's Series."""
        if home_of(type(self.values)) == "polars":
            return self.values
        return sys.modules["pandas"].Series(self.values, dtype=self.values.dtype, copy=False)


def is_frame(kind: type) -> bool:
    """Whether this is the DataFrame class of pandas or polars itself, and none derived from it."""
    return _is_own(kind, "DataFrame")


def is_series(kind: type) -> bool:
    """Whether this is the Series class of pandas or polars itself, and none derived from it."""
    return _is_own(kind, "Series")


def is_labelled(kind: type) -> bool:
    """Whether this is an array of xarray: NumPy reads it without its dimensions' names and coordinates."""
    return home_of(kind) == "xarray" and hasattr(kind, "to_numpy")


def is_index(kind: type) -> bool:
    """Whether this is a class of indices of pandas itself, and none derived from it."""
    pandas = sys.modules.get("pandas") if home_of(kind) == "pandas" else None
    return pandas is not None and issubclass(kind, pandas.Index)


def is_table(kind: type) -> bool:
    """Whether this is any of these classes."""
    return home_of(kind) in _LIBRARIES and (is_frame(kind) or is_series(kind) or is_index(kind))


def _is_own(kind: type, name: str) -> bool:
    library = home_of(kind)
    return library in _LIBRARIES and getattr(sys.modules.get(library), name, None) is kind


def columns_of(frame: Any) -> list[tuple[Any, Column]]:
    """Label and `Column` for each column; about 50 us."""
    rows = frame.shape[0]
    if home_of(type(frame)) == "polars":
        held = [(label, frame[:, place]) for place, label in enumerate(frame.columns)]
    else:
        try:
            held = _held_by_pandas(frame, rows)
        except AttributeError as reason:
            raise RuntimeError(str(reason)) from None
    return [(label, Column(_dtype(values.dtype), values, rows)) for label, values in held]


def _held_by_pandas(frame: Any, rows: int) -> list[tuple[Any, Any]]:
    """Label and array of each column, from the blocks in which pandas keeps them.

    Not through its own methods: these rebuild, without checking bounds, a map of the blocks, which another
    thread may just be replacing. On CPython 3.11 with pandas 3.1 that overwrote memory.
    """
    manager = frame._mgr  # noqa: SLF001 - see above
    labels, blocks = list(manager.axes[0]), manager.blocks
    found: list[Any] = [None] * len(labels)
    for block in blocks:
        values, places = block.values, block.mgr_locs.as_array.tolist()
        if values.shape[-1] != rows or (values.ndim > 1 and len(values) != len(places)):
            raise RuntimeError(_CHANGING)
        for row, place in enumerate(places):
            if place >= len(found) or found[place] is not None:
                raise RuntimeError(_CHANGING)
            found[place] = values[row] if values.ndim > 1 else values
    if any(each is None for each in found):
        raise RuntimeError(_CHANGING)
    return list(zip(labels, found, strict=True))


def column_of(series: Any) -> Column:
    """A Series, or an index with one level, as a column."""
    is_own = home_of(type(series)) == "polars"
    values = series if is_own else array_behind(series)
    return Column(_dtype(series.dtype), values, series.shape[0])


def array_of_column(column: Column) -> Any | None:
    """The elements of a column of numbers, in pandas also of NumPy's times, as its library returns them.

    None for any other, including one of polars with missing values: nothing of these is read.
    """
    try:
        values = column.values
        if home_of(type(values)) == "polars":
            numbers = values.dtype.is_numeric() and str(values.dtype.base_type()) != "Decimal"
            return values.to_numpy() if numbers and not values.null_count() else None
        plain = home_of(type(values.dtype)) == "numpy" and values.dtype.kind != "O"
        return np.asarray(values) if plain else None
    except Exception:  # noqa: BLE001 - what another version of a library refuses is not read
        return None


def array_behind(values: Any) -> Any:
    """The array of a Series or an index of pandas: NumPy's, where it has one."""
    return values.to_numpy() if home_of(type(values.dtype)) == "numpy" else values.array


def levels_of(index: Any) -> list[Any]:
    """The labels of each level of an index, as an index with one."""
    return [index.get_level_values(number) for number in range(index.nlevels)]


def columns_text(frame: Any) -> str:
    """``a int64, b object``: the first columns, as many as fill a line of a table."""
    text = ""
    for label, column in columns_of(frame):
        if len(text) > _LINE:
            break
        name = label if type(label) is str else repr(label) if type(label) is int else type_name(type(label))
        text += f"{', ' if text else ''}{name} {column.dtype}"
    return text


def nbytes_of_frame(frame: Any) -> int:
    """Bytes of a frame's columns, those of references for objects; about 5 us."""
    if home_of(type(frame)) == "polars":
        return int(frame.estimated_size())
    return sum(int(block.values.nbytes) for block in frame._mgr.blocks)  # noqa: SLF001 - as above


def _dtype(dtype: Any) -> str | None:
    """The name of a column's dtype; if it is one of the user's, of its type."""
    kind = type(dtype)  # those of polars are classes as well as instances
    known = home_of(dtype if issubclass(kind, type) else kind) in ("numpy", *_LIBRARIES)
    return str(dtype) if known else type_name(kind)
