"""How far apart numbers are, element by element; and arrays that differ, on a sample and in a sentence.

Without wrapping around, and also if some are NaN.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.errors import NoPicture
from disco_magic.values.columns import alone, facts_of
from disco_magic.values.elements import elements_of
from disco_magic.values.frames import Column
from disco_magic.values.kinds import is_gpu_array, is_long, is_of_framework
from disco_magic.values.samples import SAMPLE, is_number, places_of, sample_of
from disco_magic.values.split_tensors import local_part

if TYPE_CHECKING:
    from collections.abc import Sequence


Array = np.ndarray[Any, Any]

_WHOLE: Final = 8  # bytes of the integers that float64 rounds; `numpy.longdouble` usually holds them


def equal(one: Array, other: Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Whether elements are equal; what is not equal to itself (NaN, NaT) counts as equal to its like.

    Of records of one dtype: whether all of their fields are.
    """
    if one.dtype.names and one.dtype == other.dtype:
        return np.asarray(np.all([_equal_fields(one, other, name) for name in one.dtype.names], axis=0))
    one, other = _alike(one, other)
    with np.errstate(invalid="ignore"):
        nowhere = (one != one) & (other != other)  # noqa: PLR0124 - NaN, of every dtype that has one
        return np.asarray((one == other) | nowhere, bool)


def _alike(one: Array, other: Array) -> tuple[Array, Array]:
    """Both in the machine's order of bytes, and integers of 64 bits as what holds the other numbers, too."""
    if one.dtype == other.dtype:
        return one, other
    kinds = {one.dtype.kind, other.dtype.kind}
    one, other = (each.astype(each.dtype.newbyteorder("="), copy=False) for each in (one, other))
    whole = [each.dtype.itemsize for each in (one, other) if each.dtype.kind in "iu"]
    if one.dtype == other.dtype or not kinds <= set("biuf") or _WHOLE not in whole:
        return one, other
    common = np.result_type(one, other)
    wide = common if common.kind in "iu" else np.dtype(np.longdouble)
    return one.astype(wide), other.astype(wide)


def _equal_fields(one: Array, other: Array, name: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Whether this field is equal, per record; it may be an array itself."""
    found = equal(one[name], other[name])
    return np.asarray(found.all(axis=tuple(range(one.ndim, found.ndim))))


def distance(one: Array, other: Array) -> Array:
    """``|one - other|`` of arrays of numbers of one shape; 0 exactly where they are `equal`.

    Integers are subtracted exactly if one dtype holds both, all others as float64, or wider for integers of
    64 bits; for complex numbers the result is the magnitude of the difference. Infinity where only one of
    both is infinite, or only one is NaN.

    Returns:
        Unsigned integers for integers that were subtracted exactly, bools for bools, else floats without NaN.
    """
    is_wide = is_long(one.dtype) or is_long(other.dtype)
    one, other = _alike(one, other)
    kinds = one.dtype.kind + other.dtype.kind
    if one.dtype == other.dtype and kinds == "bb":
        return np.asarray(one ^ other)
    if one.dtype == other.dtype and kinds in ("ii", "uu"):
        # Differences that wrap around as signed numbers are right as unsigned ones.
        apart = np.maximum(one, other) - np.minimum(one, other)
        return np.asarray(apart).view(apart.dtype.str.replace("i", "u"))
    wide = np.longdouble if is_long(one.dtype) or is_long(other.dtype) else np.float64
    if "c" in kinds:
        wide = np.result_type(wide, np.complex64).type
    with np.errstate(all="ignore"):
        apart = np.abs(one.astype(wide) - other.astype(wide))
        odd = ~np.isfinite(apart)
        if odd.any():
            apart[odd] = np.where(equal(one[odd], other[odd]), 0, np.inf)
        if is_long(apart.dtype) and not is_wide:  # no difference of integers becomes 0
            apart = apart.astype(np.float64)
    return np.asarray(apart)


MOST_ELEMENTS: Final = 1 << 22
"""Arrays of up to so many elements, a tenth of a second's work, are compared whole; larger ones in part."""


def most_of(shape: tuple[int, ...]) -> int:
    """How many elements of an array of that shape are compared with another's."""
    size = math.prod(shape)
    return size if size <= MOST_ELEMENTS else SAMPLE


def elements_compared(value: Any) -> Array | None:
    """The elements of an array, tensor or column, on the host; None for anything else.

    Large arrays are sampled; arrays of the same size and kind are sampled at the same places.
    """
    value = local_part(value)
    kind = type(value)
    if is_of_framework(kind):
        with suppress(NoPicture):
            elements = elements_of(value)
            return elements.sample(most_of(elements.shape))
    if not is_gpu_array(kind):
        array = np.asarray(value) if issubclass(kind, np.ndarray) else None
        if kind is Column:
            array = alone(facts_of(value))
        return None if array is None else sample_of(array, max(1, most_of(array.shape)))
    if value.size == most_of(value.shape):
        return np.asarray(value.get()).reshape(-1)
    places = np.unravel_index(places_of(value.size, SAMPLE), value.shape)
    return np.asarray(value[tuple(axis.tolist() for axis in places)].get())


def is_of(sample: Array, shape: tuple[int, ...]) -> bool:
    """Whether `sample` can be of an array of that shape: it was taken later than the shape."""
    size = math.prod(shape)
    return sample.size == size if size <= MOST_ELEMENTS else sample.size <= SAMPLE


def gap(samples: Sequence[Array], shape: tuple[int, ...], whose: str = "the first worker's") -> str:
    """``3 of 16 elements differ from the first worker's, by up to 1.2e-07, the first at [2, 1]``.

    Args:
        samples: one of each worker, all of one shape `(k,)` and dtype; all elements in C order, or fewer.
        shape: of the whole arrays.
        whose: owner of the first one, in words.
    """
    first, count, size = samples[0], samples[0].size, math.prod(shape)
    apart, nowhere = np.zeros(count, bool), np.zeros(count, bool)
    furthest, finite = 0.0, True
    for other in samples[1:]:
        if is_number(first.dtype):
            distances = distance(first, other)
            apart |= distances != 0
            finite = finite and bool(np.isfinite(distances).all())
            nowhere |= (first != first) != (other != other)  # noqa: PLR0124 - NaN, of every dtype that has one
            furthest = max(furthest, float(np.max(distances, initial=0, where=np.isfinite(distances))))
        else:
            apart |= ~equal(first, other)
    differing = int(np.count_nonzero(apart))
    if not differing:
        if count < size:
            return f"none of the {count:,} elements that were compared, of {size:,}, differs as a number"
        return "as numbers they are equal: signs of zeros differ, or bits of NaNs"
    of = f"{count:,} sampled elements" if count < size else f"{count:,} elements"
    by = f", by up to {furthest:.3g}{'' if finite else ' where both are finite'}" if furthest else ""
    lost = int(np.count_nonzero(nowhere))
    odd = f"; {lost:,} {'is' if lost == 1 else 'are'} NaN in some only" if lost else ""
    where = "" if differing == count or count < size else _place(int(apart.argmax()), shape, differing)
    return f"{differing:,} of {of} differ{'s' * (differing == 1)} from {whose}{by}{where}{odd}"


def _place(number: int, shape: tuple[int, ...], differing: int) -> str:
    """Say where the element is that differs, the first one of so many."""
    index = ", ".join(str(int(each)) for each in np.unravel_index(number, shape))
    return f", {'the first ' * (differing > 1)}at [{index}]"
