"""Columns and indices of data frames as arrays and lists of plain values that describe them completely.

Only for the libraries' own classes and dtypes; no code of objects in a column runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.values.content import is_scalar, kinds_of, scalar_text, tells_all
from disco_magic.values.fingerprint import number_text
from disco_magic.values.frames import Column, array_behind, is_frame, is_index, levels_of
from disco_magic.values.kinds import home_of, name_of

if TYPE_CHECKING:
    from collections.abc import Sequence

# What describes a column completely: arrays without objects, and lists of numbers and texts.
Facts = list[Any]
_MISSING: Final = "None"


def facts_of(column: Column, most: int | None = None) -> Facts | None:
    """The facts of a column; None if it holds objects, or is of a dtype that is not looked into.

    With `most`, those of so many of its elements, evenly spaced, and not of more categories.
    """
    try:
        if not _is_own(column.values):
            return None
        values = _sampled(column.values, most)
        if most is not None and _has_more_categories(values, most):
            return None
        return _of_polars(values) if home_of(type(values)) == "polars" else _of_array(values)
    except Exception:  # noqa: BLE001 - what another version of a library refuses is not looked into
        return None


def _is_own(values: Any) -> bool:
    """Whether neither the array nor its dtype is of a class of the user's."""
    homes = home_of(type(values)), home_of(type(values.dtype))
    return all(home in ("numpy", "pandas", "polars") for home in homes)


def _has_more_categories(values: Any, most: int) -> bool:
    return name_of(type(values.dtype)) == "CategoricalDtype" and len(values.dtype.categories) > most


