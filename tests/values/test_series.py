"""Numbers one after the other: which values have them, and which of many are shown."""

from __future__ import annotations

import math
from collections import deque

import numpy as np
import pytest

from disco_magic.errors import NoPicture
from disco_magic.values.series import length_of_series, series_of


@pytest.mark.parametrize(
    "value",
    [
        [1, 2.5, True],
        (1.0, np.float32(2.5), np.int8(1)),
        deque([1, np.array(2.5), np.array([[1.0]])]),
        np.array([1, 2.5, 1]),
        np.array([[1], [2.5], [1]]),
        np.array([1j, 2.5j, 1]),
    ],
)
def test_a_series_is_a_list_or_an_array_with_one_axis(value):
    assert series_of(value) == ((0, 1.0), (1, 2.5), (2, 1.0))
    assert length_of_series(value) == 3


@pytest.mark.parametrize("value", [[], np.zeros(0), np.zeros((1, 0))])
def test_a_series_may_be_empty(value):
    assert (length_of_series(value), series_of(value), series_of(value, 4)) == (0, (), ())


def test_a_single_number_is_a_series_of_one():
    assert series_of(np.array(3.5)) == ((0, 3.5),)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (np.zeros((2, 3)), r"shape \(2, 3\) is no line"),
        ([1.0, "a"], "values of type str, which are not numbers"),
        ([1.0, None], "values of type NoneType"),
        ([np.zeros(2)], "values of type ndarray"),
        (np.array(["a"]), "not numbers"),
        ("abc", "type str has no elements"),
    ],
)
def test_what_is_none_says_why(value, reason):
    with pytest.raises(NoPicture, match=reason):
        series_of(value)


@pytest.mark.parametrize("make", [list, np.array])
def test_of_many_numbers_the_least_and_the_largest_of_each_step_are_shown(make):
    numbers = [0.0] * 12
    numbers[2], numbers[3], numbers[9] = 7.0, -7.0, 5.0
    assert series_of(make(numbers), 4) == ((0, 7.0), (2, -7.0), (4, 0.0), (8, 0.0), (10, 5.0))


@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_a_single_number_that_is_not_finite_is_shown(odd):
    numbers = np.arange(100.0)
    numbers[37] = odd
    shown = series_of(numbers, 20)
    assert [repr(y) for _, y in shown].count(repr(odd)) == 1
    assert series_of(np.full(4, odd), 4)[0][0] == 0


def test_of_very_many_some_are_left_out_and_the_places_are_those_of_the_array():
    shown = series_of(np.arange(1e6), 10_000)
    assert shown[0] == (0, 0.0)
    assert shown[-1][0] == pytest.approx(shown[-1][1], abs=10_000)
    assert len(shown) == pytest.approx(200, abs=4)
