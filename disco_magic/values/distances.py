"""How far apart numbers are, element by element: without wrapping around, and also if some are NaN."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from disco_magic.values.kinds import is_long

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
