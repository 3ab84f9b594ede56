"""Histograms and statistics of values, wherever they live."""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
import pytest

from disco_magic.errors import DiscoError, UsageMistake
from disco_magic.values.peek import Stopped, histogram_of, shared_ends, statistics_of
from tests.doubles.arrays import cupy_array
from tests.sampled import in_turn
from tests.values.values import MAKERS, NUMBERS, grid, wherever

# --- histograms ------------------------------------------------------------------------------------


@wherever
def test_a_histogram_counts_in_equal_bins(make):
    histogram = histogram_of(make(grid(8, 8)), 4)
    assert histogram.edges == (0.0, 15.75, 31.5, 47.25, 63.0)
    assert histogram.counts == (16, 16, 16, 16)
    assert (histogram.nans, histogram.infs, histogram.sampled, histogram.size) == (0, 0, False, 64)


@wherever
def test_a_histogram_of_a_large_array_is_of_a_sample(make):
    histogram = histogram_of(make(grid(100, 300)), 8, 1000)
    assert histogram.sampled
    assert 250 < sum(histogram.counts) <= 1000
    assert histogram.size == 30_000
    assert min(histogram.counts) > 0.5 * max(histogram.counts)


@pytest.mark.parametrize("bins", [1, 2, 3, 32, 1000])
@pytest.mark.parametrize("value", [0.0, 2.5, -1e20])
def test_equal_elements_are_in_the_bin_that_holds_them(value, bins):
    histogram = histogram_of(np.full(5, value), bins)
    (bin_,) = (index for index, count in enumerate(histogram.counts) if count)
    assert histogram.edges[bin_] <= value < histogram.edges[bin_ + 1]
    assert len(histogram.edges) == bins + 1
    assert list(histogram.edges) == sorted(set(histogram.edges))


def test_a_histogram_of_nothing_finite_has_no_bins():
    histogram = histogram_of(np.array([np.nan, np.inf]))
    assert (histogram.edges, histogram.counts, histogram.nans, histogram.infs) == ((), (), 1, 1)
    assert histogram_of(np.zeros(0)).size == 0


def test_edges_are_floats_however_wide_the_range():
    edges = histogram_of(np.array([-1.7e308, 1.7e308]), 4).edges
    assert edges == pytest.approx((-1.7e308, -0.85e308, 0.0, 0.85e308, 1.7e308))


def test_arrays_can_have_their_histograms_in_the_same_bins():
    arrays = [np.array([0.0, 1, 2]), np.array([10.0, np.nan]), np.zeros(0)]
    ends = shared_ends([histogram_of(array) for array in arrays])
    assert ends == (0.0, 10.0)
    shared = [histogram_of(array, 5, between=ends) for array in arrays]
    assert [each.edges for each in shared] == [(0.0, 2.0, 4.0, 6.0, 8.0, 10.0)] * 3
    assert [each.counts for each in shared] == [(2, 1, 0, 0, 0), (0, 0, 0, 0, 1), (0,) * 5]
    assert shared[1].nans == 1


@pytest.mark.parametrize("arrays", [[[1.0, 2], [1.0, 1.5, 2]], [[], [np.inf]], [[3.0]], []])
def test_arrays_with_equal_bins_or_without_any_need_no_others(arrays):
    assert shared_ends([histogram_of(np.array(array)) for array in arrays]) == ()


def test_the_bins_reach_from_the_least_element_of_all_even_if_one_array_has_equal_elements():
    arrays = np.full(3, 1e-3), np.array([0.0, 2e-3])
    assert shared_ends([histogram_of(array) for array in arrays]) == (0.0, 2e-3)


@pytest.mark.parametrize("ends", [(-1.7e308, 1.7e308), (0.0, 5e-324), (2.0, 2.0)])
def test_elements_beyond_given_bins_are_counted_in_the_nearest(ends):
    histogram = histogram_of(np.array([-1.75e308, ends[1], 1.75e308]), 4, between=ends)
    assert sum(histogram.counts) == 3
    assert histogram.counts[0] >= 1
    assert histogram.counts[-1] >= 1


