"""Exact statistics, and a description, of all elements of an array, computed a part at a time."""

from __future__ import annotations

import hashlib
import math
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from disco_magic.errors import NoPicture
from disco_magic.values.describe import describe
from disco_magic.values.digests import digest_of
from disco_magic.values.elements import CHUNK, Walk, check_count, chunks_of, elements_of
from disco_magic.values.frames import is_series
from disco_magic.values.pictures import numbers
from disco_magic.values.samples import nans_and_infs

if TYPE_CHECKING:
    from disco_magic.core.snapshot import RegisterInfo
    from disco_magic.values.elements import Array, Progress


@dataclass(frozen=True, slots=True)
class FullStatistics:
    """Statistics of all elements of an array; complex ones by their magnitude.

    Attributes:
        minimum, maximum: of the finite elements, exact; int for integers and bools. None if there are none.
        mean, std: of the finite elements, computed in float64 or wider; `std` divides by their number.
        nans, infs, zeros: how many are NaN, infinite, 0.
        size: how many there are.
    """

    minimum: float | None
    mean: float | None
    maximum: float | None
    std: float | None
    nans: int
    infs: int
    zeros: int
    size: int


def statistics_of(value: Any, progress: Progress | None = None, chunk: int = CHUNK) -> FullStatistics:
    """Statistics of all elements of an array of numbers, of NumPy, CuPy, PyTorch or JAX.

    Args:
        value: the array.
        progress: called as ``progress(done, total)``, in elements, after each part; returning False stops,
            and exceptions that it raises propagate.
        chunk: elements per part.

    Raises:
        NoPicture: it is no array of numbers.
        Stopped: `progress` returned False before the end.

    Cost: 5 to 15 ns per element in one thread; memory of a few parts.
    """
    elements = elements_of(value)
    size = math.prod(elements.shape)
    running = _Running()
    for index in Walk(size, check_count("chunk", chunk), progress).parts(elements.shape):
        running.add(numbers(elements[index], elements.name).reshape(-1))
    return running.told(size)


class _Running:
    """Statistics of the elements that were added so far."""

    def __init__(self) -> None:
        self._low: Any = None
        self._high: Any = None
        self._count = self._nans = self._infs = self._zeros = 0
        self._mean: Any = 0.0
        self._squares: Any = 0.0  # the sum of squared distances from the mean

    def add(self, part: Array) -> None:
        """Add elements, at least one."""
        with np.errstate(all="ignore"):
            self._zeros += part.size - int(np.count_nonzero(part))
            exact = np.abs(part) if part.dtype.kind == "c" else part
            if exact.dtype.kind not in "biu":
                exact = exact.astype(
                    np.result_type(exact, np.float64) if exact.dtype.kind == "f" else np.float64
                )
                exact = self._finite(exact)
            if exact.size:
                self._join(exact)

    def _finite(self, floats: Array) -> Array:
        nans, infs = nans_and_infs(floats)
        self._nans += nans
        self._infs += infs
        return floats[np.isfinite(floats)] if nans or infs else floats

    def _join(self, exact: Array) -> None:
        low, high = exact.min().item(), exact.max().item()
        self._low = low if self._low is None else min(self._low, low)
        self._high = high if self._high is None else max(self._high, high)
        floats = exact.astype(np.float64) if exact.dtype.kind in "biu" else exact
        mean = floats.mean()
        squares = np.square(floats - mean).sum()
        # Chan, Golub and LeVeque: stable, where sums of squares would cancel.
        count = self._count + floats.size
        apart = mean - self._mean
        self._squares += squares + apart * apart * (self._count * (floats.size / count))
        self._mean += apart * (floats.size / count)
        self._count = count

    def told(self, size: int) -> FullStatistics:
        """The result."""
        counts = (self._nans, self._infs, self._zeros, size)
        if not self._count:
            return FullStatistics(None, None, None, None, *counts)
        low, high = (int(end) if isinstance(end, int) else float(end) for end in (self._low, self._high))
        std = float(np.sqrt(self._squares / self._count))
        return FullStatistics(low, float(self._mean), high, std, *counts)


def describe_wholly(value: Any, progress: Progress | None = None) -> RegisterInfo:
    """As `describe`; an array of which that looks at a sample is read as a whole, but for its histogram.

    Cost: 10 ns per element in one thread; memory of a few parts.
    """
    info = describe(value)
    if not info.sampled or info.dtype is None:
        return info
    with suppress(NoPicture):  # its elements are no numbers
        found = statistics_of(value, progress)
        return replace(
            info,
            minimum=found.minimum,
            mean=found.mean,
            maximum=found.maximum,
            nans=found.nans,
            infs=found.infs,
            fingerprint=_digest(value) + (info.fingerprint if is_series(type(value)) else b""),  # its labels
            sampled=False,
        )
    return info


def _digest(value: Any) -> bytes:
    """Equal for equal bits of arrays of one shape and dtype."""
    elements, made = elements_of(value), hashlib.blake2b(digest_size=16)
    for index in chunks_of(elements.shape, CHUNK):
        made.update(digest_of(elements[index]))
    return made.digest()
