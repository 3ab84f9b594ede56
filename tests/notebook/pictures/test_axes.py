"""Ticks and the words beside axes."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.notebook.pictures.axes import index_ticks, number, number_ticks, ordinal, shown


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (12.0, "12"),
        (-4096.0, "-4096"),
        (999_999.0, "999999"),
        (1e6, "1e+06"),
        (0.12345, "0.1235"),
        (1.2e-7, "1.2e-07"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (1e300, "1e+300"),
    ],
)
def test_numbers_have_four_digits_unless_they_are_whole(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (0, 1, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (-3.2, 4.1, ["-2", "0", "2", "4"]),
        (0.001, 0.0024, ["0.0010", "0.0015", "0.0020"]),
        (0, 3e7, ["0", "1e7", "2e7", "3e7"]),
        (-1e-9, 1e-9, ["-1e-9", "-5e-10", "0", "5e-10", "1e-9"]),
        (1e6, 1.2e6, ["1e6", "1.05e6", "1.1e6", "1.15e6", "1.2e6"]),
        (7, 7, ["7"]),
    ],
)
def test_ticks_are_round_numbers_with_as_many_digits_as_tell_them_apart(low, high, labels):
    assert [label for _, label in number_ticks(low, high, 6)] == labels


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (-1.7e308, 1.7e308),
        (0, 5e-324),
        (1e300, 1.0000001e300),
        (-1e-310, 3e-308),
        (0.1, 0.1 + 1e-16),
        (3, 1e18),
    ],
)
@pytest.mark.parametrize("most", [2, 3, 5])
def test_ticks_lie_within_the_axis_and_are_few_however_odd_it_is(low, high, most):
    ticks = number_ticks(low, high, most)
    assert 1 <= len(ticks) <= most
    assert all(low <= value <= high for value, _ in ticks)
    assert len({label for _, label in ticks}) == len(ticks) or (low, high) == (0.1, 0.1 + 1e-16)


def test_few_indices_are_all_named():
    assert index_ticks(np.array([4, 5, 6]), 6) == [(0, 4), (1, 5), (2, 6)]


@pytest.mark.parametrize(
    ("indices", "expected"),
    [
        (np.arange(100), [0, 20, 40, 60, 80]),
        (np.arange(0, 4096, 32), [0, 1024, 2048, 3072]),
        (np.arange(0, 1000, 8), [0, 200, 400, 600, 800]),
        (np.arange(100, 228), [100, 128, 150, 200]),
    ],
)
def test_round_indices_get_the_ticks_where_they_are_shown(indices, expected):
    ticks = index_ticks(indices, 6)
    assert all(indices[line] == index for line, index in ticks)
    if indices[0] == 0:
        assert [index for _, index in ticks] == expected
    else:
        assert 3 <= len(ticks) <= 6


@pytest.mark.parametrize(
    ("count", "most", "expected"), [(4, 3, [0, 2]), (5, 3, [0, 2, 4]), (7, 3, [0, 3, 6])]
)
def test_of_few_lines_the_ticks_are_evenly_spaced(count, most, expected):
    assert index_ticks(np.arange(count), most) == [(index, index) for index in expected]


def test_where_no_round_index_is_shown_the_ticks_name_what_is():
    indices = np.linspace(0, 4099, 128).round().astype(np.int64)
    ticks = index_ticks(indices, 5)
    assert [line for line, _ in ticks] == [0, 32, 64, 95, 127]
    assert all(indices[line] == index for line, index in ticks)


@pytest.mark.parametrize(
    ("indices", "length", "words"),
    [
        (range(10), 10, ""),
        ([], 0, ""),
        (range(0, 4096, 8), 4096, "every 8th row"),
        (range(0, 20, 3), 20, "every 3rd row"),
        (range(100, 228), 4096, "rows 100 to 227"),
        (range(100, 200, 2), 4096, "every 2nd row from 100 to 198"),
        ([7], 4096, "row 7"),
        (np.linspace(0, 4099, 128).round(), 4100, "about every 32nd row"),
        (np.linspace(0, 149, 128).round(), 150, "128 rows"),
        (range(50), 10, "rows 0 to 49"),  # of another axis than thought
    ],
)
def test_what_is_shown_of_an_axis_is_said_in_words(indices, length, words):
    text = shown(np.array(indices, np.int64), length, "row")
    assert text == words


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (1, "1st"),
        (2, "2nd"),
        (3, "3rd"),
        (4, "4th"),
        (11, "11th"),
        (12, "12th"),
        (113, "113th"),
        (1021, "1,021st"),
    ],
)
def test_ordinals(count, text):
    assert ordinal(count) == text
