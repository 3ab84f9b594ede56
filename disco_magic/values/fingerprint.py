"""Fingerprints: 16 bytes per value, which workers compare instead of the values themselves."""

from __future__ import annotations

import datetime as dt
import marshal
import pathlib
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from disco_magic.core.device import Device
from disco_magic.values.digests import digest, of_array, of_tensor
from disco_magic.values.kinds import is_all_elements, is_gpu_array
from disco_magic.values.pickled import pickled_fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable

# Values that are completely described by their type and their repr.
PLAIN = (
    *(bool, int, float, complex, str, bytes, type(None), Device),
    *(range, dt.date, dt.timedelta),
    *(pathlib.PosixPath, pathlib.PurePosixPath, pathlib.WindowsPath, pathlib.PureWindowsPath),
)
# By identity: a metaclass may have an ``__eq__`` of its own, and no ``__hash__``.
PLAIN_IDS = frozenset(map(id, PLAIN))
CONTAINER_IDS = frozenset(map(id, (list, tuple, dict, set, frozenset)))
# Types that refer to nothing else; many values are handled at once. No floats: NaNs of any bits are alike.
_FLAT = set(map(id, (bool, int, str, bytes, type(None))))
# Those of a set are sorted: the order must not depend on how it was made.
_ORDERED = set(map(id, (int, str, bytes)))
_DEPTH = 16


def fingerprint(value: Any, of_object: Callable[[Any], bytes] = pickled_fingerprint) -> bytes:
    """Return 16 bytes that are equal for equal values, computed over every element.

    Arrays by dtype, shape and bytes (about 1 GB/s, GIL released; -0.0 differs from 0.0, NaN equals NaN), also
    those of cupy, and of PyTorch and JAX on the CPU; lists, tuples, dicts and sets element by element (dicts
    in the order of their keys), in up to 16 containers; everything else by its pickled form, in which such
    tensors are represented by their elements as well. What cannot be pickled in it is represented by its
    repr. These two run the value's own code: call this where the value lives, never for a table. Equal values
    can have different fingerprints (objects that pickle differently); different values never have equal ones,
    unless lists in them contain each other in a cycle, or their reprs are all that is known of them.
    """
    return _of(value, 0, {}, of_object)


def _of(value: Any, depth: int, known: dict[int, bytes], of_object: Callable[[Any], bytes]) -> bytes:
    """The fingerprint of what is in so many containers; `known`: by identity, of those found before."""
    kind = type(value)
    if kind is range:  # equal ones may have been made with another end, or another step
        value = (*value[:2], value[-1]) if value else ()
        return digest(f"range {value!r}".encode())
    if id(kind) in PLAIN_IDS:
        return digest(f"{kind.__name__} {number_text(value)}".encode("utf-8", "surrogatepass"))
    if id(kind) in CONTAINER_IDS and depth < _DEPTH:  # deeper ones, which may contain themselves, are pickled
        if id(value) not in known:
            # Until it is known, for a container that contains itself: how far out that is.
            known[id(value)] = digest(str(depth).encode(), b"itself")
            known[id(value)] = _of_container(value, depth, known, of_object)
        return known[id(value)]
    if is_all_elements(kind) or issubclass(kind, np.generic):
        array = np.asarray(value)
        if not array.dtype.hasobject:
            return of_array(array, kind.__name__)
    if is_gpu_array(kind):
        return of_array(value, "cupy.ndarray")
    return of_tensor(value) or of_object(value)


def _of_container(
    value: Any, depth: int, known: dict[int, bytes], of_object: Callable[[Any], bytes]
) -> bytes:
    kind = type(value)
    # A copy: another thread may be changing it.
    items = tuple(chain.from_iterable(value.copy().items()) if kind is dict else value)
    flat = _of_flat(kind, items)
    if flat is not None:
        return digest(flat, f"{kind.__name__} flat".encode())
    parts = [_of(item, depth + 1, known, of_object) for item in items]
    if kind in (set, frozenset):
        parts.sort()
    return digest(b"".join(parts), kind.__name__.encode())


def _of_flat(container: type, items: tuple[Any, ...]) -> bytes | None:
    """Bytes that completely describe a container of values that refer to nothing; None for any other."""
    kinds = set(map(id, map(type, items)))  # their metaclass may not be able to hash them
    if container in (set, frozenset):
        if len(kinds) != 1 or not kinds <= _ORDERED:
            return None
        items = tuple(sorted(items))
    with suppress(ValueError):  # two gigabytes in one piece, or an int of more digits than Python writes
        if kinds <= _FLAT:
            return marshal.dumps(items, 2)  # later versions also write which strings are shared or interned
        if kinds <= _FLAT | {id(float)}:
            return repr(items).encode()
    return None


def number_text(value: object) -> str:
    """A plain value as text; a huge int in hexadecimal."""
    # Python refuses to write more than 4,300 digits of an int in decimal, which takes quadratic time.
    return hex(value) if type(value) is int and value.bit_length() > 10_000 else repr(value)
