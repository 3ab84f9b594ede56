"""Which elements are looked at, and what many samples say at once."""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
import pytest

from disco_magic.values.samples import SAMPLE, Summary, float_type, is_number, sample_of, summaries
from tests.sampled import in_turn

ml_dtypes = pytest.importorskip("ml_dtypes")

DTYPES = [
    *(
        "?",
        "i1",
        "u1",
        "i2",
        "u2",
        "i4",
        "u4",
        "i8",
        "u8",
        "f2",
        "f4",
        "f8",
        "g",
        "c8",
        "c16",
        "G",
        ">f4",
        ">i2",
    ),
    *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.int4),
]


def random(dtype, size, seed=0):
    with np.errstate(invalid="ignore"):  # ml_dtypes 0.7 warns of numbers that do not fit into 4 bits
        return (np.random.default_rng(seed).normal(size=size) * 3).astype(dtype)


# --- samples ---------------------------------------------------------------------------------------


def test_a_small_array_is_its_own_sample():
    assert sample_of(np.arange(6).reshape(2, 3)).tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("count", [SAMPLE, 8192])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("columns", [64, 1000, 1024, 4096])
def test_a_sample_is_spread_over_all_columns(order, columns, count):
    array = np.asarray(np.broadcast_to(np.arange(columns), ((1 << 22) // columns, columns)), order=order)
    sample = sample_of(array, count)
    assert sample.size <= count
    assert len(np.unique(sample // 64)) >= 0.6 * columns / 64
    assert count < SAMPLE or len(np.unique(sample)) == columns


def test_a_sample_has_an_element_of_every_thirtieth_of_the_array():
    sample = sample_of(np.arange(1_000_003), 2048)
    assert len(np.unique(sample * 16 // 1_000_003)) == 16
    assert sample.size == 2048
    assert (np.diff(sample) > 0).all()


@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 100, 1023, 1024, 5000])
@pytest.mark.parametrize("size", [2, 17, 6000, 65_537])
def test_a_sample_has_about_as_many_elements_as_were_asked_for_and_never_more(size, count):
    sample = sample_of(np.arange(size), count)
    assert min(size, count) * 0.9 <= sample.size <= count
    assert (sample.size < size) is (size > count)
    assert len(set(sample.tolist())) == sample.size


@pytest.mark.parametrize("dtype", [*DTYPES, "M8[s]", "S3", "U2", "V5", [("a", "i4"), ("b", "f8")]], ids=str)
def test_strides_do_not_change_what_is_sampled(dtype):
    raw = np.random.default_rng(0).integers(0, 60, 30_000 * np.dtype(dtype).itemsize, np.uint8)
    array = raw.view(np.dtype(dtype)).reshape(100, 300)
    one = sample_of(array, 1000)
    other = sample_of(np.asfortranarray(array), 1000)
    assert one.dtype == other.dtype == array.dtype
    assert [repr(each) for each in one] == [repr(each) for each in other]
    assert one.size > 900


def test_objects_are_sampled_too():
    sample = sample_of(np.array([None, "text"] * 50), 10)
    assert set(sample.tolist()) <= {None, "text"}
    assert sample.size == 10


# --- summaries -------------------------------------------------------------------------------------


def expected(array, bins):
    """The same with NumPy's own functions, one by one."""
    numbers = np.abs(array) if array.dtype.kind == "c" else array
    numbers = numbers.astype(float_type(array.dtype))
    finite = numbers[np.isfinite(numbers)]
    nans = int(np.isnan(numbers).sum())
    if not finite.size:
        return Summary(nans=nans, infs=numbers.size - nans)
    low, high = finite.min(), finite.max()
    if low == high:
        counts = [0] * bins
        counts[bins // 2] = finite.size
    else:
        counts = np.histogram(finite.astype("f8"), bins, (low, high))[0].tolist()
    infs = numbers.size - nans - finite.size
    return Summary(float(low), float(finite.astype("f8").mean()), float(high), nans, infs, tuple(counts))


def check(found, wanted):
    if wanted.mean is None:
        assert found == wanted
        return
    assert (found.minimum, found.maximum, found.nans, found.infs) == (
        wanted.minimum,
        wanted.maximum,
        wanted.nans,
        wanted.infs,
    )
    assert found.mean == pytest.approx(wanted.mean, rel=1e-6, abs=1e-6)
    assert sum(found.histogram) == sum(wanted.histogram)
    # Rounded to float32, an element on an edge may fall into the bin beside.
    assert np.abs(np.subtract(found.histogram, wanted.histogram)).sum() <= 2


@pytest.mark.parametrize(("case", "bins"), in_turn([*product(DTYPES, [1, 2, 100, 3000])], [1, 16, 33]))
def test_a_summary_says_what_numpy_says(case, bins):
    dtype, size = case
    array = random(dtype, size)
    (found,) = summaries([array], bins)
    check(found, expected(array, bins))


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    "dtype", ["f2", "f4", "f8", "g", "c8", ml_dtypes.bfloat16, ml_dtypes.float8_e5m2], ids=str
)
def test_what_is_not_finite_is_counted_and_left_out(dtype, odd):
    array = random(dtype, 500)
    array[7::100] = odd
    (found,) = summaries([array])
    check(found, expected(array, 16))
    assert found.nans + found.infs == 5


def test_nothing_finite_means_no_statistics_but_counts():
    assert summaries([np.array([np.nan, np.inf, -np.inf, np.nan])]) == [Summary(nans=2, infs=2)]


def test_many_samples_are_told_apart_whatever_their_lengths_and_dtypes():
    arrays = [
        random(dtype, size, seed) for seed in range(9) for size in (0, 3, 700) for dtype in ("f4", "f8", "i2")
    ]
    arrays[10] = np.array([np.nan, 1.0, 3.0], "f4")
    found = summaries(arrays)
    for array, summary in zip(arrays, found, strict=True):
        check(summary, expected(array, 16) if array.size else Summary())
    assert found == [summaries([array])[0] for array in arrays]


def test_more_samples_than_are_gone_through_at_once():
    arrays = [np.full(4, number) for number in range(5000)]
    found = summaries(arrays)
    assert [summary.minimum for summary in found] == list(range(5000))
    assert {summary.histogram for summary in found} == {(*(0,) * 8, 4, *(0,) * 7)}


def test_a_large_sample_is_one_batch_of_its_own():
    (found,) = summaries([random("f8", 200_000)])
    check(found, expected(random("f8", 200_000), 16))


@pytest.mark.parametrize(
    ("values", "mean"),
    [
        ([-1.7e308, 1.7e308, 1.7e308, 1.7e308], 0.85e308),
        ([0.0, 5e-324, 1e-323, 1e-323], 5e-324),
        ([1e308] * 20 + [0.0] * 20, 5e307),
        ([1e-310, 3e-310, 2e-310, 2e-310], 2e-310),
        ([1.0, np.nextafter(1.0, 2)], 1.0),
    ],
    ids=["wide", "narrow", "large sum", "small", "neighbours"],
)
def test_no_range_is_too_wide_or_too_narrow(values, mean):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (found,) = summaries([np.array(values)])
    assert found.mean == pytest.approx(mean)
    assert (found.minimum, found.maximum) == (min(values), max(values))
    assert sum(found.histogram) == len(values)
    assert found.histogram[0] == values.count(min(values))
    assert found.histogram[15] == values.count(max(values))


def test_integers_do_not_wrap_around():
    (signed, unsigned, small) = summaries(
        [np.array([-(2**63), 2**63 - 1]), np.array([0, 2**64 - 1], "u8"), np.array([-128, 127] * 300, "i1")]
    )
    assert (signed.minimum, signed.maximum) == (-(2.0**63), 2.0**63)
    assert (unsigned.minimum, unsigned.mean, unsigned.maximum) == (0, 2.0**63, 2.0**64)
    assert (small.minimum, small.mean, small.maximum) == (-128, -0.5, 127)
    assert signed.histogram == unsigned.histogram == (1, *(0,) * 14, 1)


def test_an_element_on_an_edge_is_in_the_bin_above_and_the_largest_in_the_last():
    (found,) = summaries([np.arange(17, dtype="f4")])
    assert found.histogram == (*(1,) * 15, 2)


@pytest.mark.parametrize(
    ("dtype", "number"),
    [
        *(("?", True), ("u1", True), ("c8", True), (ml_dtypes.bfloat16, True), ("V2", False), ("O", False)),
        *(("S1", False), ("U1", False), ("M8[s]", False), ("m8[s]", False), ([("a", "f4")], False)),
    ],
    ids=str,
)
def test_what_is_a_number(dtype, number):
    assert is_number(np.dtype(dtype)) is number
