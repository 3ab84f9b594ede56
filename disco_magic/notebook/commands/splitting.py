"""Splits a value into one part per worker, and joins parts: for ``%disco scatter`` and ``%disco gather``.

Arrays are split evenly or not at all, because collectives need equal shapes. Values with rows or items
(DataFrame, Series, list, tuple, range) are split like `numpy.array_split`: in order, into parts whose lengths
differ by at most one, longer ones first.
"""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.errors import UsageMistake
from disco_magic.functions.arrays import host_array, read_array
from disco_magic.functions.cell_copies import table_kinds
from disco_magic.functions.returned import as_array_of, library_in, library_of
from disco_magic.phrases import class_name, people, ranges, who_has, words
from disco_magic.values.frames import is_labelled
from disco_magic.values.kinds import is_gpu_array

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SEQUENCES: Final = (list, tuple, range)
_EXPECTED: Final = "an array of numbers, a DataFrame, a Series, a list, a tuple or a range"


def split(name: str, value: Any, axis: int, count: int) -> list[Any]:
    """`count` parts of a variable, in order; views where possible."""
    kind = type(value)
    if not issubclass(kind, _with_rows()):
        return _split_array(name, value, axis, count)
    if axis != 0:
        raise UsageMistake(
            f"scatter: {name!r} is a {class_name(value)}, which is split along axis 0 only, got "
            f"--axis {axis}; make it an array to split it otherwise"
        )
    rows = value.iloc if issubclass(kind, table_kinds("pandas")) else value
    return [rows[start:stop] for start, stop in _bounds(len(value), count)]


def _bounds(length: int, count: int) -> list[tuple[int, int]]:
    size, longer = divmod(length, count)
    ends = [(i + 1) * size + min(i + 1, longer) for i in range(count)]
    return list(itertools.pairwise([0, *ends]))


def _split_array(name: str, value: Any, axis: int, count: int) -> list[Any]:
    array = _as_array(f"scatter: {name!r}", value)
    if array is None:
        whole = f"%disco broadcast {name} copies it whole to every worker"
        instead = f"make a list of it: {name} = list({name})" if isinstance(value, Iterator) else whole
        raise UsageMistake(f"scatter: {name!r} is {_called(value)}, expected {_EXPECTED}; {instead}")
    if not -array.ndim <= axis < array.ndim:
        raise UsageMistake(f"scatter: {name!r} has shape {array.shape}, which has no axis {axis}")
    length = array.shape[axis]
    if length % count:
        raise UsageMistake(
            f"scatter: axis {axis} of {name!r} has length {length}, which {count} workers cannot share "
            f"evenly; expected a multiple of {count} (shape {array.shape}); pad or cut it, or make it a "
            "list, whose parts may differ by one"
        )
    parts, library = np.split(array, count, axis), library_of(type(value))
    if library:  # contiguous: a copy of a strided view of a tensor would include the memory in between
        return [as_array_of(library, np.ascontiguousarray(part), value) for part in parts]
    return parts


def join(name: str, held: Mapping[int, Any], axis: int) -> Any:
    """Join the workers' values into one: the opposite of `split`.

    Args:
        name: the register's name, for errors.
        held: worker -> its value, in the order in which they are joined. Numbers count as arrays of one
            element.
        axis: the axis along which arrays are joined; 0 for values with rows or items.

    Returns:
        An array, a tensor if all are tensors, a DataFrame, a Series, a tuple, or a list of the items of
        lists or ranges.
    """
    values = list(held.values())
    kinds = [_kind(value) for value in values]
    if kinds[0] is None or any(kind is not kinds[0] for kind in kinds):
        if set(kinds) == {None}:
            return _join_arrays(name, held, axis)
        raise UsageMistake(
            f"gather: {name!r} is not of one kind: {_who_holds(held, map(class_name, values))}; expected "
            f"{_EXPECTED} on all of them"
        )
    if axis != 0:
        raise UsageMistake(
            f"gather: {name!r} is a {class_name(values[0])}, which is joined along axis 0 only, got "
            f"--axis {axis}"
        )
    if kinds[0] in _SEQUENCES:
        items = itertools.chain.from_iterable(values)
        return tuple(items) if kinds[0] is tuple else list(items)
    return _join_tables(name, "pandas" if kinds[0] in table_kinds("pandas") else "polars", held)


def _kind(value: Any) -> type | None:
    """The class with rows or items that `value` belongs to; None if it has neither."""
    return next((kind for kind in _with_rows() if issubclass(type(value), kind)), None)


def _with_rows() -> tuple[type, ...]:
    """The classes that have rows or items."""
    return (*_SEQUENCES, *table_kinds("pandas"), *table_kinds("polars"))


def _join_tables(name: str, library: str, held: Mapping[int, Any]) -> Any:
    tables = list(held.values())
    frame = table_kinds(library)[0]
    columns = [list(table.columns) if issubclass(type(table), frame) else [] for table in tables]
    if any(Counter(each) != Counter(columns[0]) for each in columns):  # pandas would fill gaps with NaN
        shown = (", ".join(map(str, each)) or "none" for each in columns)
        raise UsageMistake(f"gather: the columns of {name!r} differ: {_who_holds(held, shown)}")
    try:
        return sys.modules[library].concat(tables)
    except Exception as reason:  # noqa: BLE001 - whatever the library raises of its tables, it cannot join them
        raise UsageMistake(f"gather: {library} cannot join the parts of {name!r}: {words(reason)}") from None


def _join_arrays(name: str, held: Mapping[int, Any], axis: int) -> Any:
    arrays = {worker: _as_array(f"gather: {name!r}", value) for worker, value in held.items()}
    wrong = [worker for worker, array in arrays.items() if array is None]
    if wrong:
        raise UsageMistake(
            f"gather: {name!r} is {_called(held[wrong[0]])} on {people(wrong)}, expected "
            f"{_EXPECTED}; %disco get {name} -w all makes a list of the workers' values"
        )
    try:
        joined = np.concatenate([np.atleast_1d(array) for array in arrays.values()], axis)
    except (ValueError, TypeError) as reason:  # shapes, or dtypes without a common one
        shapes = ", ".join(f"{ranges((worker,))} {np.shape(array)}" for worker, array in arrays.items())
        raise UsageMistake(
            f"gather: {name!r} cannot be joined along axis {axis}: {reason}; shapes are {shapes}"
        ) from None
    library = library_in(list(held.values()))
    return as_array_of(library, joined) if library else joined


def _as_array(what: str, value: Any) -> Any:
    """`value` as a NumPy array; None for text, and for what NumPy holds only as objects or without labels."""
    if isinstance(value, str | bytes) or is_labelled(type(value)):
        return None
    if is_gpu_array(type(value)) or isinstance(value, np.ma.MaskedArray):
        return host_array(what, value)
    array = read_array(what, value)
    return None if array.dtype.hasobject else array


def _called(value: Any) -> str:
    return "an array of objects" if isinstance(value, np.ndarray) else f"a {class_name(value)}"


def _who_holds(workers: Iterable[int], texts: Iterable[str]) -> str:
    """``list on worker 0; tuple on workers [1-3]``."""
    holders = who_has(zip(workers, texts, strict=True))
    return "; ".join(f"{text} on {people(who)}" for text, who in holders.items())
