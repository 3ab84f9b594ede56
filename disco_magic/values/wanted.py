"""Which elements of arrays on a GPU are to be fetched: by strides, axis by axis."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from disco_magic.values.samples import places_of, runs_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Array = np.ndarray[Any, Any]
Words = np.ndarray[Any, np.dtype[np.int64]]

WORD: Final = 8
"""Bytes of a number in the table of what is fetched."""
APART: Final = 16
"""Fetched arrays begin at multiples of this many bytes."""
_HEAD: Final = 7  # numbers per array, not counting those per axis


class Axis(NamedTuple):
    """One axis of what is fetched.

    Attributes:
        length: number of elements along it.
        stride: bytes from one to the next.
        places: int64, which ones, as multiples of the stride; None: 0, 1, 2, ...
    """

    length: int
    stride: int
    places: Words | None = None

    def cut(self, start: int, stop: int) -> tuple[int, Axis]:
        """Return how many bytes after its start a part of it begins, and that part."""
        if self.places is None:
            return start * self.stride, Axis(stop - start, self.stride)
        return 0, Axis(stop - start, self.stride, self.places[start:stop])


class Wanted(NamedTuple):
    """Elements to fetch, in C order of `axes`.

    Attributes:
        array: of cupy; kept alive until the elements are fetched.
        axes: () for a single element.
        start: bytes from the array's first element to the first of these.
    """

    array: Any
    axes: tuple[Axis, ...]
    start: int = 0

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(axis.length for axis in self.axes)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, and of their entries in the table."""
        lists = sum(axis.length for axis in self.axes if axis.places is not None)
        return self.size * int(self.array.itemsize) + WORD * (lists + _HEAD + 3 * len(self.axes)) + APART


def whole(array: Any) -> Wanted:
    """All elements of an array."""
    if array.flags.c_contiguous:
        return Wanted(array, (Axis(int(array.size), int(array.itemsize)),))
    return Wanted(array, tuple(map(Axis, array.shape, array.strides)))


def sampled(array: Any, sample: int) -> Wanted:
    """The elements that `sample_of` would take."""
    size = int(array.size)
    if size <= sample:
        return whole(array)
    if array.flags.c_contiguous:
        run, starts = runs_of(size, sample)
        step = int(array.itemsize)
        return Wanted(array, (Axis(len(starts), run * step, starts), Axis(run, step)))
    places = places_of(size, sample)
    offsets = np.zeros(len(places), np.int64)
    for index, stride in zip(np.unravel_index(places, array.shape), array.strides, strict=True):
        offsets += index * stride
    return Wanted(array, (Axis(len(offsets), 1, offsets),))


def batches(
    wanted: Sequence[Wanted], found: Sequence[Array], room: int
) -> Iterator[list[tuple[Wanted, Array]]]:
    """Yield pieces of what is wanted, with their destinations, as many at a time as fit into `room` bytes.

    `found` has, for each of `wanted`, an array of one axis with room for its elements.
    """
    batch: list[tuple[Wanted, Array]] = []
    left = room
    for each, target in zip(wanted, found, strict=True):
        start = 0
        for piece in _pieces(each, room):
            if piece.nbytes > left:
                yield batch
                batch, left = [], room
            batch.append((piece, target[start : start + piece.size]))
            start, left = start + piece.size, left - piece.nbytes
    if batch:
        yield batch


def _pieces(wanted: Wanted, room: int) -> Iterator[Wanted]:
    """Yield parts that fit into `room` bytes, in C order; none if there are no elements."""
    if not wanted.size:
        return
    if wanted.nbytes <= room:
        yield wanted
        return
    number = next(n for n, axis in enumerate(wanted.axes) if axis.length > 1)
    axis = wanted.axes[number]
    half = axis.length // 2
    for start, stop in ((0, half), (half, axis.length)):
        skipped, part = axis.cut(start, stop)
        axes = (*wanted.axes[:number], part, *wanted.axes[number + 1 :])
        yield from _pieces(Wanted(wanted.array, axes, wanted.start + skipped), room)
