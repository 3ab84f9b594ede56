"""What a worker holds where it is elements: arrays, columns of tables, records; see `divergence`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.core.held import Held
from disco_magic.values.columns import facts_of, facts_of_items
from disco_magic.values.describe import SHORT, elements_text
from disco_magic.values.described import short
from disco_magic.values.digests import digest_of
from disco_magic.values.fingerprint import fingerprint, number_text
from disco_magic.values.frames import COLUMN, Column, array_of_column
from disco_magic.values.kinds import is_all_elements, is_gpu_array, type_name
from disco_magic.values.spans import device_of

if TYPE_CHECKING:
    from disco_magic.core.device import Device
    from disco_magic.values.columns import Facts

Array = np.ndarray[Any, Any]

# So much of each text in a short column is shown.
_LONG: Final = 60
OF_OBJECTS: Final = "it is a record, or has one, of objects"


def look_at_elements(value: Any, own: Device, *, values: bool) -> Held | None:
    """Describe an array of NumPy or cupy, a column, or a record of objects; None for any other value."""
    kind = type(value)
    if issubclass(kind, np.ndarray):
        return _look_at_array(value, values=values)
    if is_gpu_array(kind):
        return _look_at_gpu_array(value, own, values=values)
    if kind is Column:
        return _look_at_column(value, values=values)
    if is_of_objects(value):
        return Held(type_name(kind), opaque=OF_OBJECTS if values else "", unseen="" if values else OF_OBJECTS)
    return None


def is_of_objects(value: Any) -> bool:
    """Whether it is a record of NumPy's that has objects, which only their own code can compare."""
    return issubclass(type(value), np.void) and value.dtype.hasobject


def _look_at_array(value: Array, *, values: bool) -> Held:
    kind = type(value)
    array = np.asarray(value)
    text, digest, why = "", b"", ""
    if values and array.dtype.hasobject and is_all_elements(kind):
        facts = facts_of_items(array.reshape(-1).tolist())
        digest = b"" if facts is None else fingerprint(facts)
        why = "its elements are Python objects" if facts is None else ""
    elif values and not is_all_elements(kind):
        why = f"values of type {type_name(kind)} cannot be compared"
    elif values:
        digest = digest_of(array)
        text = elements_text(array) if array.size <= SHORT else ""
    unseen = "objects in an array" if array.dtype.hasobject and not digest else ""
    return Held(
        type_name(kind),
        array.shape,
        str(array.dtype),
        "cpu",
        text=text,
        digest=digest,
        opaque=why,
        unseen=unseen,
    )


def _look_at_gpu_array(array: Any, own: Device, *, values: bool) -> Held:
    where, text, digest = device_of(array), "", b""
    if own.kind != "cpu" and array.device.id == own.index:
        where = where.partition(":")[0]
    if values:
        digest = digest_of(array)
        text = elements_text(array.get()) if array.size <= SHORT else ""
    return Held(type_name(type(array)), array.shape, str(array.dtype), where, text=text, digest=digest)


def _look_at_column(column: Column, *, values: bool) -> Held:
    found = Held(COLUMN, (column.length,), column.dtype)
    if not values:
        return found
    facts = facts_of(column)
    if facts is None:
        return replace(found, opaque=f"not all values of dtype {column.dtype} can be compared")
    text = _column_text(column, facts) if column.length <= SHORT else ""
    return replace(found, text=text, digest=fingerprint(facts))


def _column_text(column: Column, facts: Facts) -> str:
    """All elements of a short column, if they are numbers or texts."""
    only = facts[0] if len(facts) == 1 else array_of_column(column)
    if type(only) is list:
        return short(f"[{', '.join(map(_item_text, only))}]")
    return "" if only is None else elements_text(only)


def _item_text(item: Any) -> str:
    return number_text(item[:_LONG] if isinstance(item, str | bytes) else item)
