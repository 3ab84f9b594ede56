"""Digests of arrays on GPUs, made there: 16 bytes come to the host instead of all elements.

Every 8 bytes of the array, in C order, are mixed with their position, twice with different constants, and the
two sums over all of them are the digest. Sums depend neither on the order of the additions nor on strides, so
that all GPUs give the same. A pair of equal sums for different bytes is as improbable as 1 in 2**128, unless
somebody seeks it: then take a copy of the array on the host, whose digest is cryptographic.

    GPU    thread 0: words 0, T, 2T, ... --> two sums --.
           thread 1: words 1, T + 1, ... --> two sums --|
    host                                                '--> sums of all threads, and the length --> digest
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Any, Final

import numpy as np

_BLOCK: Final = 256
# Enough threads for loads that keep the memory busy; their sums take 1 MiB of the GPU, once.
_MOST_BLOCKS: Final = 256
_WORDS_PER_THREAD: Final = 8
_MOST_AXES: Final = 32  # cupy's limit is NumPy's former one
_HEAD: Final = 5  # as in `Job`

_SOURCE: Final = r"""
typedef unsigned long long u64;
typedef long long i64;
typedef unsigned char u8;

struct Job {
    i64 base, nbytes, itemsize;
    i64 whole;  // words that can be read at once; the others byte by byte
    i64 axes, length[32], stride[32];
};

__device__ __forceinline__ u64 mix(u64 x) {  // the finalizer of MurmurHash3: each bit changes half of all
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdull;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ull;
    return x ^ x >> 33;
}

// Byte number `at` in C order.
__device__ __forceinline__ u8 byte_of(const Job &job, i64 at) {
    i64 rest = at / job.itemsize, from = job.base + at % job.itemsize;
    for (int a = (int)job.axes - 1; a >= 0; --a) {
        from += rest % job.length[a] * job.stride[a];
        rest /= job.length[a];
    }
    return *(const u8 *)from;
}

// Eight bytes; zeros behind the end.
__device__ __forceinline__ u64 word_of(const Job &job, i64 word) {
    u64 value = 0;
#pragma unroll 1
    for (int b = 0; b < 8 && word * 8 + b < job.nbytes; ++b)
        value |= (u64)byte_of(job, word * 8 + b) << 8 * b;
    return value;
}

struct Sums {
    u64 first, second;
    __device__ __forceinline__ void add(u64 word, i64 at) {
        const u64 place = mix(at + 0x9e3779b97f4a7c15ull);
        first += mix(word ^ place);
        second += mix(word + (place << 32 | place >> 32));
    }
};

extern "C" __global__ void digest(Job job, u64 *sums) {
    const i64 words = (job.nbytes + 7) / 8, step = (i64)gridDim.x * blockDim.x;
    const i64 me = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    Sums mine = {0, 0};
    i64 i = me;
#pragma unroll 4
    for (; i < job.whole; i += step) mine.add(((const u64 *)job.base)[i], i);
#pragma unroll 1
    for (; i < words; i += step) mine.add(word_of(job, i), i);
    sums[2 * me] = mine.first;
    sums[2 * me + 1] = mine.second;
}
"""


class DeviceDigests:
    """Digests arrays of one cupy. One thread at a time uses it.

    Args:
        cupy: the module, or an object with the same `RawModule`.
    """

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._refused = False
        self._sums: dict[int, Any] = {}  # GPU -> where its threads put their sums
        # Bytes without fields, as for the planes' kernels: with fields cupy needs 20 us to describe them.
        self._job = np.zeros((), f"V{8 * (_HEAD + 2 * _MOST_AXES)}")
        self._words = self._job.reshape(1).view(np.int64)

    def can_digest(self, array: Any) -> bool:
        """Whether `array` is of this cupy, and there is a compiler for the kernel."""
        if self._refused or type(array) is not self._cupy.ndarray:
            return False
        try:
            _ = self._kernel
        except Exception:  # noqa: BLE001 - cupy raises many kinds; on all workers of a process the same
            self._refused = True
        return not self._refused

    @cached_property
    def _kernel(self) -> Any:
        return self._cupy.RawModule(code=_SOURCE, backend="nvrtc").get_function("digest")

    def digest_of(self, array: Any) -> bytes:
        """Digest the elements in C order into 16 bytes, equal for equal bits, whatever the strides.

        On the current stream of the array's GPU, for which the calling thread waits.

        Raises:
            Exception: whatever cupy raises if it has no compiler, if the GPU is lost, or if it has no memory
                for the sums.

        Cost: one pass over the array in the GPU's memory, and 50 us; the first time up to a second, to
        compile the kernel. An array that is not contiguous takes many times as long as one that is.
        """
        with self._cupy.cuda.Device(array.device.id):
            words = -(-array.nbytes // 8)
            blocks = max(1, min(_MOST_BLOCKS, -(-words // (_BLOCK * _WORDS_PER_THREAD))))
            sums = self._sums_on(array.device.id)[: 2 * blocks * _BLOCK]
            self._describe(array)
            self._kernel((blocks,), (_BLOCK,), (self._job, sums))
            found = sums.get().reshape(-1, 2).sum(axis=0, dtype=np.uint64)
        return hashlib.blake2b(found.tobytes() + b"%d" % array.nbytes, digest_size=16).digest()

    def _sums_on(self, index: int) -> Any:
        if index not in self._sums:
            self._sums[index] = self._cupy.empty(2 * _MOST_BLOCKS * _BLOCK, np.uint64)
        return self._sums[index]

    def _describe(self, array: Any) -> None:
        """Write the kernel's description of the array."""
        base = int(array.data.ptr)
        is_run = bool(array.flags.c_contiguous)
        shape, strides = ((array.size,), (array.itemsize,)) if is_run else (array.shape, array.strides)
        whole = array.nbytes // 8 if is_run and base % 8 == 0 else 0
        self._words[:_HEAD] = base, array.nbytes, array.itemsize, whole, len(shape)
        self._words[_HEAD : _HEAD + len(shape)] = shape
        self._words[_HEAD + _MOST_AXES : _HEAD + _MOST_AXES + len(strides)] = strides
