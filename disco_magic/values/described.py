"""Values other than sampled arrays as a `RegisterInfo`, without running their code."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import numpy as np

from disco_magic.core.registers import Poison
from disco_magic.core.snapshot import RegisterInfo
from disco_magic.core.words import plural
from disco_magic.values.compared import Compared, look_into_column, look_into_parts
from disco_magic.values.content import kinds_of, scalar_text
from disco_magic.values.digests import digest
from disco_magic.values.fields import is_module, is_optimizer
from disco_magic.values.fingerprint import CONTAINER_IDS, PLAIN_IDS, fingerprint, number_text
from disco_magic.values.frames import COLUMN, Column, array_of_column, columns_text, is_frame, is_table
from disco_magic.values.inside import constant_text, content_of, plain_copy
from disco_magic.values.kinds import (
    ARRAY_LIBRARIES,
    LAZY_IMPORT,
    home_of,
    is_numpy_number,
    is_tensor,
    name_of,
    type_name,
    what_it_is,
)
from disco_magic.values.sizes import nbytes_of, sized_parts
from disco_magic.values.spans import common_device, device_of
from disco_magic.values.split_tensors import kind_of_split, local_part, mesh_of, shard_of

_TEXT: Final = 60
# A container with at most so many items, including those of containers in it, is compared.
_ITEMS: Final = 64
# A longer list of numbers or texts is compared up to this share of the sample, and up to so many items.
_SHARE: Final = 64
_SERIES: Final = 1 << 12
_OF_NUMPY: Final = 1 << 10


def describe_other(value: Any, sample: int) -> RegisterInfo:
    """Describe `value`; `sample` as in `describe.describe_all`."""
    kind = type(value)
    is_plain = id(kind) in PLAIN_IDS
    written = "" if is_plain else scalar_text(value)
    if is_plain or written:
        return _describe_plain(value, sample) if is_plain else _describe_scalar(value, written, sample)
    if is_module(kind) or is_optimizer(kind):
        return _describe_module(value, sample) if is_module(kind) else _describe_optimizer(value, sample)
    is_class = issubclass(kind, type)  # whatever its metaclass is
    if kind is Column or (home_of(kind) in ARRAY_LIBRARIES and not is_class):
        is_own = kind is Column or is_table(kind)
        return _describe_table(value, sample) if is_own else _describe_foreign(value)
    if id(kind) in CONTAINER_IDS:
        return _describe_container(value, sample)
    if kind is Poison:
        return RegisterInfo("failed", text=short(str(value.failure.summary)))
    name = "type" if is_class else type_name(kind) if kind is LAZY_IMPORT else name_of(kind)
    constant = constant_text(value)
    nbytes, text = 0 if constant else nbytes_of(value), short(constant or what_it_is(value))
    return _with(RegisterInfo(name, nbytes=nbytes, text=text), look_into_parts(value, sample))


def _with(info: RegisterInfo, inside: Compared) -> RegisterInfo:
    """Add what is known of all that is in a value to its description."""
    return replace(
        info,
        fingerprint=inside.fingerprint,
        sampled=inside.is_part,
        nans=inside.nans,
        infs=inside.infs,
    )


def _describe_module(module: Any, sample: int) -> RegisterInfo:
    """Describe a PyTorch module by its parameters and buffers."""
    content = content_of(module)
    items = [] if content is None else content.items
    arrays = [*{id(each): each for each in items}.values()]  # tied ones count once
    # Not of tensors of a user's class, whose code would run.
    places = [*{device_of(each) for each in arrays if is_tensor(type(each))}] or ["cpu"]
    return _describe_arrays(module, arrays, places[0] if len(places) == 1 else None, sample)


def _describe_optimizer(optimizer: Any, sample: int) -> RegisterInfo:
    """Describe a PyTorch optimizer by its state."""
    arrays = [part for part in sized_parts(optimizer) if is_tensor(type(part))]
    return _describe_arrays(optimizer, arrays, None, sample)


def _describe_arrays(value: Any, arrays: list[Any], device: str | None, sample: int) -> RegisterInfo:
    """Describe a value that consists of these arrays."""
    text = plural(len(arrays), "array") if arrays else ""
    nbytes = sum(map(nbytes_of, arrays))
    info = RegisterInfo(name_of(type(value)), device=device, nbytes=nbytes, text=text)
    return _with(info, look_into_parts(value, sample))


def _describe_container(value: Any, sample: int) -> RegisterInfo:
    """Describe a container; it is compared and shown whole if it is small and its items run no code."""
    kind = type(value)
    count, text = len(value), ""
    held = plain_copy(value, min(sample, _ITEMS))
    if held is not None:
        count, text, inside = len(held), repr(held), _compared(held, fingerprint(held))
    elif series := _fingerprint_of_series(value, sample):
        inside = _compared(value, series)
    else:
        inside = look_into_parts(value, sample)
    parts = sized_parts(value)
    info = RegisterInfo(
        kind.__name__,
        device=common_device(parts),
        nbytes=sum(map(nbytes_of, parts)),
        text=text if 0 < len(text) <= _TEXT else plural(count, "item"),
        items=count,
    )
    return _with(info, inside)


def _compared(series: Any, print_: bytes) -> Compared:
    """Add to a fingerprint of numbers and texts how many of the numbers, at any depth, are NaN or inf."""
    nans = infs = 0
    rest = [series]
    while rest:
        each = rest.pop()
        items = each.values() if type(each) is dict else each
        for item in items:
            kind = type(item)
            if kind is float or (issubclass(kind, np.floating) and home_of(kind) == "numpy"):
                nans += bool(item != item)  # noqa: PLR0124 - true of NaN only
                infs += item in (math.inf, -math.inf)
            elif id(kind) in CONTAINER_IDS:
                rest.append(item)
    return Compared(print_, nans=nans, infs=infs)


def _fingerprint_of_series(value: Any, sample: int) -> bytes:
    """The fingerprint of a longer list or tuple of numbers and texts, such as losses; b"" for any other."""
    if type(value) not in (list, tuple) or not 0 < len(value) <= min(sample // _SHARE, _SERIES):
        return b""
    items = list(value)  # one step: another thread may be filling it
    kinds = kinds_of(items)
    others = [kind for kind in kinds if id(kind) not in PLAIN_IDS]
    if others and len(items) > _OF_NUMPY:
        return b""
    # Of a class derived from NumPy's, pickle would run the code.
    if not all(map(is_numpy_number, others)):
        return b""
    of_text = any(kind is str or kind is bytes for kind in kinds)
    length = sum(len(item) for item in items if isinstance(item, str | bytes)) if of_text else 0
    return fingerprint(items) if length <= sample else b""


def _describe_plain(value: Any, sample: int) -> RegisterInfo:
    kind = type(value).__name__
    if isinstance(value, str | bytes):
        start = value[:sample]
        content = start if isinstance(start, bytes) else start.encode("utf-8", "surrogatepass")
        return RegisterInfo(
            kind,
            nbytes=len(value),
            text=short(repr(value[: _TEXT + 1])),
            fingerprint=digest(content, f"{kind} {len(value)}".encode()) if sample else b"",
            sampled=0 < sample < len(value),
        )
    return RegisterInfo(
        kind, text=short(number_text(value)), fingerprint=fingerprint(value) if sample else b""
    )


def _describe_scalar(value: Any, written: str, sample: int) -> RegisterInfo:
    print_ = digest(written.encode()) if sample else b""
    return RegisterInfo(name_of(type(value)), text=short(written), fingerprint=print_)


def _describe_table(table: Any, sample: int) -> RegisterInfo:
    if type(table) is Column:
        return _describe_column(table, sample)
    frame = is_frame(type(table))  # whose attributes may be columns, so that only its shape is asked for
    info = RegisterInfo(name_of(type(table)), table.shape, None, "cpu") if frame else _describe_foreign(table)
    with suppress(Exception):  # a worker is changing it: nothing is known of what is in it
        if frame:
            text = short(columns_text(table)) if sample else ""
            info = replace(info, nbytes=nbytes_of(table), text=text)
        return _with(info, look_into_parts(table, sample))
    return info


def _describe_column(column: Column, sample: int) -> RegisterInfo:
    info = RegisterInfo(COLUMN, (column.length,), column.dtype, "cpu")
    is_array = (
        not sample or array_of_column(column) is not None
    )  # whose elements are described as those of others
    return info if is_array else _with(info, look_into_column(column, sample))


def _describe_foreign(value: Any) -> RegisterInfo:
    shape = dtype = None
    part: tuple[object, ...] = ()
    kind, whole, value = name_of(type(value)), value, local_part(value)
    with suppress(Exception):  # whatever a library raises for a lazy, nested or deleted array
        if value is not whole:
            kind, part = kind_of_split(whole), (shard_of(whole), mesh_of(whole))
    with suppress(Exception):  # as above
        if isinstance(value.shape, tuple):
            shape = tuple(map(int, value.shape))
    with suppress(Exception):  # as above
        dtype = None if value.dtype is None else str(value.dtype)
    return RegisterInfo(kind, shape, dtype, device_of(value), nbytes_of(value), part=part)


def short(text: str) -> str:
    """Return the text in one line of at most 60 characters."""
    text = " ".join(text.encode("utf-8", "backslashreplace").decode().split())  # surrogates break messages
    return text if len(text) <= _TEXT else text[: _TEXT - 1] + "…"
