"""A value as a `RegisterInfo`: cheap, on a sample, and without running code of the value's own.

Tables are drawn while workers run, from another thread. So nothing here calls a user's ``__repr__``,
``__len__`` or property; attributes are only read from types of well-known array libraries.
"""

from __future__ import annotations

import types
from typing import Any

import numpy as np

from disco_magic.core.registers import Poison
from disco_magic.core.snapshot import RegisterInfo
from disco_magic.functions.fingerprint import PLAIN, digest, number_text, of_array

SAMPLE = 65_536
_TEXT = 60
_ARRAY_LIBRARIES = ("torch", "cupy", "jax", "jaxlib", "pandas", "polars")


def describe(value: Any) -> RegisterInfo:
    """What a register holds. A few microseconds, plus one pass over at most 65,536 elements."""
    kind = type(value)
    # Of the type, not isinstance: that asks the value's own __class__, which may be a property.
    if issubclass(kind, np.ndarray | np.generic):
        return _describe_array(value)
    if kind in PLAIN:
        return _describe_plain(value)
    if str(kind.__module__).split(".")[0] in _ARRAY_LIBRARIES:
        return _describe_foreign(value)
    return RegisterInfo("failed" if kind is Poison else kind.__name__, text=_short(_words(value)))


def nbytes_of(value: Any) -> int:
    """Bytes of the elements, 0 where that is not known without running the value's code; under 1 us."""
    kind = type(value)
    if issubclass(kind, np.ndarray | np.generic):
        return int(value.nbytes)
    if kind in (str, bytes):
        return len(value)
    if str(kind.__module__).split(".")[0] in _ARRAY_LIBRARIES:
        nbytes = getattr(value, "nbytes", 0)
        return nbytes if isinstance(nbytes, int) else 0
    return 0


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
            fingerprint=digest(content, head),
            sampled=len(value) > SAMPLE,
        )
    text = number_text(value)
    return RegisterInfo(type(value).__name__, text=_short(text), fingerprint=digest(text.encode()))


def _describe_array(value: np.ndarray[Any, Any] | np.generic) -> RegisterInfo:
    array = np.asarray(value)
    sample, sampled = sample_of(array)
    # What a subclass adds, a mask for instance, is not in the plain array: such values are not compared.
    plain = type(value) is np.ndarray or isinstance(value, np.generic)
    minimum, mean, maximum = statistics(sample) if plain else (None, None, None)
    return RegisterInfo(
        type(value).__name__,
        tuple(int(n) for n in array.shape),
        str(array.dtype),
        "cpu",
        int(array.nbytes),
        _short(np.array2string(array, threshold=8, edgeitems=2)) if plain and _is_short(array) else "",
        minimum,
        mean,
        maximum,
        of_array(sample, type(value).__name__) if plain and not array.dtype.hasobject else b"",
        sampled,
    )


def _is_short(array: np.ndarray[Any, Any]) -> bool:
    return array.size <= 6 and not array.dtype.hasobject


def _describe_foreign(value: Any) -> RegisterInfo:
    shape = getattr(value, "shape", None)
    return RegisterInfo(
        type(value).__name__,
        tuple(int(n) for n in shape) if isinstance(shape, tuple) else None,
        str(value.dtype) if hasattr(value, "dtype") else None,
        str(value.device) if hasattr(value, "device") else "cpu",
        nbytes_of(value),
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


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _TEXT else text[: _TEXT - 1] + "…"
