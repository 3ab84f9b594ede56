"""Data frames of pandas and polars: what can be said of them without looking into their columns, and these.

Of the libraries' own classes only: one derived from them may have properties of the user's.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from disco_magic.values.kinds import home_of, type_name

_LIBRARIES: Final = ("pandas", "polars")
_LINE: Final = 60
COLUMN: Final = "column"
"""What the type of a column is called."""


class Column:
    """A column of a data frame, or a Series without its labels.

    Attributes:
        dtype: as text, or None where that cannot be said.
        frame, place: where it is: in a frame at that place; the Series itself.
    """

    __slots__ = ("dtype", "frame", "place")

    def __init__(self, dtype: str | None, frame: Any, place: int = 0) -> None:
        self.dtype = dtype
        self.frame = frame
        self.place = place

    def series(self) -> Any:
        """The column as its library has it."""
        if not is_frame(type(self.frame)):
            return self.frame
        own = home_of(type(self.frame)) == "pandas"
        return self.frame.iloc[:, self.place] if own else self.frame[:, self.place]


def is_frame(kind: type) -> bool:
    """Whether this is the DataFrame of pandas or of polars itself, and no class derived from it."""
    return _is_own(kind, "DataFrame")


def is_series(kind: type) -> bool:
    """Likewise their Series."""
    return _is_own(kind, "Series")


def _is_own(kind: type, name: str) -> bool:
    library = home_of(kind)
    return library in _LIBRARIES and getattr(sys.modules.get(library), name, None) is kind


def columns_of(frame: Any) -> list[tuple[Any, Column]]:
    """Label and dtype of each column; about 50 us."""
    return [
        (label, Column(_dtype(dtype), frame, place))
        for place, (label, dtype) in enumerate(zip(frame.columns, frame.dtypes, strict=True))
    ]


def column_of(series: Any) -> Column:
    """A Series as the one column that it is."""
    return Column(_dtype(series.dtype), series)


def columns_text(frame: Any) -> str:
    """``a int64, b object``: the first columns, which fill a table's line."""
    text = ""
    for label, column in columns_of(frame):
        if len(text) > _LINE:
            break
        name = label if type(label) is str else repr(label) if type(label) is int else type_name(type(label))
        text += f"{', ' if text else ''}{name} {column.dtype}"
    return text


def nbytes_of_frame(frame: Any) -> int:
    """Bytes of its columns, of objects those of the references to them; about 50 us."""
    if home_of(type(frame)) == "polars":
        return int(frame.estimated_size())
    return int(sum(frame.memory_usage(index=False)))


def _dtype(dtype: Any) -> str | None:
    """The name of a column's dtype, unless it is one of the user's."""
    kind = type(dtype)  # those of polars are classes as well as instances
    known = home_of(dtype if issubclass(kind, type) else kind) in ("numpy", *_LIBRARIES)
    return str(dtype) if known else type_name(kind)
