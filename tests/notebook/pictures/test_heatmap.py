"""Heat maps: the right pixels, true indices, and words for all that is seen."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.core.markup import MARK
from disco_magic.notebook.pictures.colours import (
    DIVERGING,
    LEVELS,
    MINUS_SIGN,
    NAN_SIGN,
    PAINT,
    PLUS_SIGN,
    SEQUENTIAL,
)
from disco_magic.notebook.pictures.heatmap import heatmap_html, multiples_html
from disco_magic.values.peek import Window, picture_of

NAN, INF = float("nan"), float("inf")
NASTY = "<w> & \"co\" 'x'"
RANDOM = np.random.default_rng(3)


def ticks(page):
    """The indices along the sides: rows, columns."""
    texts = page.all("text")
    rows = [int(text.text) for text in texts if text.get("text-anchor") == "end"]
    return rows, [int(text.text) for text in texts if text.get("text-anchor") == "middle"]


def ends(page):
    """The numbers below the colour bar."""
    return ["".join(span.itertext()) for bar in page.classed("ends") for span in bar]


# --- one -------------------------------------------------------------------------------------------


def test_pixels_have_the_colours_of_their_values(parse, picture):
    page = parse(heatmap_html(picture([[0.0, 1], [0.5, 0.25]])))
    (image,) = page.images()
    assert np.array_equal(image.indices, [[0, LEVELS - 1], [126, 63]])
    assert np.array_equal(image.palette, SEQUENTIAL)
    assert ends(page) == ["0", "0.5", "1"]


def test_the_title_is_text_and_so_is_the_name_in_the_description(parse, picture):
    page = parse(heatmap_html(picture([[1.0, 2]]), title=NASTY))
    assert page.texts("b") == [NASTY]
    assert (
        page.all("img")[0].get("alt").startswith(f"Heat map of {NASTY}, float64 1\u00d72, values from 1 to 2")
    )


def test_the_description_says_what_is_seen(parse, picture):
    array = np.array([[NAN, -1.5, 2], [NAN, INF, -INF]], np.float32)
    page = parse(heatmap_html(picture(array), title="w"))
    said = page.all("img")[0].get("alt")
    odd = f"{NAN_SIGN} 2 NaN, {PLUS_SIGN} 1 +Inf, {MINUS_SIGN} 1 -Inf of 6 values"
    assert said == f"Heat map of w, float32 2\u00d73, values from -1.5 to 2, {odd}"
    assert odd in page.text


def test_what_is_not_finite_lies_as_a_pattern_over_the_image(parse, picture):
    base, over = parse(heatmap_html(picture([[NAN, 0.0], [1.0, -INF]]))).images()
    assert np.array_equal(base.indices == PAINT, [[True, False], [False, True]])
    assert over.indices.shape == (4, 4)
    clear = over.colours[..., 3] == 0
    assert np.array_equal(clear, np.kron([[0, 1], [1, 0]], np.ones((2, 2), int)))
    assert not np.array_equal(over.indices[:2, :2], over.indices[2:, 2:])


def test_the_pattern_says_nothing_to_screen_readers(parse, picture):
    page = parse(heatmap_html(picture([[NAN, 0.0]])))
    assert [bool(img.get("alt")) for img in page.all("img")] == [True, False]


def test_ticks_are_the_array_s_indices_also_where_lines_are_left_out(parse, picture):
    page = parse(heatmap_html(picture(np.zeros((1024, 512)), every=(8, 4))))
    rows, columns = ticks(page)
    assert rows == [0, 200, 400, 600, 800, 1000]
    assert columns == [0, 100, 200, 300, 400, 500]
    assert "every 8th row and every 4th column shown" in page.text
    assert "every 8th row" in page.all("img")[0].get("alt")


def test_ticks_stand_at_the_middle_of_their_lines(parse, picture):
    page = parse(heatmap_html(picture(np.zeros((2, 2)))))
    image = page.all("img")[0]
    left = int(image.get("style").split("left:")[1].split("px")[0]) + 1
    width = int(image.get("width"))
    columns = [text for text in page.all("text") if text.get("text-anchor") == "middle"]
    assert [float(text.get("x")) for text in columns] == [left + width / 4, left + width * 3 / 4]


def test_a_window_shows_its_own_indices(parse, picture):
    page = parse(heatmap_html(picture(np.zeros((300, 300)), start=(200, 260))))
    rows, columns = ticks(page)
    assert min(rows) >= 200
    assert min(columns) >= 260
    assert "rows 200 to 299 and columns 260 to 299 shown" in page.text


def test_a_picture_of_the_data_layer_is_drawn_as_it_is(parse):
    array = RANDOM.standard_normal((300, 7)).astype(np.float32)
    page = parse(heatmap_html(picture_of(array, Window())))
    (image,) = page.images()
    assert image.indices.shape == (128, 7)
    assert ticks(page)[0][0] == 0
    assert ticks(page)[0][-1] == 299
    assert "about every 2nd row shown" in page.text


def test_a_symmetric_scale_has_two_colours_around_zero(parse, picture):
    page = parse(heatmap_html(picture([[-1.0, 0, 4]]), symmetric=True))
    (image,) = page.images()
    assert ends(page) == ["-4", "0", "4"]
    assert np.array_equal(image.palette, DIVERGING)
    assert image.indices.tolist() == [[94, 126, 252]]


def test_the_middle_of_the_bar_does_not_show_what_rounding_left(parse, picture):
    assert ends(parse(heatmap_html(picture([[-0.3, 0.1 + 0.2]]))))[1] == "0"


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (1000.0, 1001, ["1000", "1000.5", "1001"]),
        (0.1, 0.1000001, ["0.1", "0.10000005", "0.1000001"]),
    ],
)
def test_numbers_below_the_bar_are_told_apart(parse, picture, low, high, labels):
    assert ends(parse(heatmap_html(picture([[low, high]])))) == labels


def test_equal_values_have_one_number_instead_of_a_bar(parse, picture):
    page = parse(heatmap_html(picture(np.full((3, 3), 0.5))))
    assert not page.classed("bar")
    assert "all values shown are 0.5" in page.text
    assert "all finite values shown are 2" in parse(heatmap_html(picture([[2.0, NAN]]))).text


def test_booleans_have_two_words_below_the_bar(parse, picture):
    page = parse(heatmap_html(picture(np.eye(3, dtype=bool))))
    assert ends(page) == ["False", "True"]
    assert page.images()[0].indices[0].tolist() == [252, 0, 0]
    assert "all values shown are True" in parse(heatmap_html(picture(np.ones((2, 2), bool)))).text


def test_an_array_without_a_finite_value_has_no_bar(parse, picture):
    page = parse(heatmap_html(picture([[NAN, INF]])))
    assert not page.classed("bar")
    assert "no finite value" in page.all("img")[0].get("alt")


def test_an_empty_array_is_a_sentence(parse, picture):
    page = parse(heatmap_html(picture(np.zeros((0, 5))), title="w"))
    assert page.text == "w float64 0\u00d75: no elements"
    assert not page.images()


@pytest.mark.parametrize(
    "array", [np.array(3.5), np.arange(4.0), np.arange(4.0)[:, None], np.zeros((2, 3, 4))[1]]
)
def test_arrays_of_any_rank_are_drawn(parse, picture, array):
    page = parse(heatmap_html(picture(array)))
    (image,) = page.images()
    assert image.indices.shape == np.atleast_2d(array).shape
    assert page.classed("disco-picture")


def test_numbers_without_axes_say_so(parse, picture):
    assert "float64 0-d" in parse(heatmap_html(picture(np.array(3.5)))).text


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((128, 128), (256, 256)),
        ((2, 2), (48, 48)),
        ((1, 128), (256, 24)),
        ((128, 1), (24, 256)),
        ((16, 16), (320, 320)),
    ],
)
def test_elements_take_whole_pixels_and_no_picture_is_a_thin_line(parse, picture, shape, size):
    image = parse(heatmap_html(picture(np.zeros(shape)))).all("img")[0]
    assert (int(image.get("width")), int(image.get("height"))) == size


def test_huge_values_are_drawn_and_named(parse, picture):
    page = parse(heatmap_html(picture([[-1e300, 0, 1e300, 1.7e308, -1.7e308]])))
    assert page.images()[0].indices.tolist() == [[126, 126, 126, 252, 0]]
    assert ends(page) == ["-1.7e+308", "0", "1.7e+308"]


@pytest.mark.parametrize("share", [0, 0.01, 0.1, 0.5, 1])
def test_a_heat_map_of_noise_takes_at_most_30_kilobytes_however_many_nans_are_in_it(picture, share):
    noise = np.where(RANDOM.random((128, 128)) < share, NAN, RANDOM.random((128, 128)))
    assert len(heatmap_html(picture(noise, every=(1, 1)), title="w" * 40).encode()) <= 30_000


# --- several ---------------------------------------------------------------------------------------


def test_workers_share_one_scale(parse, picture):
    page = parse(multiples_html({0: picture([[0.0, 1]]), 1: picture([[3.0, 4]])}))
    first, second = page.images()
    assert first.indices.tolist() == [[0, 63]]
    assert second.indices.tolist() == [[189, 252]]
    assert ends(page) == ["0", "2", "4"]
    assert page.texts("b") == ["[0]", "[1]"]


def test_what_most_workers_have_is_drawn_once_and_the_others_are_marked(parse, picture):
    usual, odd = picture([[0.0, 1]]), picture([[0.0, 2]])
    page = parse(multiples_html({0: odd, 1: usual, 2: usual, 3: "no value"}, title="w"))
    tiles = ["".join(tile.itertext()).strip() for tile in page.classed("tiles")[0]]
    assert tiles[0].startswith(f"[0] {MARK}")
    assert tiles[1].startswith("[1]")
    assert MARK not in tiles[1]
    assert tiles[2:] == ["[2]same as [1]", f"[3] {MARK}no value"]
    assert [img.get("alt").split(",")[0] for img in page.all("img")] == [
        f"Heat map of w on worker {worker}" for worker in (0, 1)
    ]


def test_equal_ones_that_differ_from_the_usual_one_are_drawn_once_too(parse, picture):
    usual, odd = picture([[0.0, 1]]), picture([[0.0, 2]])
    page = parse(multiples_html({0: usual, 1: odd, 2: usual, 3: odd, 4: usual}))
    tiles = ["".join(tile.itertext()).strip() for tile in page.classed("tiles")[0]]
    assert tiles[2:] == ["[2]same as [0]", f"[3] {MARK}same as [1]", "[4]same as [0]"]
    assert len(page.all("img")) == 2


def test_of_many_workers_those_with_equal_pictures_share_a_tile(parse, picture):
    usual, odd = picture([[0.0, 1]]), picture([[0.0, 2]])
    things = {worker: odd if worker % 4 == 1 else usual for worker in range(16)} | {7: "no value"}
    page = parse(multiples_html(things, title="w"))
    tiles = ["".join(tile.itertext()).strip() for tile in page.classed("tiles")[0]]
    assert [tile.split("]")[0] for tile in tiles] == ["[0,2-4,6,8,10-12,14-15", "[1,5,9,13", "[7"]
    assert [MARK in tile for tile in tiles] == [False, True, True]
    assert [img.get("alt").split(",")[0] for img in page.all("img")] == [
        "Heat map of w on workers [0",
        "Heat map of w on workers [1",
    ]


def test_of_pictures_that_equally_many_of_many_workers_have_none_is_marked(parse, picture):
    several = [picture([[float(number), 1]]) for number in range(3)]
    things = {worker: several[min(worker // 5, 2)] for worker in range(11)}
    page = parse(multiples_html(things))
    tiles = ["".join(tile.itertext()).strip() for tile in page.classed("tiles")[0]]
    assert [MARK in tile for tile in tiles] == [False, False, True]
    page = parse(multiples_html(things, circles=(tuple(range(11)),)))
    assert page.text.count(MARK) == 2


def test_equal_pictures_of_all_workers_are_one_picture(parse, picture):
    same = [picture([[0.0, NAN]]), picture([[-0.0, -NAN]]), picture([[0.0, NAN]])]
    page = parse(multiples_html(dict(enumerate(same)), title="w"))
    assert len(page.images()) == 2  # the image and its pattern
    assert "the same on workers [0-2]" in page.text
    assert "as far as shown" not in page.text


def test_thinned_pictures_are_only_the_same_as_far_as_shown(parse, picture):
    same = picture(np.zeros((8, 8)), every=(4, 4))
    assert "the same on workers [0-1], as far as shown" in parse(multiples_html({0: same, 1: same})).text


def test_arrays_of_different_kinds_are_named_each(parse, picture):
    page = parse(multiples_html({0: picture(np.zeros((2, 2))), 1: picture(np.zeros((2, 2), np.float32))}))
    assert "float64 2\u00d72" in page.text
    assert "float32 2\u00d72" in page.text


def test_nans_are_counted_per_worker(parse, picture):
    page = parse(multiples_html({0: picture([[0.0, 1]]), 1: picture([[0.0, NAN]])}))
    assert page.text.count("NaN") == 1
    assert "1 NaN of 2 values" in page.text


def test_a_caption_is_no_wider_than_its_picture_unless_that_is_small(parse, picture):
    large = np.eye(64) * np.where(np.arange(64) == 9, NAN, 1)
    page = parse(multiples_html({0: picture(large), 1: picture([[0.0, NAN]])}, width=200))
    first, second = (tile[-1] for tile in page.classed("tiles")[0])
    assert first.get("style") == f"max-{page.classed('stage')[0].get('style').split(';')[0]}"
    assert second.get("style") == "max-width:140px"


def test_one_worker_is_a_tile_like_others(parse, picture):
    page = parse(multiples_html({2: picture([[0.0, 1]])}))
    assert page.texts("b") == ["[2]"]
    assert MARK not in page.text


def test_reasons_alone_are_shown_too(parse, picture):
    page = parse(multiples_html({0: NASTY, 1: picture(np.zeros((0, 2)))}))
    assert NASTY in page.text
    assert "float64 0\u00d72: no elements" in page.text
    assert not page.images()
    assert not page.classed("bar")


TILES = {
    "a replica drifts": ([0, 1, 0, 1, 0, 9, 0, 1], "0 1 =0 =1 =0 5! =0 =1"),
    "all agree": ([0, 1] * 4, "0 1 =0 =1 =0 =1 =0 =1"),
    "two of one circle": ([0, 1, 0, 8, 0, 9, 0, 1], "0 1 =0 3! =0 5! =0 =1"),
    "nobody agrees with anybody": ([0, 1, 2, 3, 4, 5, 6, 7], "0! 1! 2! 3! 4! 5! 6! 7!"),
}


@pytest.mark.parametrize("case", TILES)
def test_with_circles_a_worker_is_compared_with_its_own(parse, picture, case):
    # As dp=4, tp=2: replicas are 0, 2, 4, 6 and 1, 3, 5, 7. Every other replica's shard was marked.
    values, wanted = TILES[case]
    circles = ((0, 2, 4, 6), (1, 3, 5, 7))
    shown = {worker: picture([[0.0, value, 1.0]]) for worker, value in enumerate(values)}
    page = parse(multiples_html(shown, title="w", circles=circles))
    found = []
    for worker, tile in enumerate(page.classed("tiles")[0]):
        text = "".join(tile.itertext())
        same = text.partition("same as [")[2].partition("]")[0]
        found.append((f"={same}" if same else str(worker)) + "!" * (MARK in text))
    assert " ".join(found) == wanted


def test_circles_that_agree_about_one_thing_are_still_one_picture(parse, picture):
    same = {worker: picture([[1.0]]) for worker in range(4)}
    assert "the same on workers [0-3]" in parse(multiples_html(same, circles=((0, 1), (2, 3)))).text


def test_where_every_worker_has_its_own_shard_nobody_stands_out(parse, picture):
    page = parse(multiples_html({worker: picture([[0.0, worker]]) for worker in range(3)}))
    assert len(page.images()) == 3
    assert MARK not in page.text


def test_symmetry_holds_for_all(parse, picture):
    page = parse(multiples_html({0: picture([[-4.0, 1]]), 1: picture([[2.0, 2]])}, symmetric=True))
    assert ends(page) == ["-4", "0", "4"]
    assert [image.indices.tolist() for image in page.images()] == [[[0, 158]], [[189, 189]]]


def test_what_no_worker_has_a_picture_of_is_said_once(parse, picture):
    page = parse(multiples_html(dict.fromkeys(range(3), picture(np.zeros((0, 2)))), title="w"))
    assert page.text == "w on [0-2]: float64 0\u00d72: no elements"
