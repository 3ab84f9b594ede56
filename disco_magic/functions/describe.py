"""A value as a `RegisterInfo`: cheap, on a sample, and without running code of the value's own.

Tables are drawn while workers run, from another thread. So nothing here calls a user's ``__repr__``,
``__len__`` or property; attributes are only read from types of well-known array libraries.
"""

from __future__ import annotations

import hashlib
import pickle
import types
from typing import Any

import numpy as np

from disco_magic.core.registers import Poison
from disco_magic.core.snapshot import RegisterInfo

SAMPLE = 65_536
_TEXT = 60
_DEPTH = 16
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_ARRAY_LIBRARIES = ("torch", "cupy", "jax", "jaxlib", "pandas", "polars")


def describe(value: Any) -> RegisterInfo:
    """What a register holds. A few microseconds, plus one pass over at most 65,536 elements."""
    kind = type(value)
    # Of the type, not isinstance: that asks the value's own __class__, which may be a property.
    if issubclass(kind, np.ndarray | np.generic):
        return _describe_array(value)
    if kind in _PLAIN:
        return _describe_plain(value)
    if str(kind.__module__).split(".")[0] in _ARRAY_LIBRARIES:
        return _describe_foreign(value)
    return RegisterInfo("failed" if kind is Poison else kind.__name__, text=_short(_words(value)))


def _words(value: Any) -> str:
    kind = type(value)
    if kind is Poison:
        return str(value.failure.summary)
    if kind in (list, tuple, dict, set, frozenset):
        return f"{len(value)} items"
    if kind in (types.FunctionType, types.BuiltinFunctionType, type):
        return str(value.__qualname__)
    if kind is types.ModuleType:
        return str(value.__name__)
    return f"{kind.__module__}.{kind.__qualname__}"


def _describe_plain(value: Any) -> RegisterInfo:
    if isinstance(value, str | bytes):
        start = value[:SAMPLE]
        content = start if isinstance(start, bytes) else start.encode("utf-8", "surrogatepass")
        head = f"{type(value).__name__} {len(value)}".encode()
        return RegisterInfo(
            type(value).__name__,
            nbytes=len(value),
            text=_short(repr(value[: _TEXT + 1])),
            fingerprint=_digest(content, head),
            sampled=len(value) > SAMPLE,
        )
    text = _number_text(value)
    return RegisterInfo(type(value).__name__, text=_short(text), fingerprint=_digest(text.encode()))


def _number_text(value: object) -> str:
    # Above 4,300 digits Python refuses to write an int in decimal; that takes quadratic time.
    return hex(value) if type(value) is int and value.bit_length() > 10_000 else repr(value)


def _describe_array(value: np.ndarray[Any, Any] | np.generic) -> RegisterInfo:
    array = np.asarray(value)
    sample, sampled = sample_of(array)
    minimum, mean, maximum = statistics(sample)
    return RegisterInfo(
        type(value).__name__,
        tuple(int(n) for n in array.shape),
        str(array.dtype),
        "cpu",
        int(array.nbytes),
        _short(np.array2string(array, threshold=8, edgeitems=2)) if _is_short(array) else "",
        minimum,
        mean,
        maximum,
        b"" if array.dtype.hasobject else _digest(np.ascontiguousarray(sample).view(np.uint8)),
        sampled,
    )


def _is_short(array: np.ndarray[Any, Any]) -> bool:
    return array.size <= 6 and not array.dtype.hasobject


def _describe_foreign(value: Any) -> RegisterInfo:
    shape = getattr(value, "shape", None)
    nbytes = getattr(value, "nbytes", 0)
    return RegisterInfo(
        type(value).__name__,
        tuple(int(n) for n in shape) if isinstance(shape, tuple) else None,
        str(value.dtype) if hasattr(value, "dtype") else None,
        str(value.device) if hasattr(value, "device") else "cpu",
        int(nbytes) if isinstance(nbytes, int) else 0,
    )


def sample_of(array: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], bool]:
    """At most 65,536 elements of `array` as a 1-d array, evenly spread, and whether that leaves some out.

    The stride is odd, so that a power-of-two row length does not make it look at a few columns only.
    """
    if array.size <= SAMPLE:
        return array.reshape(-1), False
    stride = -(-array.size // SAMPLE) | 1
    if array.flags.c_contiguous:
        return array.reshape(-1)[::stride], True
    return np.asarray(array.flat[::stride]), True


def statistics(sample: np.ndarray[Any, Any]) -> tuple[float | None, float | None, float | None]:
    """Minimum, mean and maximum of the finite elements; None where the dtype has no order."""
    # Records and raw bytes are np.void; bfloat16 has kind V too, but a type of its own, and is a number.
    if sample.size == 0 or sample.dtype.kind in "cOSUMmT" or issubclass(sample.dtype.type, np.void):
        return None, None, None
    numbers = sample.astype(np.float64)
    numbers = numbers[np.isfinite(numbers)]
    if numbers.size == 0:
        return None, None, None
    return float(numbers.min()), float(numbers.mean()), float(numbers.max())


def fingerprint(value: Any, *, depth: int = 0) -> bytes:
    """Equal for equal values, over every element; 16 bytes.

    Arrays by their bytes (about 1 GB/s, GIL released), containers element by element, everything else by
    its pickled form, or by what repr says where it cannot be pickled. The latter two run the value's own
    code: call this where the value lives, never for a table. `depth` is how many containers are around it:
    deeper than 16 it is pickled as a whole, so that one that contains itself comes to an end.
    """
    kind = type(value)
    if issubclass(kind, np.ndarray | np.generic) and not np.asarray(value).dtype.hasobject:
        array = np.asarray(value)
        head = f"{kind.__name__} {array.dtype.str} {array.shape}"
        return _digest(np.ascontiguousarray(array).reshape(-1).view(np.uint8), head.encode())
    if kind in _PLAIN:
        text = f"{kind.__name__} {_number_text(value)}"
        return _digest(text.encode("utf-8", "surrogatepass"))
    if kind in (list, tuple, dict) and depth < _DEPTH:
        items = [part for pair in value.items() for part in pair] if kind is dict else value
        parts = [fingerprint(item, depth=depth + 1) for item in items]
        return _digest(b"".join(parts), kind.__name__.encode())
    try:
        return _digest(pickle.dumps(value))
    except Exception:  # noqa: BLE001 - whatever a user's __reduce__ raises, the text still tells values apart
        return _digest(repr(value).encode("utf-8", "surrogatepass"))


def _digest(content: Any, head: bytes = b"") -> bytes:
    digest = hashlib.blake2b(head, digest_size=16)
    digest.update(content)
    return digest.digest()


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _TEXT else text[: _TEXT - 1] + "…"