def _sampled(values: Any, most: int | None) -> Any:
    """At most so many elements of an array, an index or a Series of polars; all if `most` is None."""
    step = 1 if most is None else -(-len(values) // max(1, most))
    if step <= 1:
        return values
    if home_of(type(values)) == "polars":
        return values.gather_every(step)
    return values[::step]


def part_of(column: Column, rows: range) -> Column | None:
    """Some of a column's elements, that follow on one another; None if their array is of the user's class."""
    if not _is_own(column.values):
        return None
    values = column.values[rows.start : rows.stop]
    return Column(column.dtype, values, len(values))


def alone(facts: Facts | None) -> Any | None:
    """The array that describes a column completely by itself; None for any other, as with missing values."""
    if not facts or any(type(fact) is not np.ndarray for fact in facts):
        return None
    *missing, array = facts
    return None if any(each.dtype != np.bool_ or each.any() for each in missing) else array


def texts_of(column: Column, facts: Facts, most: int) -> list[str]:
    """The elements of a column that `facts_of` has looked at, each as Python or NumPy writes it.

    Missing ones are written as None, and elements that are equal alike.
    """
    if len(facts) > 1 and type(facts[1]) is bool:
        codes, _, *kept = facts  # of categories
        written = _texts_of(kept)
        return [written[code] if code >= 0 else _MISSING for code in codes.tolist()]
    if home_of(type(column.values)) == "polars" and column.values.dtype.is_temporal():
        times = _sampled(column.values, most).to_list()
        return [_MISSING if time is None else str(time) for time in times]
    return _texts_of(facts)


def _texts_of(facts: Facts) -> list[str]:
    if type(facts[0]) is list:
        items, *scalars = facts
        return _written(items, *scalars)
    *before, array = facts
    texts = _texts_of_array(array)
    if before and type(before[0]) is str:  # a dtype with a time zone: these times are UTC's
        return [text if text == "NaT" else f"{without_zeros(text)}Z" for text in texts]
    missing = before[0].tolist() if before else [False] * len(array)
    return [_MISSING if gone else text for gone, text in zip(missing, texts, strict=True)]


def without_zeros(time: str) -> str:
    """A time without the zeros at the end of its fraction, of which there may be nine."""
    return time.rstrip("0").rstrip(".") if "." in time else time


def _texts_of_array(array: Any) -> list[str]:
    items: list[Any] = array.astype(str).tolist() if array.dtype.kind in "mM" else array.tolist()
    return items if array.dtype.kind in "mM" else list(map(number_text, items))


def _written(items: list[Any], scalars: Sequence[int] = ()) -> list[str]:
    """`items` as text; the scalars, which are at these places, are written already."""
    there = frozenset(scalars)
    return [item if place in there else number_text(item) for place, item in enumerate(items)]


def facts_of_labels(value: Any, most: int | None = None) -> Facts | None:
    """The facts of a DataFrame's index and column names, of a Series' index and name, or an index's names.

    None and `most` as with `facts_of`.
    """
    if home_of(type(value)) == "polars":
        return [value.columns] if is_frame(type(value)) else [value.name]
    try:
        if is_index(type(value)):
            steps = [value.start, value.stop, value.step] if name_of(type(value)) == "RangeIndex" else []
            return facts_of_items([*value.names, *steps])
        index = _of_index(_sampled(value.index, most), most)
        names = _of_index(value.columns) if is_frame(type(value)) else facts_of_items([value.name])
    except Exception:  # noqa: BLE001 - as above
        return None
    return None if index is None or names is None else [index, names]


def _of_index(index: Any, most: int | None = None) -> Facts | None:
    if home_of(type(index)) != "pandas":
        return None
    labels = levels_of(index)
    if most is not None and any(_has_more_categories(level, most) for level in labels):
        return None
    levels = [_of_array(array_behind(level)) for level in labels]
    names = facts_of_items(list(index.names))
    return None if names is None or any(level is None for level in levels) else [names, *levels]


def _of_array(values: Any) -> Facts | None:
    """The facts of an array of NumPy or pandas with one axis."""
    home = home_of(type(values.dtype))
    if home == "numpy":
        array = np.asarray(values)
        return facts_of_items(array.tolist()) if array.dtype.hasobject else [array]
    return _of_extension(values) if home == "pandas" else None


def _of_extension(values: Any) -> Facts | None:
    """The same for the dtypes that pandas adds to NumPy's."""
    dtype = values.dtype
    bases = list(map(name_of, type(dtype).__mro__))
    if bases[0] == "CategoricalDtype":
        kept = _of_array(array_behind(dtype.categories))
        return None if kept is None else [np.asarray(values.codes), bool(dtype.ordered), *kept]
    if bases[0] == "DatetimeTZDtype":
        return [str(dtype), np.asarray(values.tz_convert(None))]
    if bases[0] == "StringDtype":
        return facts_of_items(values.to_numpy(dtype=object, na_value=None).tolist())
    if "BaseMaskedDtype" in bases:
        return [np.asarray(values.isna()), values.to_numpy(dtype=dtype.numpy_dtype, na_value=0)]
    return None


def _of_polars(series: Any) -> Facts | None:
    dtype = series.dtype
    name = str(dtype.base_type())
    if name in ("String", "Categorical", "Enum"):
        return facts_of_items(series.to_list())
    if not (dtype.is_numeric() or dtype.is_temporal() or name == "Boolean"):
        return None
    numbers = series.to_physical()
    if series.null_count():
        numbers = numbers.fill_null(value=False if name == "Boolean" else 0)
    array = numbers.to_numpy()
    return None if array.dtype.hasobject else [series.is_null().to_numpy(), array]


def facts_of_items(items: list[Any]) -> Facts | None:
    """The facts of numbers, texts and scalars in a list; None if there are others."""
    kinds = kinds_of(items)
    if all(map(tells_all, kinds)):
        return [items]
    written_out = {id(kind) for kind in kinds if is_scalar(kind)}
    if not all(id(kind) in written_out or tells_all(kind) for kind in kinds):
        return None
    scalars = [place for place, item in enumerate(items) if id(type(item)) in written_out]
    written = {place: scalar_text(items[place]) for place in scalars}
    if not all(written.values()):  # in a time zone of the user's
        return None
    return [[written.get(place, item) for place, item in enumerate(items)], scalars]
