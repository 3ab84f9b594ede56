"""How far two arrays are apart, in one sentence and as a picture."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.notebook.pictures.colours import DIFFERENCE, PAINT, PLUS_SIGN
from disco_magic.notebook.pictures.differences import difference_html, sentence
from disco_magic.values.peek import Difference, Window, difference_of

NAN = float("nan")


def difference(a, b, limit=128):
    return difference_of(np.asarray(a), np.asarray(b), Window(), limit)


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        (
            [[0.0, 1], [2, 3]],
            [[0.0, 1], [2.5, 3]],
            "max |a-b| 0.5 at (1, 0): 2.0 vs 2.5 (max rel 0.2); 1 of 4 elements differs",
        ),
        ([1, 2, 3], [1, 5, 9], "max |a-b| 6 at (2,): 3 vs 9 (max rel 0.6667); 2 of 3 elements differ"),
        ([1.0, NAN], [1.0, 3], "max |a-b| inf at (1,): nan vs 3.0 (max rel inf); 1 of 2 elements differs"),
        (np.zeros((3, 4)), np.zeros((3, 4)), "equal: all 12 elements"),
        (np.zeros((0, 4)), np.zeros((0, 4)), "equal: no elements"),
        (np.zeros((3, 4)), np.zeros((4, 3)), "their shapes differ: (3, 4) and (4, 3)"),
        (
            ["a", "b"],
            ["a", "c"],
            "elements of type <U1 cannot be subtracted; 1 of 2 differ; the first at (1,): 'b' vs 'c'",
        ),
        (["a"], ["a"], "elements of type <U1 cannot be subtracted; they are equal"),
    ],
)
def test_one_sentence_says_it_all(a, b, words):
    assert sentence(difference(a, b)) == words


def test_what_is_not_known_is_left_out():
    bare = Difference(max_abs=2.0, differing=3, size=1234)
    assert sentence(bare) == "max |a-b| 2; 3 of 1,234 elements differ"
    assert sentence(Difference(reason="no numbers", differing=1)) == "no numbers"


def test_equal_elements_are_transparent_and_all_others_are_not(parse):
    a = np.zeros((4, 4))
    b = a.copy()
    b[1, 2], b[3, 3] = 1e-30, 1.0
    page = parse(difference_html(difference(a, b), "[0]", "[1]"))
    (image,) = page.images()
    assert np.array_equal(image.palette, DIFFERENCE)
    opacity = image.colours[..., 3]
    assert np.array_equal(opacity > 0, a != b)
    assert opacity[3, 3] == 255 > opacity[1, 2] > 50


def test_the_largest_difference_has_a_ring(parse):
    a = np.zeros((4, 4))
    b = a.copy()
    b[1, 2] = 1
    page = parse(difference_html(difference(a, b), "[0]", "[1]"))
    (ring,) = page.all("circle")
    image = page.all("img")[0]
    assert image.get("alt").startswith("Heat map of |[0] - [1]|: max |a-b| 1 at (1, 2)")
    left, top = (int(image.get("style").split(f"{side}:")[1].split("px")[0]) + 1 for side in ("left", "top"))
    assert (float(ring.get("cx")), float(ring.get("cy"))) == (left + 2.5 * 24, top + 1.5 * 24)


def test_in_tiles_the_ring_is_around_the_one_that_holds_it(parse):
    a = np.zeros((1, 1000))
    b = a.copy()
    b[0, 999] = 1
    page = parse(difference_html(difference(a, b, 100), "[0]", "[1]"))
    (image,) = page.images()
    assert image.indices[0, 99] == 252
    left = int(page.all("img")[0].get("style").split("left:")[1].split("px")[0]) + 1
    assert float(page.all("circle")[0].get("cx")) == left + 99.5 * 3
    assert "each pixel the largest of about 1\u00d710 elements" in page.text


def test_a_ring_is_not_drawn_where_it_is_not_certain(parse):
    a = np.zeros((2, 3, 3))
    b = a.copy()
    b[0, 1, 1], b[1, 2, 2] = 1, 5
    page = parse(difference_html(difference(a, b), "[0]", "[1]"))
    assert not page.all("circle")
    b = np.zeros((9, 9))
    b[0, 1], b[8, 8] = 1, 5
    window = Window((0, 4), (0, 4))
    page = parse(difference_html(difference_of(np.zeros((9, 9)), b, window), "[0]", "[1]"))
    assert not page.all("circle")
    assert page.images()[0].indices.max() < 252  # the scale goes up to the 5 beyond the window
    assert "rows 0 to 3 and columns 0 to 3 shown" in page.text


def test_one_alone_nan_is_a_pattern_and_counted(parse):
    page = parse(difference_html(difference([[0.0, NAN]], [[1.0, 2]]), "[0]", "[1]"))
    base, over = page.images()
    assert base.indices.tolist() == [[252, PAINT]]
    assert over.colours[0, 2:, 3].tolist() == [255, 255]
    assert f"{PLUS_SIGN} 1 where one alone is NaN or infinite" in page.text


def test_where_only_infinite_differences_are_there_is_no_end_of_the_scale(parse):
    page = parse(difference_html(difference([[NAN, 1.0]], [[1.0, 1]]), "[0]", "[1]"))
    assert page.images()[0].indices.tolist() == [[PAINT, 0]]
    assert "all finite values shown are 0" in page.text


@pytest.mark.parametrize(
    ("a", "b"),
    [(np.zeros((2, 2)), np.zeros((2, 2))), (np.zeros(2), np.zeros(3)), (np.array(["a"]), np.array(["b"]))],
)
def test_without_differences_that_can_be_seen_there_is_a_sentence_only(parse, a, b):
    page = parse(difference_html(difference(a, b), "<a>", "b & c"))
    assert not page.images()
    assert page.texts("b") == ["<a> and b & c"]
    assert sentence(difference(a, b)) in page.text


def test_notes_are_shown(parse):
    page = parse(difference_html(difference(np.zeros(2), np.ones(2, np.float32)), "[0]", "[1]"))
    assert "float64 and float32 were compared as float64" in page.text


def test_a_picture_without_a_known_largest_difference_has_its_own_scale(parse, picture):
    shown = picture([[0.0, 3.0]])
    page = parse(difference_html(Difference(shown, differing=1, size=2), "[0]", "[1]"))
    assert page.images()[0].indices.tolist() == [[0, 252]]
