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
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_ARRAY_LIBRARIES = ("torch", "cupy", "jax", "jaxlib", "pandas", "polars")


def describe(value: Any) -> RegisterInfo:
    """What a register holds. A few microseconds, plus one pass over at most 65,536 elements."""
    kind = type(value)
    if isinstance(value, np.ndarray | np.generic):
        return _describe_array(value)
    if kind in _PLAIN:
        return _describe_plain(value)
    if kind.__module__.split(".")[0] in _ARRAY_LIBRARIES:
        return _describe_foreign(value)
    return RegisterInfo("failed" if kind is Poison else kind.__name__, text=_short(_words(value)))


def _words(value: Any) -> str:
    kind = type(value)
    if isinstance(value, Poison):
        return value.failure.summary
    if kind in (list, tuple, dict, set, frozenset):
        return f"{len(value)} items"
    if isinstance(value, types.FunctionType | types.BuiltinFunctionType | type):
        return value.__qualname__
    if isinstance(value, types.ModuleType):
        return value.__name__
    return f"{kind.__module__}.{kind.__qualname__}"


def _describe_plain(value: Any) -> RegisterInfo:
    text = repr(value) if not isinstance(value, str | bytes) else repr(value[: _TEXT + 1])
    nbytes = len(value) if isinstance(value, str | bytes) else 0
    content = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
    return RegisterInfo(
        type(value).__name__, nbytes=nbytes, text=_short(text), fingerprint=_digest(content[:SAMPLE])
    )


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
    kind = sample.dtype.kind
    if sample.size == 0 or kind in "cOSUMmT" or sample.dtype.names is not None:
        return None, None, None
    numbers = sample.astype(np.float64)
    numbers = numbers[np.isfinite(numbers)]
    if numbers.size == 0:
        return None, None, None
    return float(numbers.min()), float(numbers.mean()), float(numbers.max())


def fingerprint(value: Any) -> bytes:
    """Equal for equal values, over every element; 16 bytes.

    Arrays by their bytes (about 1 GB/s, GIL released), containers element by element, everything else by
    its pickled form, or by what repr says where it cannot be pickled. The latter two run the value's own
    code: call this where the value lives, never for a table.
    """
    if isinstance(value, np.ndarray | np.generic) and not np.asarray(value).dtype.hasobject:
        array = np.asarray(value)
        head = f"{type(value).__name__} {array.dtype.str} {array.shape}"
        return _digest(np.ascontiguousarray(array).reshape(-1).view(np.uint8), head.encode())
    if type(value) in _PLAIN:
        return _digest(f"{type(value).__name__} {value!r}".encode("utf-8", "surrogatepass"))
    if type(value) in (list, tuple, dict):
        items = [part for pair in value.items() for part in pair] if isinstance(value, dict) else value
        return _digest(b"".join(map(fingerprint, items)), type(value).__name__.encode())
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
