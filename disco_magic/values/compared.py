"""Whether what is in values may be equal, from samples of arrays: for tables, without running user code."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from disco_magic.values.columns import facts_of, facts_of_items, facts_of_labels
from disco_magic.values.content import is_plain, is_scalar, scalar_text
from disco_magic.values.digests import digest, of_sample
from disco_magic.values.fields import ExtraState
from disco_magic.values.fingerprint import CONTAINER_IDS, fingerprint
from disco_magic.values.frames import Column, array_of_column, is_frame, is_table
from disco_magic.values.inside import DEPTH, content_of, is_atom
from disco_magic.values.kinds import is_all_elements, is_jax_array, is_tensor, name_of, what_it_is
from disco_magic.values.samples import nans_and_infs, sample_of
from disco_magic.values.split_tensors import as_one_of_several, local_part
from disco_magic.values.tensors import bits_of, is_there, memory_of

if TYPE_CHECKING:
    from disco_magic.values.columns import Facts
    from disco_magic.values.samples import Array

# At most so many parts, in any depth, are looked at; if there are more, nothing is known.
_PARTS: Final = 1000
# The same for small samples, which are taken every second.
_FEW_PARTS: Final = 256
_WHOLE: Final = 1 << 16
# So many texts and other objects in a column or an array are looked at: the interpreter's lock is kept.
_OBJECTS: Final = 1 << 12
# So many row labels are looked at.
_LABELS: Final = 256
_TEXT: Final = 1000


class _Unknown(Exception):
    pass


class _Shard(NamedTuple):
    """A worker's part of a tensor on a mesh, and how that is split, which all workers have in common."""

    split: str
    array: Array


class Compared(NamedTuple):
    """What is known of all that is in a value.

    Attributes:
        fingerprint: equal for values whose parts are equal, as far as they were looked at.
        is_part: whether they were looked at only in part.
        nans, infs: how many of the elements that were looked at are NaN, or infinite; None: unknown.
    """

    fingerprint: bytes = b""
    is_part: bool = False
    nans: int | None = None
    infs: int | None = None


NOT_COMPARED: Final = Compared()


