"""Elements of arrays on a GPU, many at a time, brought to the host by whoever looks at them.

One kernel of ours copies them straight into pinned memory of the host, from as many arrays as there are: one
launch and one wait for a whole table. It takes no memory of the GPU, which may be full, and no stream of a
worker's. Nobody waits for longer than `PATIENCE_S`, whatever else the GPU is doing.

    pinned memory   [ table: where from, where to | lists of places | elements . . . . . ]
                        |                                             ^
    kernel              '--> element of array 0, of array 1, ... -----'
"""

from __future__ import annotations

import math
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from disco_magic.functions.samples import runs_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Words = NDArray[np.int64]

Array = np.ndarray[Any, Any]

PATIENCE_S: Final = 0.25
# The pinned memory of one GPU, table included. Never more: to pin some may wait for what the GPU is doing.
_ROOM: Final = 8 << 20
_MOST: Final = _ROOM // 2
_WORD: Final = 8
_UNITS: Final = (8, 4, 2, 1)
_BLOCK: Final = 256
# Elements per thread, as far as there are enough blocks; blocks per array.
_PER_THREAD: Final = 4
_MOST_BLOCKS: Final = 64
# Looks without a pause; the pauses after that.
_LOOKS: Final = 30
_FIRST_S: Final = 20e-6
_LONGEST_S: Final = 1e-3

# Of every array the table has: address, address of the elements on the host, bytes of an element, bytes that
# can be moved at a time, elements, axes; then of each axis its length, the distance of neighbours in bytes,
# and where in the table the numbers of its elements are listed, 0: they are 0, 1, 2, ...
_SOURCE: Final = r"""
typedef long long word;

template <class Unit> __device__ void move(char* to, const char* from, word bytes)
{
    for (word at = 0; at < bytes; at += sizeof(Unit))
        *(Unit*)(to + at) = *(const Unit*)(from + at);
}

extern "C" __global__ void gather(const word* table, word blocks)
{
    const word* head = table + table[blockIdx.x / blocks];
    const word bytes = head[2], unit = head[3], count = head[4], axes = head[5];
    const word first = (blockIdx.x % blocks) * blockDim.x + threadIdx.x;
    for (word k = first; k < count; k += blocks * blockDim.x) {
        const char* from = (const char*)head[0];
        char* to = (char*)head[1] + k * bytes;
        word rest = k;
        for (word a = axes - 1; a >= 0; a--) {
            const word* axis = head + 6 + 3 * a;
            const word place = rest % axis[0];
            from += (axis[2] ? table[axis[2] + place] : place) * axis[1];
            rest /= axis[0];
        }
        if (unit == 8) move<word>(to, from, bytes);
        else if (unit == 4) move<int>(to, from, bytes);
        else if (unit == 2) move<short>(to, from, bytes);
        else move<char>(to, from, bytes);
    }
}
"""


class Axis(NamedTuple):
    """One axis of what is fetched.

    Attributes:
        length: how many elements there are along it.
        stride: bytes from one to the next.
        places: int64, which ones, as multiples of the stride; None: 0, 1, 2, ...
    """

    length: int
    stride: int
    places: Words | None = None

    def cut(self, start: int, stop: int) -> tuple[int, Axis]:
        """A part of it, and how many bytes after the whole it begins."""
        if self.places is None:
            return start * self.stride, Axis(stop - start, self.stride)
        return 0, Axis(stop - start, self.stride, self.places[start:stop])


class Wanted(NamedTuple):
    """Elements to fetch, in C order of `axes`.

    Attributes:
        array: of cupy; stays alive until they are there.
        axes: none for a single element.
        start: bytes from the array's first element to the first of these.
    """

    array: Any
    axes: tuple[Axis, ...]
    start: int = 0

    @property
    def size(self) -> int:
        """How many elements."""
        return math.prod(axis.length for axis in self.axes)

    @property
    def nbytes(self) -> int:
        """Of the elements, and of what the table says about them."""
        lists = sum(axis.length for axis in self.axes if axis.places is not None)
        return self.size * int(self.array.itemsize) + _WORD * (lists + 7 + 3 * len(self.axes)) + 16


def whole(array: Any) -> Wanted:
    """All elements of an array."""
    if array.flags.c_contiguous:
        return Wanted(array, (Axis(int(array.size), int(array.itemsize)),))
    return Wanted(array, tuple(map(Axis, array.shape, array.strides)))


def sampled(array: Any, sample: int) -> Wanted:
    """Those elements that `sample_of` would look at."""
    size = int(array.size)
    if size <= sample:
        return whole(array)
    run, starts = runs_of(size, sample)
    if array.flags.c_contiguous:
        step = int(array.itemsize)
        return Wanted(array, (Axis(len(starts), run * step, starts), Axis(run, step)))
    places = (starts[:, None] * run + np.arange(run)).reshape(-1)
    indices = zip(np.unravel_index(places, array.shape), array.strides, strict=True)
    offsets = np.zeros(len(places), np.int64)
    for index, stride in indices:
        offsets += index * stride
    return Wanted(array, (Axis(len(offsets), 1, offsets),))


