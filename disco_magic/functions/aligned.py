"""Arrays that begin at a multiple of 64 bytes, for code that reads them in vectors: what TVM compiles.

NumPy's own begin at a multiple of 16 bytes. The C library gives large ones pages of their own, and keeps the
first 16 bytes of these for itself.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from disco_magic.errors import UsageMistake

Array = np.ndarray[Any, Any]

# From here on the extra 5 us cost less than the copy that a compiled program would have to make. Not below:
# small collectives see by `flags.owndata` whose memory is separate, and these are views.
LARGE_NBYTES: Final = 512 * 1024

# A cache line, the longest vector register, and the alignment of TVM's own allocator (kAllocAlignment).
ALIGNMENT: Final = 64


def aligned_empty(shape: tuple[int, ...], dtype: Any) -> Array:
    """Like `numpy.empty`, but the array begins at a multiple of 64 bytes; takes 5 us more."""
    kind = np.dtype(dtype)
    if kind.hasobject:
        return np.empty(shape, kind)  # in raw memory, whatever lay there would be taken for objects
    raw = np.empty(math.prod(shape) * kind.itemsize + ALIGNMENT, np.uint8)
    return np.ndarray(shape, kind, raw, -raw.ctypes.data % ALIGNMENT)


def new_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Like `numpy.empty`; from `LARGE_NBYTES` on like `aligned_empty`. For arrays that workers keep."""
    large = math.prod(shape) * dtype.itemsize >= LARGE_NBYTES
    return aligned_empty(shape, dtype) if large else np.empty(shape, dtype)


def new_copy(array: Array) -> Array:
    """Like ``array.copy(order="K")``; the copy of a large C-contiguous array is a `new_array`."""
    if array.nbytes < LARGE_NBYTES or not array.flags.c_contiguous:
        return array.copy(order="K")
    fresh = new_array(array.shape, array.dtype)
    np.copyto(fresh, array)
    return fresh


def aligned(array: Array) -> Array:
    """Return `array` if it is aligned, C-contiguous, writable and of native byte order, else such a copy."""
    if array.dtype.hasobject:
        raise UsageMistake(f"an array of dtype {array.dtype} holds Python objects, not numbers")
    native = array.dtype.newbyteorder("=")
    if array.flags.carray and array.dtype == native and array.ctypes.data % ALIGNMENT == 0:
        return array
    copy = aligned_empty(array.shape, native)
    np.copyto(copy, array)
    return copy
