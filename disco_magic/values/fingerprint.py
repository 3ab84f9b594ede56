"""Fingerprints: 16 bytes per value, which workers compare instead of the values themselves."""

from __future__ import annotations

import datetime as dt
import hashlib
import io
import marshal
import pathlib
import pickle
import types
from contextlib import suppress
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from disco_magic.callers.namespaces import CELL_MODULE, is_defined
from disco_magic.core.device import Device
from disco_magic.values.digests import digest_of, has_gaps
from disco_magic.values.kinds import is_all_elements, is_gpu_array, is_of_framework, is_tensor, name_of
from disco_magic.values.tensors import bits_of

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
# hashlib keeps the interpreter's lock up to so many bytes.
_KEPT = 2047


def fingerprint(
    value: Any,
    *,
    depth: int = 0,
    known: dict[int, bytes] | None = None,
    of_object: Callable[[Any], bytes] | None = None,
) -> bytes:
    """Return 16 bytes that are equal for equal values, computed over every element.

    Arrays by dtype, shape and bytes (about 1 GB/s, GIL released; -0.0 differs from 0.0, NaN equals NaN), also
    those of cupy, and of PyTorch and JAX on the CPU; lists, tuples, dicts and sets element by element (dicts
    in the order of their keys); everything else by its pickled form, in which such tensors are represented by
    their elements as well, or by its repr if it cannot be pickled. These two run the value's own code: call
    this where the value lives, never for a table. Equal values can have different fingerprints (objects that
    pickle differently); different values never have equal ones, unless lists in them contain each other in a
    cycle.

    Args:
        value: the value.
        depth: how many containers are around the value: deeper than 16 it is pickled as a whole, so that a
            value that contains itself comes to an end.
        known: what was found of containers, by identity.
        of_object: makes the fingerprint of what would be pickled; None: by pickling it.
    """
    kind = type(value)
    if kind is range:  # equal ones may have been made with another end, or another step
        value = (*value[:2], value[-1]) if value else ()
        return digest(f"range {value!r}".encode())
    if id(kind) in PLAIN_IDS:
        return digest(f"{kind.__name__} {number_text(value)}".encode("utf-8", "surrogatepass"))
    if id(kind) in CONTAINER_IDS and depth < _DEPTH:
        known = {} if known is None else known
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
    return _of_tensor(value) or (of_object or pickled_fingerprint)(value)


def _of_tensor(value: Any) -> bytes:
    """The fingerprint of a tensor or JAX array whose elements can be read, b"" for anything else."""
    kind = type(value)
    bits = bits_of(value) if is_of_framework(kind) else None
    if bits is None:
        return b""
    if not is_tensor(kind):
        return of_array(bits, f"jax {value.weak_type}")  # part of its repr
    history = f"{value.requires_grad} {name_of(type(value.grad_fn))}"  # part of its repr
    return of_array(bits, f"torch.{name_of(kind)} {value.dtype} {history}")


def _of_container(
    value: Any, depth: int, known: dict[int, bytes], of_object: Callable[[Any], bytes] | None
) -> bytes:
    kind = type(value)
    # A copy: another thread may be changing it.
    items = tuple(chain.from_iterable(value.copy().items()) if kind is dict else value)
    flat = _of_flat(kind, items)
    if flat is not None:
        return digest(flat, f"{kind.__name__} flat".encode())
    parts = [fingerprint(item, depth=depth + 1, known=known, of_object=of_object) for item in items]
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


def of_array(array: Any, kind: str) -> bytes:
    """The fingerprint of a plain array of NumPy or cupy, of any dtype without objects."""
    return digest(digest_of(array), f"{kind} {_dtype_text(array.dtype)} {array.shape}".encode())


def of_sample(sample: np.ndarray[Any, Any], what: str) -> bytes:
    """16 bytes for elements that a table shows, of any dtype without objects; not the same as by `of_array`.

    By SHA-1, in half the time of BLAKE2b: nobody gains from values that look alike in a table. In pieces for
    which the interpreter's lock is kept: a worker that is busy in Python would return it only after 5 ms.
    """
    made = hashlib.sha1(f"{_dtype_text(sample.dtype)} {what}".encode(), usedforsecurity=False)
    content = digest_of(sample) if has_gaps(sample.dtype) else sample.tobytes()
    for start in range(0, len(content), _KEPT):
        made.update(content[start : start + _KEPT])
    return made.digest()[:16]


@lru_cache(256)
def _dtype_text(dtype: np.dtype[Any]) -> str:
    # For `str`, records and ml_dtypes' numbers are all raw bytes; not for `repr`, nor by name.
    return repr(dtype) if dtype.names is not None else f"{dtype.name} {dtype.str}"


class _Pickler(pickle.Pickler):
    """Writes arrays and tensors by their elements, and what any worker's cells have defined by its name.

    Functions of cells that cannot be reached by name, such as lambdas, are written by their code, defaults
    and closure. Without this, PyTorch would also write where it keeps tensors, and zip files with dates;
    pickle would accept the caller's classes and functions only, and no lambdas.
    """

    def reducer_override(self, value: Any) -> Any:
        """Called for what is neither number, text nor container."""
        kind = type(value)
        if not issubclass(kind, (type, types.FunctionType)):
            found = _of_elements(value) if is_all_elements(kind) else _of_tensor(value)
            return (bytes, (found,)) if found else NotImplemented
        if value.__module__ != CELL_MODULE:
            return NotImplemented
        if is_defined(value):
            return _named, (value.__qualname__,)
        return _by_code(value) if kind is types.FunctionType else NotImplemented


def _named(qualname: str) -> None:
    """Marks the name of a class or function in what is digested; never called."""


def _coded(code: bytes) -> None:
    """Marks the code of a function in what is digested; never called."""


def _by_code(function: types.FunctionType) -> tuple[Any, ...]:
    """Reduce a function to its code, and to what that was given: defaults, closure and attributes.

    The latter are its state, which is written when the function is in the memo: they may refer to the
    function.
    """
    closure = [_content(cell) for cell in function.__closure__ or ()]
    given = (function.__defaults__, function.__kwdefaults__, closure, vars(function))
    return _coded, (marshal.dumps(function.__code__, 2),), given


def _content(cell: types.CellType) -> Any:
    try:
        return (cell.cell_contents,)
    except ValueError:  # the variable is not bound yet
        return None


def _of_elements(array: np.ndarray[Any, Any]) -> bytes:
    """The fingerprint of an array of NumPy, b"" if there are objects in it."""
    return b"" if array.dtype.hasobject else of_array(array, type(array).__name__)


def pickled_fingerprint(value: Any) -> bytes:
    """The fingerprint of an object by its pickled form, or by its repr if it has none."""
    try:
        stream = io.BytesIO()
        _Pickler(stream, protocol=4).dump(value)  # with older ones, times lack their `fold`
        return digest(stream.getvalue())
    except Exception:  # noqa: BLE001 - whatever a user's __reduce__ raises; the repr still distinguishes values
        return digest(repr(value).encode("utf-8", "surrogatepass"))


def number_text(value: object) -> str:
    """A plain value as text; a huge int in hexadecimal."""
    # Python refuses to write more than 4,300 digits of an int in decimal, which takes quadratic time.
    return hex(value) if type(value) is int and value.bit_length() > 10_000 else repr(value)


def digest(content: Any, head: bytes = b"") -> bytes:
    """16 bytes of BLAKE2b over `head` and `content`."""
    made = hashlib.blake2b(head, digest_size=16)
    made.update(content)
    return made.digest()
