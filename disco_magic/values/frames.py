"""Data frames of pandas and polars, their columns, and what is known without reading these.

Only for the libraries' own classes: derived ones may have properties of the user's.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from disco_magic.values.kinds import home_of, type_name

_LIBRARIES: Final = ("pandas", "polars")
_LINE: Final = 60
COLUMN: Final = "column"
"""The name of a column's type."""


class Column:
    """A column of a data frame, a Series without its labels, or an index without its name.

    Attributes:
        dtype: as text; None if it is unknown.
        frame, place: the frame, and the column's position in it; or the Series or index itself.
    """

    __slots__ = ("dtype", "frame", "place")

    def __init__(self, dtype: str | None, frame: Any, place: int = 0) -> None:
        self.dtype = dtype
        self.frame = frame
        self.place = place

    def series(self) -> Any:
        """Return the column as its library's Series."""
        if not is_frame(type(self.frame)):
            return self.frame
        own = home_of(type(self.frame)) == "pandas"
        return self.frame.iloc[:, self.place] if own else self.frame[:, self.place]


def is_frame(kind: type) -> bool:
    """Whether this is the DataFrame class of pandas or polars itself, and none derived from it."""
    return _is_own(kind, "DataFrame")


def is_series(kind: type) -> bool:
    """Whether this is the Series class of pandas or polars itself, and none derived from it."""
    return _is_own(kind, "Series")


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
    return [
        (label, Column(_dtype(dtype), frame, place))
        for place, (label, dtype) in enumerate(zip(frame.columns, frame.dtypes, strict=True))
    ]


def column_of(series: Any) -> Column:
    """A Series, or an index with one level, as a column."""
    return Column(_dtype(series.dtype), series)


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
    """Bytes of a frame's columns, those of references for objects; about 50 us."""
    if home_of(type(frame)) == "polars":
        return int(frame.estimated_size())
    return int(sum(frame.memory_usage(index=False)))


def _dtype(dtype: Any) -> str | None:
    """The name of a column's dtype; if it is one of the user's, of its type."""
    kind = type(dtype)  # those of polars are classes as well as instances
    known = home_of(dtype if issubclass(kind, type) else kind) in ("numpy", *_LIBRARIES)
    return str(dtype) if known else type_name(kind)