def look_into_parts(value: Any, sample: int) -> Compared:
    """Return what is known of all that is in a value; of tensors on a mesh, not which part a worker has.

    Nothing is known without a sample, or if not all of it can be looked at: arrays on a GPU, objects of
    libraries, more than 1,000 parts (with a sample of less than 65,536, more than 256).
    """
    if not sample:
        return NOT_COMPARED
    parts: dict[str, tuple[type, Any]] = {}
    try:
        _gather("", value, parts, (), _PARTS if sample >= _WHOLE else _FEW_PARTS)
        room = max(1, sample // max(1, len(parts)))
        told = {path: _told(*part, room) for path, part in parts.items()}
    except _Unknown:
        return NOT_COMPARED
    text = b"".join(f"{path} ".encode() + each.fingerprint for path, each in sorted(told.items()))
    return Compared(
        digest(text, name_of(type(value)).encode()),
        any(each.is_part for each in told.values()),
        sum(each.nans or 0 for each in told.values()),
        sum(each.infs or 0 for each in told.values()),
    )


def look_into_objects(array: Array, sample: int) -> Compared:
    """What is known of an array of Python objects; nothing if any is neither number, text nor scalar."""
    step = max(1, -(-array.size // max(1, min(sample, _OBJECTS))))
    facts = facts_of_items(array.reshape(-1)[::step].tolist())
    return _told_of_facts(facts, array.shape, is_part=step > 1)


def look_into_column(column: Column, sample: int) -> Compared:
    """What is known of a column; nothing if it has objects that are neither number, text nor scalar."""
    most = min(sample, _OBJECTS)
    return _told_of_facts(facts_of(column, most), column.dtype, is_part=most < column.length)


def _gather(
    path: str, value: Any, parts: dict[str, tuple[type, Any]], above: tuple[int, ...], most: int
) -> None:
    """Fill `parts`, path -> type and value, also for containers themselves; arrays become NumPy's."""
    kind = type(value)
    # Checked before all of it is copied.
    too_long = (id(kind) in CONTAINER_IDS and len(value) > most) or (is_frame(kind) and value.shape[1] > most)
    content = None if too_long or len(above) == DEPTH or id(value) in above else content_of(value)
    if content is None or content.places is None or len(parts) + len(content.items) > most:
        raise _Unknown
    places = tuple(content.places) if content.in_order and type(content.places) is list else ()
    parts[path] = tuple, (name_of(type(value)), len(content.items), places, *_labels(value))
    for place, item in zip(content.places, content.items, strict=True):
        inner = f"{path}{content.written(place)}"
        kind = type(item)
        if issubclass(kind, np.ndarray) and not is_all_elements(kind):
            raise _Unknown
        is_told = is_plain(kind) or is_atom(item) or kind is ExtraState or scalar_text(item)
        known = item if is_told else array_in(item)
        if known is None and kind is Column:
            known = item
        if not is_told and known is not None and (split := as_one_of_several(item)):
            kind, known = _Shard, _Shard(split, known)
        if known is not None or item is None:
            parts[inner] = kind, known
        else:
            _gather(inner, item, parts, (*above, id(value)), most)


def _labels(value: Any) -> tuple[Any, ...]:
    """A tuple with the fingerprint of a table's row and column labels, or a sample; () for anything else."""
    facts = facts_of_labels(value, _LABELS) if is_table(type(value)) else ()
    if facts is None:
        raise _Unknown
    return (fingerprint(facts),) if facts else ()


def _told(kind: type, part: Any, room: int) -> Compared:
    if is_scalar(kind):
        return Compared(fingerprint((name_of(kind), scalar_text(part))), nans=0, infs=0)
    if kind is tuple or (is_plain(kind) and not issubclass(kind, np.generic)):
        if _is_long(part):
            return Compared(fingerprint(_cut(part)), is_part=True)
        is_float = kind is float
        nans, infs = (int(math.isnan(part)), int(math.isinf(part))) if is_float else (0, 0)
        return Compared(fingerprint(part), nans=nans, infs=infs)
    if is_atom(part) or kind is ExtraState:
        written = f"{name_of(kind)} {what_it_is(part)}".encode("utf-8", "backslashreplace")
        return Compared(digest(written), is_part=True)
    if kind is _Shard:
        told = _told_of_array(kind, np.asarray(part.array), room)
        return told._replace(fingerprint=fingerprint((part.split, str(part.array.dtype))), is_part=True)
    if type(part) is Column:
        told = look_into_column(part, room)
    else:
        told = _told_of_array(kind, np.asarray(part), room)
    if not told.fingerprint:
        raise _Unknown
    return told


def _told_of_facts(facts: Facts | None, what: object, *, is_part: bool) -> Compared:
    """What the facts of a column or an array say; of long texts their beginning and their length."""
    if facts is None:
        return NOT_COMPARED
    lists = [fact for fact in facts if type(fact) is list]
    is_cut = any(_is_long(item) for fact in lists for item in fact)
    seen = [list(map(_cut, fact)) if type(fact) is list else fact for fact in facts] if is_cut else facts
    nans, infs = np.sum([_bad_in(fact) for fact in facts], axis=0).tolist() if facts else (0, 0)
    return Compared(fingerprint([what, *seen]), is_part or is_cut, nans, infs)


def _bad_in(fact: object) -> tuple[int, int]:
    """As `nans_and_infs`, for one of the facts of a column."""
    if type(fact) is list:
        fact = np.array([item for item in fact if type(item) is float or issubclass(type(item), np.floating)])
    return nans_and_infs(fact) if type(fact) is np.ndarray else (0, 0)


def _is_long(item: object) -> bool:
    return issubclass(type(item), str | bytes) and len(item) > _TEXT  # type: ignore[arg-type]  # it is a text


def _cut(item: Any) -> Any:
    """The beginning and the length of a long text; anything else as it is."""
    return (item[:_TEXT], len(item)) if _is_long(item) else item


def _told_of_array(kind: type, array: Array, room: int) -> Compared:
    if array.dtype.hasobject:
        return look_into_objects(array, room)
    seen: Array = sample_of(array, room)
    nans, infs = nans_and_infs(seen)
    return Compared(of_sample(seen, f"{name_of(kind)} {array.shape}"), seen.size < array.size, nans, infs)


def array_in(value: Any) -> Any:
    """The array whose elements can be read in place: the value, one that it holds, or None."""
    value = local_part(value)
    # Of the type, not with isinstance: that asks the value's own __class__, which may be a property.
    kind = type(value)
    if issubclass(kind, np.ndarray | np.generic):
        return value
    if is_tensor(kind):
        try:
            return memory_of(value.detach())
        except Exception:  # noqa: BLE001 - on a device, sparse, or of a dtype that NumPy lacks
            return None
    if kind is Column:
        return array_of_column(value)
    return bits_of(value) if is_jax_array(kind) and is_there(value) else None
