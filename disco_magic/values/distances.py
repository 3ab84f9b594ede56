"""How far apart numbers are, element by element: without wrapping around, and also if some are NaN."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def equal(one: Array, other: Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Whether elements are equal; what is not equal to itself (NaN, NaT) counts as equal to its like.

    Of records of one dtype: whether all of their fields are.
    """
    if one.dtype.names and one.dtype == other.dtype:
        return np.asarray(np.all([_equal_fields(one, other, name) for name in one.dtype.names], axis=0))
    with np.errstate(invalid="ignore"):
        nowhere = (one != one) & (other != other)  # noqa: PLR0124 - NaN, of every dtype that has one
        return np.asarray((one == other) | nowhere, bool)


def _equal_fields(one: Array, other: Array, name: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Whether this field is equal, per record; it may be an array itself."""
    found = equal(one[name], other[name])
    return np.asarray(found.all(axis=tuple(range(one.ndim, found.ndim))))


def distance(one: Array, other: Array) -> Array:
    """``|one - other|`` of arrays of numbers of one shape; 0 exactly where they are `equal`.

    Integers of one dtype are subtracted exactly, all others as float64 or wider; for complex numbers the
    result is the magnitude of the difference. Infinity where only one of both is infinite, or only one is
    NaN.

    Returns:
        Unsigned integers for integers of one dtype, bools for bools, else floats without NaN.
    """
    kinds = one.dtype.kind + other.dtype.kind
    if one.dtype == other.dtype and kinds == "bb":
        return np.asarray(one ^ other)
    if one.dtype == other.dtype and kinds in ("ii", "uu"):
        # Differences that wrap around as signed numbers are right as unsigned ones.
        apart = np.maximum(one, other) - np.minimum(one, other)
        return np.asarray(apart).view(apart.dtype.str.replace("i", "u"))
    wide = np.longdouble if {one.dtype.char, other.dtype.char} & {"g", "G"} else np.float64
    if "c" in kinds:
        wide = np.result_type(wide, np.complex64).type
    with np.errstate(all="ignore"):
        apart = np.abs(one.astype(wide) - other.astype(wide))
        odd = ~np.isfinite(apart)
        if odd.any():
            apart[odd] = np.where(equal(one[odd], other[odd]), 0, np.inf)
    return np.asarray(apart)
