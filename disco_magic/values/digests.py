"""Digests, 16 bytes, of arrays: equal for equal bits, whatever the strides; and with dtype and shape."""

from __future__ import annotations

import hashlib
import threading
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

import numpy as np

from disco_magic.values.elements import chunks_of
from disco_magic.values.kinds import is_gpu_array, is_long, is_of_framework, is_tensor, name_of
from disco_magic.values.tensors import bits_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from disco_magic.values.device_digests import DeviceDigests

Array = np.ndarray[Any, Any]

# Interrupts take effect between two blocks.
_BLOCK: Final = 16 << 20
_ELEMENTS: Final = 1 << 16
# From so many bytes on, elements that repeat are digested once: to look for them takes 20 us per axis.
_LARGE: Final = 1 << 20
_WORDS: Final = (1, 2, 4, 8)
# 80 significant bits in a field of 96 or 128; the others are arbitrary.
_PADDED: Final = np.finfo(np.longdouble).nmant == 63
_SIGNIFICANT: Final = 10


class _Here(threading.local):
    """What the calling thread makes digests of arrays on GPUs with; weak: threads outlive sessions."""

    gpus: Callable[[], DeviceDigests | None] = staticmethod(lambda: None)


_here: Final = _Here()


def use_gpus(gpus: DeviceDigests) -> None:
    """Let the calling thread make digests of cupy's arrays on their GPUs.

    As long as the caller keeps `gpus`. Other threads copy the elements to the host, which gives other
    digests: compare those of one kind.
    """
    _here.gpus = ref(gpus)


def digest(content: Any, head: bytes = b"") -> bytes:
    """16 bytes of BLAKE2b over `head` and `content`."""
    made = hashlib.blake2b(head, digest_size=16)
    made.update(content)
    return made.digest()


def digest_of(array: Any) -> bytes:
    """Digest the elements in C order into 16 bytes, equal for equal bits, whatever the strides; one pass.

    Args:
        array: of NumPy; or of cupy, see `use_gpus`. On the calling thread's stream: a thread that is no
            worker's has to know that its elements are computed.
    """
    is_on_gpu = is_gpu_array(type(array))
    if is_on_gpu:
        gpus = _here.gpus()
        if gpus is not None and gpus.can_digest(array):
            return gpus.digest_of(array)
    made = hashlib.blake2b(digest_size=16)
    for part in _on_host(array) if is_on_gpu else (array,):
        for field in _fields(part):
            for block in _blocks(field):
                made.update(block.data)
    return made.digest()


def _on_host(array: Any) -> Iterator[Array]:
    """Yield all elements of a cupy array, in parts of at most one block, in C order."""
    for index in chunks_of(array.shape, max(1, _BLOCK // array.itemsize)):
        yield array[index].get()


def _fields(array: Array) -> Iterator[Array]:
    """Yield the array; field by field if its records have gaps, whose bytes are arbitrary."""
    names, dtype = array.dtype.names, array.dtype
    if names is None or (not has_gaps(dtype)):
        yield array
    else:
        for name in names:
            yield from _fields(array[name])


def has_gaps(dtype: np.dtype[Any]) -> bool:
    """Whether some bytes of an element have no meaning, so that equal elements may have different bytes."""
    if dtype.subdtype is not None:
        return has_gaps(dtype.subdtype[0])
    if dtype.names is None:
        return _PADDED and is_long(dtype)
    fields = [found[:2] for found in (dtype.fields or {}).values()]
    covered = bytearray(dtype.itemsize)  # fields may overlap
    for field, start in fields:
        covered[start : start + field.itemsize] = bytes([1]) * field.itemsize
    return not all(covered) or any(has_gaps(field) for field, _ in fields)


def _blocks(array: Array) -> Iterator[Array]:
    """Yield the array's bytes in C order, in contiguous blocks; of a large one those that repeat once."""
    if array.nbytes >= _LARGE and not has_gaps(array.dtype):
        array, repeated = _without_repeats(np.asarray(array))
        if repeated:
            yield np.frombuffer(repeated.encode(), np.uint8)
    if array.nbytes == 0:
        return
    if array.flags.c_contiguous and not has_gaps(array.dtype):
        raw = array.reshape(-1).view(np.uint8)
        yield from (raw[start : start + _BLOCK] for start in range(0, raw.size, _BLOCK))
        return
    flags = ["external_loop", "buffered"]
    for chunk in np.nditer(array, flags=flags, order="C", buffersize=_ELEMENTS):  # type: ignore[call-overload]
        raw = np.ascontiguousarray(chunk).view(np.uint8)
        if has_gaps(array.dtype):
            width = np.dtype(np.longdouble).itemsize
            raw = np.ascontiguousarray(raw.reshape(-1, width)[:, :_SIGNIFICANT])
        yield raw


def _without_repeats(array: Array) -> tuple[Array, str]:
    """Return the array with one index of each axis along which all elements are equal, and these axes.

    Such as an expanded tensor, whose memory is as small; it has to have the digest of any other array with
    these elements, so all arrays are examined. One that does not repeat shows it in its first elements.
    """
    size = array.itemsize
    bits = array.view(f"u{size}" if size in _WORDS else f"V{size}")  # bits: NaN is no number's equal
    repeated = []
    for axis in sorted(range(bits.ndim), key=lambda axis: bits.strides[axis] != 0):
        if bits.shape[axis] > 1 and _repeats(bits, axis):
            bits = bits[_first(axis)]
            repeated.append(axis)
    told = f"repeats along {sorted(repeated)} of {array.shape}" if repeated else ""
    return bits, told


def _repeats(bits: Array, axis: int) -> bool:
    """Whether all elements along an axis are equal."""
    if bits.strides[axis] == 0:
        return True
    first = bits[_first(axis)]
    for index in chunks_of(bits.shape, _ELEMENTS):
        others = (*index[:axis], slice(0, 1), *index[axis + 1 :])
        if not np.array_equal(bits[index], np.broadcast_to(first[others], bits[index].shape)):
            return False
    return True


def _first(axis: int) -> tuple[slice, ...]:
    return (*[slice(None)] * axis, slice(0, 1))


# hashlib keeps the interpreter's lock up to so many bytes.
_KEPT: Final = 2047


def of_tensor(value: Any) -> bytes:
    """The fingerprint of a tensor or JAX array whose elements can be read, b"" for anything else."""
    kind = type(value)
    bits = bits_of(value) if is_of_framework(kind) else None
    if bits is None:
        return b""
    if not is_tensor(kind):
        return of_array(bits, f"jax {value.weak_type}")  # part of its repr
    history = f"{value.requires_grad} {name_of(type(value.grad_fn))}"  # part of its repr
    return of_array(bits, f"torch.{name_of(kind)} {value.dtype} {history}")


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
