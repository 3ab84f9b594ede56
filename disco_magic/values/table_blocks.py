"""The elements of a data frame, a Series, an index or a column as exact text, with their labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from disco_magic.errors import NoPicture
from disco_magic.phrases import class_name
from disco_magic.values.columns import facts_of, facts_of_items, part_of, texts_of, without_zeros
from disco_magic.values.fingerprint import PLAIN_IDS, number_text
from disco_magic.values.frames import (
    Column,
    array_of_column,
    column_of,
    columns_of,
    is_frame,
    is_index,
    is_series,
    is_table,
    levels_of,
)
from disco_magic.values.kinds import home_of, name_of

if TYPE_CHECKING:
    from disco_magic.values.windows import Shape

Texts = tuple[str, ...]

_CHANGING: Final = "another thread is changing the table; refresh"
_QUOTES: Final = ("'", '"')


class Cells(NamedTuple):
    """A part of a table as text."""

    columns: tuple[Texts, ...]
    row_labels: Texts
    column_labels: Texts


def is_tabular(value: Any) -> bool:
    """Whether it is a table of pandas or polars, or a column of one."""
    return type(value) is Column or is_table(type(value))


def table_shape(table: Any) -> Shape:
    """The lengths of a table's axes."""
    return (table.length,) if type(table) is Column else tuple(table.shape)


def cells_of(table: Any, rows: range, columns: range) -> Cells:
    """Some rows and columns of a table; runs no code of objects in it, which are shown by their types' names.

    A table with one axis is one column. Indices follow on one another.
    """
    kind = type(table)
    try:
        if is_frame(kind):
            held = [columns_of(table)[place] for place in columns]
            names = tuple(_name(label) for label, _ in held)
            texts = tuple(_texts(column, rows) for _, column in held)
        else:
            names = _name_of_series(table) if is_series(kind) else ()
            texts = (_of_index(table, rows) if is_index(kind) else _of_series(table, rows),)
        labels = _row_labels(table, rows)
    except (IndexError, RuntimeError):
        raise NoPicture(_CHANGING) from None
    if any(len(each) != len(rows) for each in texts):
        raise NoPicture(_CHANGING)
    return Cells(texts, labels, names)


def _of_series(table: Any, rows: range) -> Texts:
    return _texts(table if type(table) is Column else column_of(table), rows)


def _texts(column: Column, rows: range) -> Texts:
    part = part_of(column, rows)
    if part is None:  # its array, or its dtype, is of a class of the user's
        return (str(column.dtype),) * len(rows)
    array = array_of_column(part)
    if array is not None:
        texts = map(str, array)
        return tuple(map(without_zeros, texts) if array.dtype.kind == "M" else texts)
    facts = facts_of(part)
    if facts:
        return tuple(texts_of(part, facts, part.length))
    if type(part.values) is np.ndarray:
        return tuple(map(_of_object, part.values.tolist()))
    return (str(column.dtype),) * len(rows)


def _of_object(item: Any) -> str:
    facts = facts_of_items([item])
    if not facts:
        return class_name(item)
    return str(facts[0][0]) if len(facts) > 1 and facts[1] else number_text(item)


def _of_index(index: Any, rows: range) -> Texts:
    part = index[rows.start : rows.stop]
    levels = [_texts(column_of(level), range(len(rows))) for level in levels_of(part)]
    return (
        levels[0]
        if len(levels) == 1
        else tuple(f"({', '.join(labels)})" for labels in zip(*levels, strict=True))
    )


def _row_labels(table: Any, rows: range) -> Texts:
    """The labels of the rows in the index of pandas; () if they are its default."""
    kind = type(table)
    if home_of(kind) != "pandas" or is_index(kind):
        return ()
    index = table.index
    is_default = name_of(type(index)) == "RangeIndex" and (index.start, index.step) == (0, 1)
    if is_default or not is_index(type(index)):
        return ()
    return tuple(map(_bare, _of_index(index, rows)))


def _name_of_series(series: Any) -> Texts:
    name = series.name
    return () if name is None or (type(name) is str and not name) else (_name(name),)


def _name(label: Any) -> str:
    if type(label) is str:
        return label
    return number_text(label) if id(type(label)) in PLAIN_IDS else class_name(label)


def _bare(text: str) -> str:
    """A label without its quotes."""
    return text[1:-1] if len(text) > 1 and text[0] in _QUOTES and text[-1] == text[0] else text
