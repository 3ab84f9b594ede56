"""Random arrays on the GPU, large ones too, without a library of random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.gpus.stand import MIB

BLOCK_NBYTES = 16 * MIB
L2_NBYTES = 64 * MIB  # larger than that of any GPU so far, where it does not say


def dtype_of(cupy: Any, name: str) -> np.dtype[Any] | None:
    """The dtype of that name; None for a bfloat16 that is not there."""
    if name != "bfloat16":
        return np.dtype(name)
    try:
        from ml_dtypes import bfloat16

        cupy.empty(1, bfloat16)
    except (ImportError, TypeError, ValueError):  # no ml_dtypes, or a cupy from before 14
        return None
    return np.dtype(bfloat16)


def noise(nbytes: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Random bytes on the host, every page of them in memory."""
    words = np.random.default_rng(seed).integers(0, 2**64, -(-nbytes // 8), np.uint64)
    return words.view(np.uint8)[:nbytes]


def fill(cupy: Any, buffer: Any, dtype: np.dtype[Any], seed: int) -> None:
    """Fill bytes on the GPU with normal numbers of `dtype`; a block of them, again and again."""
    nbytes = min(BLOCK_NBYTES, buffer.size)
    numbers = np.random.default_rng(seed).standard_normal(nbytes // dtype.itemsize, np.float32)
    buffer[:nbytes] = cupy.asarray(numbers.astype(dtype).view(np.uint8))
    while nbytes < buffer.size:
        more = min(nbytes, buffer.size - nbytes)
        buffer[nbytes : nbytes + more] = buffer[:more]
        nbytes += more


def l2_nbytes(cupy: Any) -> int:
    """How much the GPU's cache holds."""
    return int(cupy.cuda.Device().attributes.get("L2CacheSize", L2_NBYTES))


def windows(nbytes: int, touched: int, there: int, cache: int) -> int:
    """How many places in a buffer of `there` bytes to take turns at, so that the cache has forgotten each.

    Args:
        nbytes: of one place.
        touched: bytes of all arrays that one operation touches.
        there: of the buffer.
        cache: the GPU's.
    """
    wanted = -(-4 * cache // max(touched, 1))
    return max(1, min(wanted, there // max(nbytes, 1), 64))
