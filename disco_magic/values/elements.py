"""Access to the elements of an array, wherever it lives: a part at a time, as an array of NumPy.

From outside of the worker, which may be writing: what is read may be half old and half new. No code of the
value runs, and it is never copied as a whole.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from disco_magic.errors import NoPicture, Stopped, UsageMistake
from disco_magic.phrases import class_name
from disco_magic.values.distant import elements_of_cupy, elements_of_jax, elements_of_torch, lines_of
from disco_magic.values.frames import Column, array_of_column, column_of, is_frame, is_series
from disco_magic.values.kinds import is_gpu_array, is_jax_array, is_tensor
from disco_magic.values.samples import sample_of
from disco_magic.values.split_tensors import local_part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from disco_magic.values.windows import Cut, Shape

    Progress = Callable[[int, int], object]

Array = np.ndarray[Any, Any]
Index = tuple[Any, ...]

# Elements that are processed together: 8 MiB as float64.
CHUNK: Final = 1 << 20


class Elements(Protocol):
    """An array whose elements can be read."""

    shape: Shape
    name: str

    def __getitem__(self, index: Index) -> Array:
        """Return a part, to be used at once: a view where possible. Whole numbers drop their axis."""

    def lines(self, index: Index, chosen: list[list[int] | None]) -> Array:
        """Return some lines of a part: for each of its axes which, None for all."""

    def sample(self, count: int) -> Array:
        """Return at most `count` elements, spread over all of it, as an array of one axis."""


def elements_of(value: Any) -> Elements:
    """Return the elements of an array of NumPy, CuPy, PyTorch or JAX, or of a number of NumPy's.

    For a PyTorch DTensor, those that the worker has. Of a Series, or another column of a data frame, those
    that are numbers, without the labels.
    """
    value = local_part(value)
    kind = type(value)
    if issubclass(kind, np.ma.MaskedArray):
        raise NoPicture("masked arrays are not shown: what the mask hides would be; show .filled(...) of it")
    if issubclass(kind, np.ndarray | np.generic):
        return HostElements(np.asarray(value))
    if is_gpu_array(kind):
        return elements_of_cupy(value)
    if is_tensor(kind):
        return elements_of_torch(value)
    if is_jax_array(kind):
        return elements_of_jax(value)
    if is_frame(kind):
        raise NoPicture(f"a {class_name(value)} is not an array: choose one of its columns")
    if kind is Column or is_series(kind):
        return _of_column(value if kind is Column else column_of(value))
    from disco_magic.values.inside import Seen  # here, because it imports this file

    where = ""
    if Seen().has_parts(value):
        where = "; its parts may have: choose one of them"
    elif kind in (list, tuple) and value:
        where = "; give an array of it a name: x = np.array(...)"
    raise NoPicture(f"a value of type {class_name(value)} has no elements to show{where}")


def _of_column(column: Column) -> Elements:
    array = array_of_column(column)
    if array is None:
        raise NoPicture(f"elements of type {column.dtype} are not all numbers")
    return HostElements(array)


class HostElements:
    """Elements of an array of NumPy."""

    def __init__(self, array: Array) -> None:
        self.shape = array.shape
        self.name = str(array.dtype)
        self._array = array

    def __getitem__(self, index: Index) -> Array:
        return np.asarray(self._array[*index, ...])  # an array, also of a single Python object

    def lines(self, index: Index, chosen: list[list[int] | None]) -> Array:
        """See `Elements`."""
        part = self._array[*index, ...]
        if len(chosen) == 2 and chosen[0] is not None and chosen[1] is not None:
            return np.asarray(part[np.ix_(chosen[0], chosen[1])])  # copies no whole lines, however long
        return np.asarray(lines_of(part, chosen))

    def sample(self, count: int) -> Array:
        """See `Elements`."""
        return sample_of(self._array, count)


def plane_of(elements: Elements, cut: Cut, rows: range, columns: range) -> Array:
    """The elements of some rows and columns of a cut, as an array of two axes."""
    index = cut.to(slice(rows.start, rows.stop), slice(columns.start, columns.stop))
    return cut.arranged(elements[index])


class Walk:
    """Goes through arrays in parts, and reports its progress."""

    def __init__(self, total: int, chunk: int, progress: Progress | None) -> None:
        self.chunk = chunk
        self._done, self._total = 0, total
        self._progress = progress

    def parts(self, shape: Shape) -> Iterator[tuple[slice, ...]]:
        """Yield indices of parts that cover an array of `shape`, in C order."""
        for index in chunks_of(shape, self.chunk):
            yield index
            self.passed(math.prod(part.stop - part.start for part in index))

    def passed(self, count: int) -> None:
        """Note that `count` more elements were gone through."""
        self._done += count
        if self._progress is None:
            return
        if self._progress(self._done, self._total) is False and self._done < self._total:
            raise Stopped(f"stopped after {self._done:,} of {self._total:,} elements")


def chunks_of(shape: Shape, chunk: int) -> Iterator[tuple[slice, ...]]:
    """Yield indices of parts of at most `chunk` elements that cover an array of `shape`, in C order."""
    if 0 in shape:
        return
    split = 0  # the first axis of which one index fits into a chunk
    while split < len(shape) - 1 and math.prod(shape[split + 1 :]) > chunk:
        split += 1
    if split == len(shape):
        yield ()
        return
    length = max(1, chunk // math.prod(shape[split + 1 :]))
    rest = tuple(slice(0, each) for each in shape[split + 1 :])
    for outer in _places(shape[:split]):
        here = tuple(slice(position, position + 1) for position in outer)
        for start in range(0, shape[split], length):
            yield (*here, slice(start, min(start + length, shape[split])), *rest)


def _places(lengths: Shape) -> Iterator[tuple[int, ...]]:
    """As `itertools.product` of ranges, which would first make a tuple of each."""
    if not lengths:
        yield ()
        return
    for first in range(lengths[0]):
        for others in _places(lengths[1:]):
            yield (first, *others)


def check_count(what: str, given: object) -> int:
    """Return `given`, a number of elements, lines or bins."""
    if type(given) is not int or given < 1:
        raise UsageMistake(f"{what} is {given!r}, expected a whole number of at least 1")
    return given