class Gatherer:
    """Fetches elements of arrays on one GPU. Any thread may use it, one after the other.

    The calling thread keeps its device and stream. The arrays' elements are read on a stream of the
    gatherer's own: what computes them has to be done.

    Args:
        cupy: the module.
        index: which GPU.
    """

    def __init__(self, cupy: Any, index: int) -> None:
        self._cupy = cupy
        self._device = cupy.cuda.Device(index)
        self._lock = threading.Lock()
        self._bench: _Bench | None = None

    def gather(self, wanted: Sequence[Wanted]) -> list[Array] | None:
        """Arrays of one axis with the elements; None if the GPU does not come to it in time.

        Then it is not asked again until it has come to what it was asked.

        Raises:
            Exception: whatever cupy raises of a GPU that is lost, or has no compiler.

        Cost: 50 us, and 15 us per array; the first time up to a second, to compile the kernel.
        """
        found = [np.empty(each.size, each.array.dtype) for each in wanted]
        with self._lock:
            for batch in _batches(wanted, found):
                if not self._fetch(batch):
                    return None
        return found

    def _fetch(self, batch: Sequence[tuple[Wanted, Array]]) -> bool:
        bench = self._bench
        if bench is None:
            with self._standing(None):
                bench = self._bench = _Bench(self._cupy)
        if not bench.done.done:
            return False
        with self._standing(bench.stream):
            bench.launch(batch)
        if not _comes(bench.done):
            return False
        bench.collect()
        return True

    @contextmanager
    def _standing(self, stream: Any | None) -> Iterator[None]:
        """The calling thread on this GPU, with `stream`; then back to where it was."""
        with self._device:
            # Not `with stream`: at its end cupy forgets a stream that the thread has by `use`.
            mine = self._cupy.cuda.get_current_stream()
            try:
                if stream is not None:
                    stream.use()
                yield
            finally:
                mine.use()


class _Bench:
    """Pinned memory, and what the GPU writes to it at the moment.

    Attributes:
        stream: for nothing else.
        done: whether it has written.
    """

    def __init__(self, cupy: Any) -> None:
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.done = cupy.cuda.Event(disable_timing=True)
        self._kernel = cupy.RawModule(code=_SOURCE, backend="nvrtc").get_function("gather")
        self._memory = cupy.cuda.alloc_pinned_memory(_ROOM)
        self._bytes = np.frombuffer(self._memory, np.uint8, _ROOM)
        self._words: Words = self._bytes.view(np.int64)
        self._batch: Sequence[tuple[Wanted, Array]] = ()
        self._starts: list[int] = []

    def launch(self, batch: Sequence[tuple[Wanted, Array]]) -> None:
        """Let the GPU fetch the elements of a batch, each into its array; `collect` them once it is done."""
        used = self._write_table([each for each, _ in batch])
        most = max(each.size for each, _ in batch)
        blocks = min(_MOST_BLOCKS, -(-most // (_BLOCK * _PER_THREAD)))
        # From here on the GPU may write to this memory, and read the arrays, whatever becomes of the caller.
        self._batch = batch
        _flying.append(self)
        self._kernel((len(batch) * blocks,), (_BLOCK,), (int(self._memory.ptr), blocks))
        self.done.record(self.stream)
        assert used <= _ROOM

    def _write_table(self, batch: Sequence[Wanted]) -> int:
        """Fill the table; how much of the memory is in use then."""
        heads = [len(batch) + sum(6 + 3 * len(each.axes) for each in batch[:n]) for n in range(len(batch))]
        words, at = list(heads), heads[-1] + 6 + 3 * len(batch[-1].axes)
        listed: dict[int, tuple[int, Words]] = {}
        for each in batch:
            for axis in each.axes:
                if axis.places is not None and id(axis.places) not in listed:
                    listed[id(axis.places)] = at, axis.places
                    at += axis.length
        self._starts = []
        free = at * _WORD
        for each in batch:
            free = -(-free // 16) * 16
            self._starts.append(free)
            source, step = int(each.array.data.ptr) + each.start, int(each.array.itemsize)
            words += [source, self._memory.ptr + free, step, _unit(source, step, each.axes), each.size]
            words.append(len(each.axes))
            for axis in each.axes:
                words += [axis.length, axis.stride]
                words.append(0 if axis.places is None else listed[id(axis.places)][0])
            free += each.size * step
        self._words[: len(words)] = words
        for start, places in listed.values():
            self._words[start : start + len(places)] = places
        return free

    def collect(self) -> None:
        """Copy what has come to where it belongs."""
        for (_, target), start in zip(self._batch, self._starts, strict=True):
            target.view(np.uint8)[:] = self._bytes[start : start + target.nbytes]
        self._batch = ()
        _flying.remove(self)