def test_a_histogram_has_a_thousand_bins_at_most():
    with pytest.raises(UsageMistake, match="expected at most 1,000"):
        histogram_of(np.zeros(3), 1001)


# --- statistics ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "make"),
    in_turn([*product([(), (1,), (101,), (5, 7), (3, 4, 5), (2, 1, 3, 2)], [1, 7, 100, 1 << 20])], MAKERS),
)
def test_statistics_are_of_all_elements(case, make):
    shape, chunk = case
    array = np.asarray(np.random.default_rng(0).normal(1e6, 1, shape))
    found = statistics_of(make(array), chunk=chunk)
    assert (found.minimum, found.maximum, found.size) == (array.min(), array.max(), array.size)
    assert found.mean == pytest.approx(array.mean(), rel=1e-14)
    assert found.std == pytest.approx(array.std(), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("dtype", [*NUMBERS, "c8", "c16", "G"], ids=str)
def test_numbers_of_every_type_have_statistics(dtype):
    array = np.array([0, 1, 1, 0, 3, 1]).astype(dtype)
    numbers = np.abs(array).astype("f8") if array.dtype.kind == "c" else array.astype("f8")
    found = statistics_of(array, chunk=4)
    assert (found.minimum, found.maximum) == (numbers.min(), numbers.max())
    assert (found.mean, found.std) == (pytest.approx(numbers.mean()), pytest.approx(numbers.std()))
    assert (found.zeros, found.size) == (int((numbers == 0).sum()), 6)


def test_the_ends_of_integers_are_exact():
    found = statistics_of(np.array([-(2**63), 2**63 - 1, 0]))
    assert (found.minimum, found.maximum) == (-(2**63), 2**63 - 1)
    assert isinstance(found.minimum, int)
    bools = statistics_of(np.array([True, False]))
    assert (repr(bools.minimum), repr(bools.maximum)) == ("0", "1")


@pytest.mark.parametrize("chunk", [1, 2, 100])
def test_what_is_not_finite_is_counted_apart(chunk):
    array = np.array([np.nan, 1, np.inf, 3, -np.inf, 0, np.nan, np.nan])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = statistics_of(array, chunk=chunk)
    assert (found.nans, found.infs, found.zeros, found.size) == (3, 2, 1, 8)
    assert (found.minimum, found.mean, found.maximum) == (0.0, pytest.approx(4 / 3), 3.0)


@pytest.mark.parametrize(
    "array", [np.zeros(0), np.zeros((3, 0)), np.full(3, np.nan)], ids=["(0,)", "(3, 0)", "NaN"]
)
def test_nothing_finite_has_no_statistics(array):
    found = statistics_of(array)
    assert (found.minimum, found.mean, found.maximum, found.std) == (None,) * 4
    assert (found.nans, found.size) == (array.size, array.size)


def test_progress_is_told_after_each_part():
    told = []
    statistics_of(grid(10, 10), lambda *args: told.append(args), 30)
    assert told == [(30, 100), (60, 100), (90, 100), (100, 100)]


def test_progress_stops_where_it_says_so():
    told = []

    def stop(done, total):
        told.append(done)
        return done < 60

    with pytest.raises(Stopped, match="stopped after 60 of 100 elements") as caught:
        statistics_of(grid(10, 10), stop, 30)
    assert told == [30, 60]
    assert isinstance(caught.value, DiscoError)


def test_progress_at_the_end_comes_too_late_to_stop():
    assert statistics_of(grid(10), lambda done, total: False).size == 10


def test_what_progress_raises_comes_out():
    def fail(done, total):
        raise KeyError(done)

    with pytest.raises(KeyError):
        statistics_of(grid(10), fail)


def test_parts_are_never_larger_than_a_chunk():
    array = cupy_array(np.zeros((3, 5, 70)))
    statistics_of(array, chunk=100)
    assert max(array.fetched) <= 100
    assert sum(array.fetched) == 3 * 5 * 70
