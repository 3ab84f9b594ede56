"""Which elements of an array are sampled, and statistics of the samples: for many small arrays at once.

NumPy releases the interpreter's lock in many calls, and a worker that is busy in Python returns it only after
5 ms. Tables of a thousand registers are drawn next to such workers. So samples are taken without such calls,
and those of one dtype and length are processed together.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from disco_magic.values.kinds import is_long

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Array = np.ndarray[Any, Any]

SAMPLE: Final = 65_536
# Adjacent elements are read from memory together.
_RUN: Final = 64
_GOLDEN: Final = 0.6180339887498949
# Elements per batch: many, as the lock may be released a few times per batch; but they stay in the cache.
_BATCH: Final = 1 << 17
_CODES: Final = 1 << 15


def sample_of(array: Array, sample: int = SAMPLE) -> Array:
    """At most `sample` elements of `array` as a 1-d array, evenly spread.

    A large array is sampled in runs of up to 64 elements, in C order. The distances between runs vary, so
    that rows whose length is a power of two are not sampled in a few columns only. They depend on the number
    of elements alone: arrays of one shape are sampled at the same places.
    """
    if array.size <= sample:
        return array.reshape(-1)
    run, starts = runs_of(array.size, sample)
    if not array.flags.c_contiguous:
        return np.asarray(array.flat[places_of(array.size, sample)])
    runs = array.size // run
    lines = array.reshape(-1)[: runs * run].reshape(runs, run)
    return lines.take(starts, axis=0).reshape(-1)  # indexing would release the lock


def runs_of(size: int, sample: int) -> tuple[int, Array]:
    """Where `sample_of` looks in more elements than `sample`: length of a run, and the runs' numbers.

    Run n begins at element n times the length. The numbers are intp, ascending.
    """
    run = max(1, min(_RUN, sample // 64))
    return run, _starts(size // run, sample // run)


@lru_cache(4)
def places_of(size: int, sample: int) -> Array:
    """Indices of the elements that `sample_of` takes, of more than `sample`; intp, ascending."""
    run, starts = runs_of(size, sample)
    return (starts[:, None] * run + np.arange(run)).reshape(-1)


@lru_cache(64)
def _starts(runs: int, count: int) -> Array:
    """Return `count` of `runs` numbers, ascending: one of each of `count` equal parts, at varying places."""
    part = np.arange(count)
    ratio = runs / count
    # The place within a part varies by 0.618 or -0.382 of `within`: in short parts, not of the whole part.
    within = ratio if ratio > 1.7 else ratio - 1.0
    return (part * ratio + part * _GOLDEN % 1.0 * within).astype(np.intp)


class Summary(NamedTuple):
    """Statistics of a sample.

    Attributes:
        minimum, mean, maximum: of the finite elements; None if there are none.
        nans, infs: how many elements are NaN, and infinite.
        histogram: counts of the finite ones in equal bins from `minimum` to `maximum`; () if there are none.
            If all are equal, they are in the bin in the middle, or the one after it.
    """

    minimum: float | None = None
    mean: float | None = None
    maximum: float | None = None
    nans: int = 0
    infs: int = 0
    histogram: tuple[int, ...] = ()


def is_number(dtype: np.dtype[Any]) -> bool:
    """Whether elements of a dtype are numbers: bool, integers, floats, complex ones, those of ml_dtypes."""
    # Records and raw bytes are np.void; bfloat16 also has kind V, but a type of its own, and is a number.
    return dtype.kind in "biufc" or (dtype.kind == "V" and not issubclass(dtype.type, np.void))


def nans_and_infs(array: Array) -> tuple[int, int]:
    """How many elements are NaN, and how many are infinite; 0 of those that are no numbers."""
    if not is_number(array.dtype) or array.dtype.kind in "biu":
        return 0, 0
    finite = int(np.count_nonzero(np.isfinite(array)))
    nans = 0 if finite == array.size else int(np.count_nonzero(np.isnan(array)))
    return nans, array.size - finite - nans


def float_type(dtype: np.dtype[Any]) -> type[np.floating[Any]]:
    """The float type that holds all numbers of a dtype, or their magnitudes; 64-bit integers are rounded."""
    if is_long(dtype):
        return np.longdouble
    is_single = issubclass(dtype.type, np.float32 | np.complex64) or dtype.itemsize <= 2
    return np.float32 if is_single else np.float64


def summaries(samples: Sequence[Array], bins: int = 16) -> list[Summary]:
    """Return the statistics of many samples, in their order; several times faster than one by one.

    Args:
        samples: 1-d arrays of numbers (`is_number`), of any dtypes and lengths; complex ones count by
            magnitude.
        bins: of the histograms, at most 10,000.
    """
    found: list[Summary] = [Summary()] * len(samples)
    alike: dict[tuple[np.dtype[Any], int], list[int]] = {}
    for number, sample in enumerate(samples):
        if sample.size:
            alike.setdefault((sample.dtype, sample.size), []).append(number)
    with np.errstate(all="ignore"):
        for (dtype, size), numbers in alike.items():
            count = max(1, min(len(numbers), _BATCH // size, _CODES // (bins + 1)))
            bench = _Bench(count, size, dtype, bins)
            for first in range(0, len(numbers), bench.count):
                batch = numbers[first : first + bench.count]
                told = bench.summaries([samples[number] for number in batch])
                for number, summary in zip(batch, told, strict=True):
                    found[number] = summary
    return found


class _Bench:
    """Working memory for samples of one dtype and length, `count` at a time.

    It is reused for the next ones: allocating memory takes twice as long as the arithmetic.
    """

    def __init__(self, count: int, size: int, dtype: np.dtype[Any], bins: int) -> None:
        self.count = count
        self._bins = bins
        self._rows = np.empty((count, size), float_type(dtype))
        self._places = np.empty_like(self._rows)
        self._codes = np.empty((count, size), np.int16)
        self._numbers = np.empty((count, size), np.intp)

    def summaries(self, samples: list[Array]) -> Iterator[Summary]:
        """Yield the statistics of each sample; to be consumed before the next call."""
        rows = self._rows[: len(samples)]
        if samples[0].dtype.kind == "c":
            samples = [np.abs(sample) for sample in samples]
        np.concatenate(samples, out=rows.reshape(-1), casting="unsafe")
        low, high = np.minimum.reduce(rows, axis=1), np.maximum.reduce(rows, axis=1)
        total = np.add.reduce(rows, axis=1).astype(np.result_type(rows, np.float64))
        mean = np.minimum(np.maximum(total / rows.shape[1], low), high)  # the sum was rounded
        constant = low == high
        ratio = np.where(constant, 0, self._bins / (high - low))
        # Unusual are rows with NaNs or infinite elements, or with a span too large or too small for floats.
        usual = np.isfinite(total) & np.isfinite(ratio) & (constant | (ratio > 0))
        counts = self._histograms(rows, low, ratio, usual)
        counts[constant, 0] = 0
        counts[constant, self._bins // 2] = rows.shape[1]
        columns = [column.astype(np.float64).tolist() for column in (low, mean, high)]
        facts = zip(rows, usual.tolist(), *columns, counts.tolist(), strict=True)
        for row, is_usual, minimum, average, maximum, histogram in facts:
            if is_usual:
                yield Summary(minimum, average, maximum, 0, 0, tuple(histogram))
            else:
                yield _unusual(row, self._bins)

    def _histograms(self, rows: Array, low: Array, ratio: Array, usual: Array) -> Array:
        """Per `usual` row, counts in bins from `low`, `ratio` of them per unit; arbitrary for other rows."""
        places, codes, numbers = (a[: len(rows)] for a in (self._places, self._codes, self._numbers))
        np.subtract(rows, low[:, None], out=places)
        np.multiply(places, ratio[:, None], out=places)
        np.copyto(codes, places, casting="unsafe")  # narrow integers first: that takes a fifth of the time
        if not usual.all():
            codes[~usual] = 0
        # The largest elements are counted in a bin of their own at first.
        stride = self._bins + 1
        codes += np.arange(0, len(rows) * stride, stride, dtype=np.int16)[:, None]
        np.copyto(numbers, codes)
        counts = np.bincount(numbers.reshape(-1), minlength=len(rows) * stride).reshape(len(rows), stride)
        counts[:, -2] += counts[:, -1]
        return counts[:, :-1]


def _unusual(row: Array, bins: int) -> Summary:
    finite = row[np.isfinite(row)]
    nans, infs = nans_and_infs(row)
    if not finite.size:
        return Summary(nans=nans, infs=infs)
    finite = finite.astype(np.result_type(row, np.float64))
    low, high, mean = finite.min(), finite.max(), finite.mean()
    span = high - low
    # Multiplied by a power of two, sum, range and inverse of the range are finite.
    scale = 1.0
    if not (np.isfinite(span) and np.isfinite(mean)):
        scale, mean = 2.0**-64, (finite / finite.size).sum()
    elif span and np.isinf(bins / span):
        scale = 2.0**500
    (scaled,) = summaries([finite * scale], bins)
    return Summary(float(low), float(mean), float(high), nans, infs, scaled.histogram)
