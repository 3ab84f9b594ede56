"""Fetches elements of arrays on a GPU, many at a time, for threads that look at them from the host.

One kernel of ours copies them straight into pinned memory of the host, from any number of arrays: one launch
and one wait for a whole table. It needs no GPU memory, which may be full, and no worker's stream. No caller
waits for longer than `PATIENCE_S`, whatever else the GPU is doing.

    pinned memory   [ table: where from, where to | lists of places | elements . . . . . ]
                        |                                             ^
    kernel              '--> element of array 0, of array 1, ... -----'
"""

from __future__ import annotations

from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.threads.locks import new_lock
from disco_magic.threads.patience import wait_until
from disco_magic.values.wanted import APART, WORD, batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from disco_magic.values.wanted import Array, Axis, Wanted, Words

PATIENCE_S: Final = 0.25
# The pinned memory per GPU, including the table. Never more: pinning may wait for what the GPU is doing.
_ROOM: Final = 8 << 20
_UNITS: Final = (8, 4, 2, 1)
_BLOCK: Final = 256
# Elements per thread, if there are enough blocks; maximum number of blocks per array.
_PER_THREAD: Final = 4
_MOST_BLOCKS: Final = 64

# For every array the table has: address, address of the elements on the host, bytes of an element, bytes
# that can be moved at a time, elements, axes; then for each axis its length, the distance of neighbours in
# bytes, and where in the table the indices of its elements are listed; 0: they are 0, 1, 2, ...
_SOURCE: Final = r"""
typedef long long word;

template <class Unit> __device__ void move(char* to, const char* from, word bytes)
{
    for (word at = 0; at < bytes; at += sizeof(Unit))
        *(Unit*)(to + at) = *(const Unit*)(from + at);
}

extern "C" __global__ void gather(const word* table, word blocks)
{
    // The table is in the host's memory: what is read of it more than once has to come from a cache.
    const word* head = table + __ldg(table + blockIdx.x / blocks);
    const char* source = (const char*)__ldg(head);
    char* target = (char*)__ldg(head + 1);
    const word bytes = __ldg(head + 2), unit = __ldg(head + 3);
    const word count = __ldg(head + 4), axes = __ldg(head + 5);
    const word first = (blockIdx.x % blocks) * blockDim.x + threadIdx.x;
    for (word k = first; k < count; k += blocks * blockDim.x) {
        const char* from = source;
        char* to = target + k * bytes;
        word rest = k;
        for (word a = axes - 1; a >= 0; a--) {
            const word* axis = head + 6 + 3 * a;
            const word length = __ldg(axis), stride = __ldg(axis + 1), list = __ldg(axis + 2);
            const word place = rest % length;
            from += (list ? __ldg(table + list + place) : place) * stride;
            rest /= length;
        }
        if (unit == 8) move<word>(to, from, bytes);
        else if (unit == 4) move<int>(to, from, bytes);
        else if (unit == 2) move<short>(to, from, bytes);
        else move<char>(to, from, bytes);
    }
}
"""


class Gatherer:
    """Fetches elements of arrays on one GPU. Any thread may use it, one at a time.

    The calling thread keeps its device and stream. The elements are read on the gatherer's own stream: what
    computes them has to be done.
    """

    def __init__(self, cupy: Any, index: int) -> None:
        self._cupy = cupy
        self._device = cupy.cuda.Device(index)
        self._lock = new_lock()
        self._bench: _Bench | None = None

    def gather(self, wanted: Sequence[Wanted]) -> list[Array] | None:
        """Return arrays of one axis with the elements; None if the GPU does not get to it in time.

        After that it is not asked again until it has done what it was asked.

        Raises:
            Exception: whatever cupy raises if the GPU is lost, or if there is no compiler.

        Cost: 50 us, and 15 us per array; the first time up to a second, to compile the kernel.
        """
        found = [np.empty(each.size, each.array.dtype) for each in wanted]
        with self._lock:
            are_fetched = all(map(self._fetch, batches(wanted, found, _ROOM)))
        return found if are_fetched else None

    def _fetch(self, batch: Sequence[tuple[Wanted, Array]]) -> bool:
        bench = self._bench
        if bench is None:
            with self._standing(None):
                bench = self._bench = _Bench(self._cupy)
        if not bench.is_free():
            return False
        with self._standing(bench.stream):
            bench.launch(batch)
        if not wait_until(lambda: bool(bench.done.done), PATIENCE_S):
            return False
        bench.collect()
        return True

    @contextmanager
    def _standing(self, stream: Any | None) -> Iterator[None]:
        """Make this GPU, and `stream`, current for the calling thread; then restore what was current."""
        with self._device:
            # Not `with stream`: at its end cupy forgets a stream that the thread has set by `use`.
            mine = self._cupy.cuda.get_current_stream()
            try:
                if stream is not None:
                    stream.use()
                yield
            finally:
                mine.use()


