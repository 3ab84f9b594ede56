"""Copies what `copy.deepcopy` leaves shared: objects in tables, attributes of arrays of derived classes."""

from __future__ import annotations

import copy
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from disco_magic.core.device import Device
from disco_magic.values.kinds import home_of

if TYPE_CHECKING:
    from collections.abc import Callable

    Memo = dict[int, Any]

# Immutable all the way down: the object itself may be handed over.
ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes, type(Ellipsis), Device})
# Most copies are of these, and nothing in them is shared.
_USUAL = frozenset(map(id, (list, tuple, dict, set, np.ndarray)))


def table_kinds(library: str) -> tuple[type, ...]:
    """The DataFrame and the Series of pandas or polars; empty while it is not imported."""
    return _classes(library, "DataFrame", "Series")


def copy_cells(memo: Memo) -> None:
    """Copy what is in the copies that were made, where their classes copy only themselves.

    Args:
        memo: what `copy.deepcopy` has copied; an object that is in it is not copied again.
    """
    looked_at = 0
    while looked_at < len(memo):  # the memo grows: a cell can hold a table
        fresh = list(memo.values())[looked_at:]
        looked_at += len(fresh)
        kinds = {id(type(made)): type(made) for made in fresh}  # a metaclass may not be able to hash them
        others = [(key, kind) for key, kind in kinds.items() if key not in _USUAL]
        ways = {key: way for key, kind in others if (way := _way_of(kind)) is not None}
        for made in fresh if ways else ():
            if id(type(made)) in ways:
                ways[id(type(made))](made, memo)


def _way_of(kind: type) -> Callable[[Any, Memo], None] | None:
    """How objects of a class get copies of what is in them; None if `copy.deepcopy` makes these."""
    if issubclass(kind, np.ndarray):
        own = home_of(kind) != "numpy" and kind.__deepcopy__ is np.ndarray.__deepcopy__
        return _copy_attributes if own else None
    if issubclass(kind, table_kinds("pandas")):
        return _copy_table
    if issubclass(kind, _classes("pandas", "Index")):
        return _copy_labels
    return _copy_objects if issubclass(kind, table_kinds("polars")) else None


def _classes(library: str, *names: str) -> tuple[type, ...]:
    module = sys.modules.get(library)
    found = [getattr(module, name, None) for name in names]
    return tuple(kind for kind in found if isinstance(kind, type))


def _is_plain(items: Any) -> bool:
    return ATOMS.issuperset(map(type, items))


def _copy_attributes(array: Any, memo: Memo) -> None:
    """Of an array of a derived class: its ``__array_finalize__`` takes them over from the original."""
    held = getattr(array, "__dict__", {})
    for name, each in list(held.items()):
        if type(each) not in ATOMS:
            held[name] = copy.deepcopy(each, memo)


def _copy_table(table: Any, memo: Memo) -> None:
    if not all(map(_is_plain, (*_columns_of_objects(table), *_labels_of_objects(table)))):
        table.__setstate__(copy.deepcopy(table.__getstate__(), memo))


def _columns_of_objects(table: Any) -> list[Any]:
    if table.ndim == 1:
        return [table] if table.dtype.kind == "O" else []
    return [table.iloc[:, i] for i, dtype in enumerate(table.dtypes) if dtype.kind == "O"]


def _labels_of_objects(table: Any) -> list[Any]:
    return [axis for axis in table.axes if axis.nlevels == 1 and axis.dtype.kind == "O"]


def _copy_labels(index: Any, memo: Memo) -> None:
    held = index._data  # noqa: SLF001 - an index has no method that changes it
    if type(held) is np.ndarray and held.dtype.hasobject and not _is_plain(held):
        index._data = copy.deepcopy(held, memo)  # noqa: SLF001 - as above


def _copy_objects(table: Any, memo: Memo) -> None:
    """Of columns of polars with dtype ``Object``."""
    of_objects = sys.modules["polars"].Object
    if not issubclass(type(table), sys.modules["polars"].DataFrame):
        if table.dtype == of_objects:
            table._s = _with_copies(table, memo)._s  # noqa: SLF001 - a Series has no method that replaces it
        return
    for place, dtype in enumerate(table.dtypes):
        if dtype == of_objects:
            table.replace_column(place, _with_copies(table[:, place], memo))


def _with_copies(series: Any, memo: Memo) -> Any:
    items = series.to_list()
    if _is_plain(items):
        return series
    copies = [copy.deepcopy(each, memo) for each in items]
    return type(series)(series.name, copies, dtype=series.dtype)
