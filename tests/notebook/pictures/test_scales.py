"""From numbers to palette entries."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.notebook.pictures.colours import DIFFERENCE, DIVERGING, INK, LEVELS, PAINT, PAPER, SEQUENTIAL
from disco_magic.notebook.pictures.scales import PALETTE, Scale, common_limits, patterns

NAN, INF = float("nan"), float("inf")


def test_common_limits_are_those_of_the_finite_values_of_all(picture):
    pictures = [picture([[1.0, NAN]]), picture([[-3.0, INF]]), picture(np.zeros((0, 2)))]
    assert common_limits(pictures) == (-3, 1)
    assert common_limits([picture([[NAN]])]) is None
    assert common_limits([]) is None


def test_the_ends_of_the_scale_are_the_ends_of_the_map_and_what_is_beyond_them_too():
    levels = Scale.of((0, 10)).levels(np.array([[-5.0, 0, 5, 10, 99]]))
    assert levels.tolist() == [[0, 0, (LEVELS - 1) // 2, LEVELS - 1, LEVELS - 1]]


def test_a_symmetric_scale_has_zero_in_the_middle_of_the_diverging_map():
    scale = Scale.of((-1, 4), symmetric=True)
    assert scale.palette is DIVERGING
    assert (scale.low, scale.high, scale.middle) == (-4, 4, 0)
    assert scale.levels(np.array([[0.0]])).tolist() == [[LEVELS // 2]]
    assert Scale.of((-1, 4)).palette is SEQUENTIAL


@pytest.mark.parametrize("value", [0.0, -7.5, 1e300, 5e-324])
def test_equal_values_are_in_the_middle_of_the_map(value):
    assert Scale.of((value, value)).levels(np.full((2, 2), value)).tolist() == [[LEVELS // 2] * 2] * 2


def test_values_from_one_end_of_the_doubles_to_the_other_keep_their_order():
    largest = np.finfo(float).max
    values = np.array([[-largest, -largest / 2, 0, largest / 2, largest]])
    scale = Scale.of((-largest, largest))
    assert scale.levels(values).tolist() == [[0, 63, 126, 189, 252]]
    assert scale.middle == 0


def test_what_is_not_finite_has_an_entry_beside_the_map():
    pixels = Scale.of((0, 1)).pixels(np.array([[0, NAN, INF, -INF, 1]]))
    assert pixels.tolist() == [[0, PAINT, PAINT, PAINT, LEVELS - 1]]


def test_in_differences_the_first_entry_is_for_zeros_only():
    scale = Scale.of_differences(1.0)
    assert scale.palette is DIFFERENCE
    assert scale.levels(np.array([[0, 1e-300, 0.5, 1]])).tolist() == [[0, 1, 126, 252]]
    assert Scale.of_differences(0.0).levels(np.zeros((1, 2))).tolist() == [[0, 0]]


def test_nan_and_infinities_are_patterns_of_two_by_two_pixels_told_apart_without_colours():
    values = np.array([[NAN, INF], [-INF, 0]])
    pixels = patterns(values)
    tiles = [pixels[y : y + 2, x : x + 2] for y, x in ((0, 0), (0, 2), (2, 0), (2, 2))]
    shapes = [(tile == tile[0, 0]).tolist() for tile in tiles]
    assert shapes[0] == [[True, False], [False, True]]
    assert shapes[1] == shapes[2] == [[True, True], [False, False]]
    assert (tiles[1] == tiles[2][::-1]).all()  # upside down
    inks = {tuple(SEQUENTIAL[entry]) for entry in (INK, PAPER, PAINT)}
    assert {tuple(colour[:3]) for colour in PALETTE[np.unique(np.stack(tiles[:3]))]} == inks
    assert PALETTE[tiles[3]][..., 3].max() == 0  # clear over numbers


def test_numbers_need_no_patterns():
    assert patterns(np.zeros((2, 2))) is None
