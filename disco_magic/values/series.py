"""Numbers one after the other, such as losses: from an array of one axis, or a list of numbers."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.errors import NoPicture
from disco_magic.phrases import class_name
from disco_magic.values.elements import elements_of
from disco_magic.values.kinds import is_array_of_any, is_numpy_number
from disco_magic.values.pictures import as_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.values.pictures import Floats

    Point = tuple[int, float]

_LISTS: Final = (list, tuple, deque)
_NUMBERS: Final = (int, float, bool)
_SEEN: Final = 512


def length_of_series(value: Any) -> int:
    """How many numbers `series_of` is about.

    Raises:
        NoPicture: it is neither a list nor an array of one axis.
    """
    if type(value) in _LISTS:
        return len(value)
    shape = elements_of(value).shape
    if sum(length != 1 for length in shape) > 1:
        raise NoPicture(f"an array of shape {shape} is no line: give one with a single axis a name")
    return math.prod(shape)


def series_of(value: Any, step: int = 1) -> tuple[Point, ...]:
    """Return numbers with their places: all, or of each `step`, about, two that show its ends.

    Args:
        value: an array with at most one axis that is longer than 1, of NumPy, CuPy, PyTorch or JAX, complex
            numbers by their magnitude; or a list, tuple or deque of numbers, or of arrays of one element.
        step: 1 for all numbers, else even: of so many, the least and the largest, in the order in which they
            are found, at the places of the first and the middle one. Instead of one of these, one that is not
            finite, if there is any: a single NaN is not lost. Of more than 512 to 1,023 numbers per step,
            some are left out, evenly.

    Raises:
        NoPicture: it is no such array or list.
    """
    length_of_series(value)  # refuses what is no line
    every = max(1, step // _SEEN)
    numbers = _numbers(value, every)
    if step == 1:
        return tuple(enumerate(numbers.tolist()))
    width = step // every // 2 * 2
    parts = ((first, numbers[first : first + width]) for first in range(0, len(numbers), width))
    return tuple(
        point
        for first, part in parts
        for point in zip((first * every, (first + width // 2) * every), _ends(part), strict=False)
    )


def _numbers(value: Any, every: int) -> Floats:
    if type(value) in _LISTS:
        # A copy first, in one step: another thread may be adding to it.
        return np.array([_number(item) for item in list(value)[::every]], np.float64)
    elements = elements_of(value)
    index = tuple(slice(0, length, every if length > 1 else 1) for length in elements.shape)
    return as_numbers(elements[index], elements.name).reshape(-1)


def _ends(part: Floats) -> Sequence[float]:
    odd: list[float] = part[~np.isfinite(part)][:1].tolist()
    finite = np.where(np.isfinite(part), part, np.nan)
    if len(odd) == len(part) or np.isnan(finite).all():
        return odd
    places = sorted({int(np.nanargmin(finite)), int(np.nanargmax(finite))})
    return [*part[places].tolist()[: 2 - len(odd)], *odd]


def _number(item: Any) -> float:
    kind = type(item)
    if kind in _NUMBERS or is_numpy_number(kind):
        return float(abs(item) if isinstance(item, complex) else item)
    if is_array_of_any(kind):
        elements = elements_of(item)
        if math.prod(elements.shape) == 1:
            return float(as_numbers(elements.sample(1), elements.name)[0])
    raise NoPicture(f"it has values of type {class_name(item)}, which are not numbers")
