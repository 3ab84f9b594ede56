"""Colour maps: even, ordered by lightness, with entries beside the map."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.notebook.pictures import colours
from disco_magic.notebook.pictures.colours import DIFFERENCE, DIVERGING, LEVELS, LINES, SEQUENTIAL

LIGHT, DARK = (255, 255, 255), (17, 17, 17)


def lab(palette):
    """CIELAB by the textbook, from sRGB."""
    srgb = np.asarray(palette, float) / 255
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    matrix = [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.072175],
        [0.0193339, 0.119192, 0.9503041],
    ]
    xyz = linear @ np.transpose(matrix) / [0.95047, 1, 1.08883]
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz * (29 / 6) ** 2 / 3 + 4 / 29)
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=1)


def over(palette, background):
    """Colours with an opacity on a background."""
    alpha = palette[:, 3:] / 255
    return palette[:, :3] * alpha + np.array(background) * (1 - alpha)


def distances(colours, apart=12):
    """How far colours are from those some steps on; rounding to whole numbers blurs single steps."""
    points = lab(colours)
    return np.linalg.norm(points[apart:] - points[:-apart], axis=1)


@pytest.mark.parametrize("palette", [SEQUENTIAL, DIVERGING, DIFFERENCE])
def test_a_palette_has_256_entries_the_last_three_beside_the_map(palette):
    assert palette.dtype == np.uint8
    assert len(palette) == 256
    assert LEVELS == 253
    beside = {tuple(colour[:3]) for colour in palette[LEVELS:]}
    assert len(beside) == 3
    assert not beside & {tuple(colour[:3]) for colour in palette[:LEVELS]}


def test_the_sequential_map_gets_lighter_all_the_way_so_that_it_reads_in_grey():
    light = lab(SEQUENTIAL[:LEVELS])[:, 0]
    assert light[0] < 20
    assert light[-1] > 90
    assert (np.diff(light) > -0.3).all()  # rounding to whole numbers
    assert (light[12:] > light[:-12]).all()


def test_the_diverging_map_is_lightest_and_grey_in_the_middle_and_equally_dark_at_the_ends():
    points = lab(DIVERGING[:LEVELS])
    middle = LEVELS // 2
    assert points[:, 0].argmax() == middle
    assert np.abs(points[middle, 1:]).max() < 1
    assert np.abs(points[:, 0] - points[::-1, 0]).max() < 1
    assert points[0, 2] < -30 < 30 < points[-1, 2]  # blue and red


@pytest.mark.parametrize("palette", [SEQUENTIAL, DIVERGING])
def test_equal_steps_on_the_scale_are_equal_steps_for_the_eye(palette):
    steps = distances(palette[:LEVELS])
    if palette is DIVERGING:  # across the middle the way turns back
        steps = steps[abs(np.arange(len(steps)) - LEVELS // 2 + 6) > 12]
    assert steps.max() / steps.min() < 1.5


@pytest.mark.parametrize("background", [LIGHT, DARK])
def test_the_difference_map_begins_with_the_background_and_moves_away_from_it(background):
    shown = over(DIFFERENCE[:LEVELS], background)
    assert shown[0].tolist() == list(background)
    away = np.linalg.norm(lab(shown) - lab([background]), axis=1)
    assert (away[1:] > 10).all()  # the faintest difference is visible
    assert (np.diff(away) > -0.5).all()
    assert away[-1] > 60


@pytest.mark.parametrize("background", [LIGHT, DARK])
def test_lines_have_enough_contrast_on_both_backgrounds(background):
    def luminance(colour):
        srgb = np.array(colour) / 255
        return np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4) @ [
            0.2126,
            0.7152,
            0.0722,
        ]

    for line in LINES:
        one, other = luminance([int(line[i : i + 2], 16) for i in (1, 3, 5)]), luminance(background)
        assert (max(one, other) + 0.05) / (min(one, other) + 0.05) >= 3


def test_css_gradients_name_the_ends_of_the_map():
    gradient = colours.css(SEQUENTIAL)
    first, last = (colours.css_colour(SEQUENTIAL[i]) for i in (0, LEVELS - 1))
    assert gradient.startswith(f"linear-gradient(90deg,{first},#")
    assert gradient.endswith(f"{last})")
    assert colours.css_colour(np.array([1, 171, 255, 128], np.uint8)) == "#01abff80"