class _Bench:
    """Pinned memory, and the fetch that the GPU is writing into it."""

    def __init__(self, cupy: Any) -> None:
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.done = cupy.cuda.Event(disable_timing=True)
        self._kernel = cupy.RawModule(code=_SOURCE, backend="nvrtc").get_function("gather")
        self._memory = cupy.cuda.alloc_pinned_memory(_ROOM)
        self._bytes = np.frombuffer(self._memory, np.uint8, _ROOM)
        self._words: Words = self._bytes.view(np.int64)
        self._batch: Sequence[tuple[Wanted, Array]] = ()
        self._starts: list[int] = []

    def is_free(self) -> bool:
        """Whether the GPU has done the last fetch; forgets one that nobody has waited for."""
        if self in _flying:
            if not self.done.done:
                return False
            self._land()
        return True

    def launch(self, batch: Sequence[tuple[Wanted, Array]]) -> None:
        """Let the GPU fetch the elements of a batch; `collect` them once it is `done`. Must be free."""
        self._write_table([wanted for wanted, _ in batch])
        most = max(wanted.size for wanted, _ in batch)
        blocks = min(_MOST_BLOCKS, -(-most // (_BLOCK * _PER_THREAD)))
        self._batch = batch
        _flying.append(self)
        try:
            self._kernel((len(batch) * blocks,), (_BLOCK,), (int(self._memory.ptr), blocks))
        finally:
            self.done.record(self.stream)

    def collect(self) -> None:
        """Copy the fetched elements to their destinations."""
        for (_, target), start in zip(self._batch, self._starts, strict=True):
            target.view(np.uint8)[:] = self._bytes[start : start + target.nbytes]
        self._land()

    def _land(self) -> None:
        self._batch = ()
        _flying.remove(self)

    def _write_table(self, batch: Sequence[Wanted]) -> None:
        words = list(accumulate((6 + 3 * len(each.axes) for each in batch), initial=len(batch)))
        at = words.pop()
        listed: dict[int, int] = {}
        for axis in (axis for each in batch for axis in each.axes):
            if axis.places is not None and id(axis.places) not in listed:
                listed[id(axis.places)] = at
                self._words[at : at + axis.length] = axis.places
                at += axis.length
        self._starts = []
        free = at * WORD
        for each in batch:
            free = -(-free // APART) * APART
            self._starts.append(free)
            source, step = int(each.array.data.ptr) + each.start, int(each.array.itemsize)
            unit = _unit(source, step, each.axes)
            words += [source, self._memory.ptr + free, step, unit, each.size, len(each.axes)]
            for axis in each.axes:
                words += [axis.length, axis.stride, 0 if axis.places is None else listed[id(axis.places)]]
            free += each.size * step
        self._words[: len(words)] = words


# Keeps what a GPU writes to, and the arrays that it reads, until it is done, even if the thread that asked
# is gone.
_flying: Final[list[_Bench]] = []


def _unit(source: int, step: int, axes: Sequence[Axis]) -> int:
    """Bytes that can be moved at a time: elements need not be aligned as the device would align them."""
    apart = (source, step, *(axis.stride for axis in axes if axis.length > 1))
    return next(unit for unit in _UNITS if not any(number % unit for number in apart))
