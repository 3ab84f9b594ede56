"""Shapes as callers write them, refused where they are named and not where memory is allocated."""

from __future__ import annotations

import math
import operator
import reprlib
import sys
from typing import Any, Final, SupportsIndex

import numpy as np

from disco_magic.core.numbers import whole_number
from disco_magic.errors import UsageMistake
from disco_magic.phrases import class_name

_MOST_AXES: Final = 64 if int(np.__version__.partition(".")[0]) >= 2 else 32  # NumPy's own limit


def lengths_of(shape: object) -> tuple[int, ...]:
    """A shape as its caller wrote it; a number is one axis."""
    alone = isinstance(shape, SupportsIndex) and not getattr(shape, "ndim", 0)  # an array is several lengths
    lengths: Any = (shape,) if alone else shape
    if isinstance(shape, bool):
        raise TypeError("a shape is given as whole numbers")
    return tuple(operator.index(length) for length in lengths)


def counts_of(verb: str, counts: Any) -> tuple[int, ...]:
    """Counts as a caller wrote them: a list, or an array or tensor on any device."""
    given = counts.tolist() if hasattr(counts, "tolist") else counts
    if isinstance(given, list | tuple | range):
        numbers = tuple(number for number in map(whole_number, given) if number is not None)
        if len(numbers) == len(given) and all(abs(number) <= sys.maxsize for number in numbers):
            return numbers
    try:
        shown = reprlib.repr(given)
    except ValueError:  # Python does not write numbers of thousands of digits
        shown = f"a {class_name(counts)}"
    raise UsageMistake(f"{verb}: counts={shown} - expected a list of whole numbers, one per member")


def check_shape(where: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Check that NumPy can have such an array, given enough memory; `where` begins the error."""
    # An axis of length 0 does not make up for the others: NumPy computes strides all the same.
    nbytes = math.prod(max(1, length) for length in shape[:_MOST_AXES]) * dtype.itemsize
    if any(length < 0 for length in shape):
        why = "it has a negative length"
    elif len(shape) > _MOST_AXES:
        why = f"{len(shape)} axes, NumPy has at most {_MOST_AXES}"
    elif nbytes > sys.maxsize:
        why = f"it takes 2^{nbytes.bit_length() - 1} bytes or more"
    else:
        return
    raise UsageMistake(f"{where}: there is no array of shape {shape}: {why}")
