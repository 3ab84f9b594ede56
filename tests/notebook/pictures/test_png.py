"""PNGs: what a reader decodes is what was given."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.notebook.pictures.colours import DIFFERENCE, SEQUENTIAL
from disco_magic.notebook.pictures.png import data_uri, png

RANDOM = np.random.default_rng(7)


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (5, 7), (128, 128)])
def test_pixels_and_palette_come_back(decode, shape):
    indices = RANDOM.integers(0, 256, shape).astype(np.uint8)
    image = decode(png(indices, SEQUENTIAL))
    assert np.array_equal(image.indices, indices)
    assert np.array_equal(image.colours, SEQUENTIAL[indices])


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 8])
def test_four_colours_take_two_bits_per_pixel(decode, width):
    indices = RANDOM.integers(0, 4, (6, width)).astype(np.uint8)
    image = decode(png(indices, SEQUENTIAL[:4]))
    assert np.array_equal(image.indices, indices)


def test_rows_like_those_above_are_written_as_differences_and_come_back(decode):
    indices = np.repeat(RANDOM.integers(0, 256, (4, 40)).astype(np.uint8), 5, axis=0)
    data = png(indices, SEQUENTIAL)
    assert np.array_equal(decode(data).indices, indices)
    assert len(data) < 768 + 400


def test_opacities_come_back(decode):
    image = decode(png(np.arange(256, dtype=np.uint8)[None], DIFFERENCE))
    assert np.array_equal(image.palette, DIFFERENCE)


def test_the_caller_s_array_is_left_as_it_was():
    indices = RANDOM.integers(0, 256, (8, 8)).astype(np.uint8)
    before = indices.copy()
    png(indices, SEQUENTIAL)
    assert np.array_equal(indices, before)


def test_noise_of_128_by_128_takes_little_more_than_its_bytes():
    indices = RANDOM.integers(0, 256, (128, 128)).astype(np.uint8)
    assert len(png(indices, SEQUENTIAL)) < 128 * 128 + 1200
    assert data_uri(b"\x00\x01") == "data:image/png;base64,AAE="
