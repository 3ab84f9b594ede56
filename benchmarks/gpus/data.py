"""Fills arrays on the GPU with random numbers, large ones too, without a random-number library there."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.gpus.stand import MIB

BLOCK_NBYTES = 16 * MIB
L2_NBYTES = 64 * MIB  # larger than that of any GPU so far; used if the GPU does not report its own


def dtype_of(cupy: Any, name: str) -> np.dtype[Any] | None:
    """Return the dtype of that name; None if bfloat16 is not available."""
    if name != "bfloat16":
        return np.dtype(name)
    try:
        from ml_dtypes import bfloat16

        cupy.empty(1, bfloat16)
    except (ImportError, TypeError, ValueError):  # no ml_dtypes, or a cupy from before 14
        return None
    return np.dtype(bfloat16)


def noise(nbytes: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Make random bytes on the host, every page of them in memory."""
    words = np.random.default_rng(seed).integers(0, 2**64, -(-nbytes // 8), np.uint64)
    return words.view(np.uint8)[:nbytes]


def fill(cupy: Any, buffer: Any, dtype: np.dtype[Any], seed: int) -> None:
    """Fill bytes on the GPU with normally distributed numbers of `dtype`, repeating one block."""
    nbytes = min(BLOCK_NBYTES, buffer.size)
    numbers = np.random.default_rng(seed).standard_normal(nbytes // dtype.itemsize, np.float32)
    buffer[:nbytes] = cupy.asarray(numbers.astype(dtype).view(np.uint8))
    while nbytes < buffer.size:
        more = min(nbytes, buffer.size - nbytes)
        buffer[nbytes : nbytes + more] = buffer[:more]
        nbytes += more


def l2_nbytes(cupy: Any) -> int:
    """Return the size of the GPU's L2 cache."""
    return int(cupy.cuda.Device().attributes.get("L2CacheSize", L2_NBYTES))


def windows(nbytes: int, touched: int, there: int, cache: int) -> int:
    """Return how many places in a buffer to alternate between, so that none of them stays in the cache.

    Args:
        nbytes: size of one place.
        touched: bytes of all arrays that one operation touches.
        there: size of the buffer.
        cache: size of the GPU's cache.
    """
    wanted = -(-4 * cache // max(touched, 1))
    return max(1, min(wanted, there // max(nbytes, 1), 64))
