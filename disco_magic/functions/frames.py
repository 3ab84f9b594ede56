"""Data frames of pandas and polars: what can be said of them without looking into their columns.

Of the libraries' own classes only: one derived from them may have properties of the user's.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Final

from disco_magic.functions.kinds import home_of, type_name

_LIBRARIES: Final = ("pandas", "polars")
_LINE: Final = 60


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a data frame: its dtype as text, or None where that cannot be said."""

    dtype: str | None


def is_frame(kind: type) -> bool:
    """Whether this is the DataFrame of pandas or of polars itself, and no class derived from it."""
    library = home_of(kind)
    return library in _LIBRARIES and getattr(sys.modules.get(library), "DataFrame", None) is kind


def columns_of(frame: Any) -> list[tuple[Any, Column]]:
    """Label and dtype of each column; about 50 us."""
    return [(label, Column(_dtype(dtype))) for label, dtype in zip(frame.columns, frame.dtypes, strict=True)]


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
