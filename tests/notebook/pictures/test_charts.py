"""Histograms, lines over cells, sparks."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import numpy as np
import pytest

from disco_magic.core.markup import MARK
from disco_magic.notebook.pictures.charts import (
    histogram_html,
    histogram_svg,
    histograms_html,
    lines_svg,
    spark,
    spark_html,
)
from disco_magic.notebook.pictures.colours import LINES
from disco_magic.values.peek import Histogram, histogram_of
from disco_magic.values.pictures import shared_ends

NAN, INF = float("nan"), float("inf")
NASTY = '<w> & "co"'
RANDOM = np.random.default_rng(5)


def bars(page):
    """Height of each bar in pixels."""
    outline = next(path.get("d") for path in page.all("path") if path.get("fill") == LINES[0])
    heights = []
    for bar in outline.split("z")[:-1]:
        start, rest = bar.split("V", 1)
        heights.append(int(start.split()[1]) - int(rest.split("H")[0]))
    return heights


def labels(page, anchor):
    return [text.text for text in page.all("text") if text.get("text-anchor") == anchor and text.text]


# --- histograms ------------------------------------------------------------------------------------


def test_bars_are_as_high_as_their_counts_and_say_them(parse):
    page = parse(histogram_svg(Histogram((0.0, 0.5, 1.0, 1.5), (10, 0, 40), 0, 0, False, 50)))
    assert [height / bars(page)[1] for height in bars(page)] == pytest.approx([0.25, 1], abs=0.01)
    assert page.texts("title") == ["0 to 0.5: 10", "0.5 to 1: 0", "1 to 1.5: 40"]
    assert labels(page, "middle") == ["0.0", "0.5", "1.0", "1.5"]
    assert labels(page, "end") == ["20", "40"]


def test_a_full_bar_has_the_count_that_is_asked_for(parse):
    histogram = Histogram((0.0, 1, 2), (10, 20), 0, 0, False, 30)
    page = parse(histogram_svg(histogram, most=40))
    alone = parse(histogram_svg(histogram))
    assert [2 * height for height in bars(page)] == pytest.approx(bars(alone), abs=1.5)


def test_one_element_among_a_million_has_a_bar_of_a_pixel(parse):
    assert bars(parse(histogram_svg(Histogram((0.0, 1, 2), (10**6, 1), 0, 0, False, 10**6 + 1))))[1] == 1


def test_nan_and_infinities_are_counted_in_the_description(parse):
    page = parse(histogram_svg(Histogram((0.0, 1), (5,), 1234, 2, True, 10**6), label=NASTY))
    said = page.all("svg")[0].get("aria-label")
    assert said.startswith(f"{NASTY}, sample of 1,241 of 1,000,000 elements, ")
    assert said.endswith("2 infinite")


@pytest.mark.parametrize(
    "array",
    [[], [NAN, INF], [3.0], [0.0, 0.0], [-1.7e308, 1.7e308], [0, 5e-324], [1e300, 1e300], [1e16, 1e16 + 2]],
)
def test_odd_arrays_have_a_histogram_too(parse, array):
    array = np.array(array)
    page = parse(histogram_svg(histogram_of(array)))
    finite = int(np.isfinite(array).sum())
    assert sum(int(title.rpartition(" ")[2].replace(",", "")) for title in page.texts("title")) == finite


def test_bins_without_a_width_are_drawn_where_they_are(parse):
    page = parse(histogram_svg(Histogram((2.0, 2.0), (7,), 0, 0, False, 7)))
    assert page.texts("title") == ["2: 7"]
    assert len(bars(page)) == 1


def test_many_bins_are_drawn_in_groups(parse):
    page = parse(histogram_svg(histogram_of(RANDOM.standard_normal(9999), bins=200)))
    counts = [int(title.rpartition(" ")[2].replace(",", "")) for title in page.texts("title")]
    assert len(counts) == 50
    assert sum(counts) == 9999


@pytest.mark.parametrize("bins", [16, 32, 50, 64, 1000])
@pytest.mark.parametrize("factor", [1, 1e-7, -12345.678])
def test_a_histogram_takes_at_most_6_kilobytes(bins, factor):
    histogram = histogram_of(RANDOM.standard_normal(60_000) * factor, bins=bins)
    assert len(histogram_svg(histogram, label="histogram of w on worker 0").encode()) <= 6000


def test_no_more_values_are_named_than_there_is_room_for(parse):
    page = parse(histogram_svg(histogram_of(np.array([1e16, 1e16 + 64]))))
    assert len(labels(page, "middle")) <= 2


def test_workers_with_equal_bins_have_equal_heights(parse):
    edges = (0.0, 1.0, 2.0)
    some, more = Histogram(edges, (10, 20), 0, 0, False, 30), Histogram(edges, (40, 0), 0, 0, False, 40)
    page = parse(histograms_html({0: some, 1: more, 2: some, 3: "no value"}, title=NASTY))
    assert "same bins and heights" in page.text
    first = parse(ET.tostring(page.all("svg")[0], encoding="unicode"))
    second = parse(ET.tostring(page.all("svg")[1], encoding="unicode"))
    assert bars(first)[1] * 2 == pytest.approx(bars(second)[0], abs=1.5)
    assert page.texts("b") == [NASTY, "[0]", "[1]", "[2]", "[3]"]
    assert "same as [0]" in page.text
    assert page.text.count(MARK) == 2


def test_nan_and_infinities_are_counted_below_the_bars_which_they_would_hide(parse):
    some, more = (Histogram((0.0, 1), (count,), 1234, 2, False, 1236 + count) for count in (5, 6))
    page = parse(histograms_html({0: some, 1: more}))
    (said,) = [text for text in page.texts("div") if text.startswith("1,241 elements")]
    assert "1,234 NaN" in said
    assert said.endswith("2 infinite")
    assert not any("NaN" in text for text in page.texts("text"))


@pytest.mark.parametrize("empty", ["no picture", histogram_of(np.zeros((0, 7)))])
def test_what_no_worker_has_a_histogram_of_is_said_once(parse, empty):
    page = parse(histograms_html(dict.fromkeys(range(3), empty), title="w"))
    reason = empty if isinstance(empty, str) else "no elements"
    assert page.text == f"w on [0-2]: {reason}"
    assert page.all("svg") == []


def test_the_histogram_of_one_worker_is_larger(parse):
    histogram = histogram_of(np.arange(9.0))
    alone = parse(histogram_html(histogram, NASTY))
    assert "9 elements" in alone.text
    width, beside = (
        int(parse(html).all("svg")[0].get("width"))
        for html in (histogram_html(histogram, ""), histogram_svg(histogram))
    )
    assert width > 2 * beside
    assert parse(histogram_html(histogram_of(np.zeros(0)), "")).text == "no elements"


def test_workers_whose_numbers_fill_one_bin_beside_far_larger_ones_are_not_said_to_be_equal(parse):
    # Bins are those of all workers: beside worker 2, all numbers of the others are in one.
    shards = [np.arange(9.0) + worker for worker in range(2)] + [np.arange(9.0) * 1000]
    shared = shared_ends([histogram_of(shard) for shard in shards])
    found = {worker: histogram_of(shard, between=shared) for worker, shard in enumerate(shards)}
    page = parse(histograms_html(found))
    assert found[0].counts == found[1].counts
    assert len(page.all("svg")) == 3
    assert "same as" not in page.text
    assert MARK not in page.text


def test_workers_with_other_bins_are_named_as_such(parse):
    page = parse(histograms_html({0: histogram_of(np.arange(9.0)), 1: histogram_of(np.arange(5.0))}))
    assert "bins and heights differ from worker to worker" in page.text


def test_a_long_caption_is_no_wider_than_its_histogram(parse):
    some, more = (Histogram((0.0, 1.0), (n,), 0, 0, True, 8_388_608) for n in (65_536, 65_535))
    page = parse(histograms_html({0: some, 1: more}))
    tile = page.classed("tiles")[0][0]
    assert tile[-1].get("style") == f"width:{tile[-1][0].get('width')}px"
    assert tile[-1][1].text == "sample of 65,536 of 8,388,608 elements"


def test_equal_histograms_of_all_workers_are_one(parse):
    page = parse(histograms_html({i: histogram_of(np.arange(9.0)) for i in range(3)}, title="w"))
    assert len(page.all("svg")) == 1
    assert "the same on workers [0-2]" in page.text


def test_with_circles_a_histogram_is_compared_with_its_own(parse):
    some, other, odd = (histogram_of(np.arange(stop)) for stop in (9.0, 5.0, 7.0))
    shown = {0: some, 1: other, 2: some, 3: other, 4: some, 5: odd}
    page = parse(histograms_html(shown, circles=((0, 2, 4), (1, 3, 5))))
    tiles = ["".join(tile.itertext()) for tile in page.classed("tiles")[0]]
    assert [number for number, text in enumerate(tiles) if MARK in text] == [5]
    assert ["same as [1]" in tiles[3], "same as [0]" in tiles[4]] == [True, True]


def test_one_worker_s_histogram_needs_no_note_on_bins(parse):
    page = parse(histograms_html({1: histogram_of(np.arange(9.0)), 2: "no value"}))
    assert "bins" not in page.text
    assert "9 elements" in page.text


def test_reasons_alone_are_shown_too(parse):
    assert "no value" in parse(histograms_html({0: "no value"})).text


# --- lines -----------------------------------------------------------------------------------------


def paths(page):
    return [path for path in page.all("path") if path.get("stroke") in LINES]


def names(page):
    return {text.text: text.get("fill") for text in page.all("text") if text.get("fill") in LINES}


def points(*numbers, first=1):
    return [(f"[{i}]", y) for i, y in enumerate(numbers, first)]


def test_each_worker_has_a_line_with_dashes_and_a_name_of_its_own(parse):
    page = parse(lines_svg({i: points(i, i + 1.5) for i in range(8)}, NASTY))
    looks = {(path.get("stroke"), path.get("stroke-dasharray")) for path in paths(page)}
    assert len(looks) == 8
    assert len({path.get("stroke-dasharray") for path in paths(page)[:6]}) == 6
    assert sorted(names(page)) == [f"[{i}]" for i in range(8)]
    assert labels(page, "middle") == ["[1]", "[2]"]
    assert NASTY in page.text


def test_workers_with_equal_numbers_share_a_line(parse):
    page = parse(lines_svg({0: points(1, NAN), 1: points(2, 3), 2: points(1, NAN)}))
    assert len(paths(page)) == 2
    assert set(names(page)) == {"[0,2]", "[1]"}


def test_points_say_their_numbers(parse):
    page = parse(lines_svg({0: points(1.5, 0.123456)}))
    assert page.texts("title") == ["[0] [1]: 1.5", "[0] [2]: 0.1235"]


def test_a_missing_number_is_a_gap(parse):
    page = parse(lines_svg({0: points(1, 2, None, 3, 4), 1: [("[1]", 0.0), ("[5]", 1.0)]}))
    gap, short = paths(page)
    assert [part.count("L") for part in gap.get("d").split("M")[1:]] == [1, 1]
    assert [part.count("L") for part in short.get("d").split("M")[1:]] == [0, 0]


def test_nan_and_infinities_are_signs_at_the_edges(parse):
    page = parse(lines_svg({0: points(1, NAN, INF, -INF, 2)}))
    signs = {text.text: float(text.get("y")) for text in page.all("text") if text.text in "\u00d7▲▼"}
    assert signs["▲"] < 30
    assert signs["▼"] == signs["\u00d7"] > 150
    assert page.texts("title")[1:4] == ["[0] [2]: nan", "[0] [3]: inf", "[0] [4]: -inf"]


def test_cells_that_only_some_workers_have_stand_where_they_belong(parse):
    series = {
        0: points(1, 2, 3, 4),
        1: [("[1]", 1.0), ("[1b]", 5.0), ("[3]", 2.0)],
        2: [("[4]", 1), ("[1]", 2)],
    }
    assert labels(parse(lines_svg(series)), "middle") == ["[1]", "[1b]", "[2]", "[3]", "[4]"]


def test_several_points_in_one_cell_follow_each_other(parse):
    page = parse(lines_svg({0: [("[3]", 1.0), ("[3]", 2.0), ("[4]", 3.0)]}))
    assert labels(page, "middle") == ["[3]", "[3]", "[4]"]
    assert paths(page)[0].get("d").count("L") == 2


def heights(page):
    """Points of the first line from below, in shares of the whole."""
    ys = [float(part.split()[1]) for part in paths(page)[0].get("d")[1:].split("L")]
    return [(max(ys) - y) / (max(ys) - min(ys)) for y in ys]


def test_numbers_over_more_than_three_decades_are_logarithmic(parse):
    page = parse(lines_svg({0: points(1, 100, 10_000)}))
    assert heights(page) == pytest.approx([0, 0.5, 1], abs=0.01)
    assert labels(page, "end") == ["1", "10", "100", "1000", "10000"]


def test_numbers_closer_together_or_not_positive_are_not(parse):
    assert heights(parse(lines_svg({0: points(1, 50, 101)}))) == pytest.approx([0, 0.49, 1], abs=0.01)
    assert heights(parse(lines_svg({0: points(-1, 4999.5, 10_000)})))[1] == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(
    ("numbers", "ticks"),
    [((1e-300, 1e300), 6), ((1, 1e-7), 6), ((2, 3_000), ["10", "100", "1000"])],
)
def test_logarithmic_ticks_are_few_powers_of_ten(parse, numbers, ticks):
    found = labels(parse(lines_svg({0: points(*numbers)})), "end")
    assert found == ticks if isinstance(ticks, list) else 3 <= len(found) <= ticks


@pytest.mark.parametrize("series", [{}, {0: []}, {0: points(None, None)}, {0: points(NAN)}])
def test_lines_without_numbers_are_empty_axes(parse, series):
    page = parse(lines_svg(series, "loss"))
    assert "loss" in page.text
    assert not names(page)


@pytest.mark.parametrize("numbers", [(5,), (7, 7, 7), (-1.7e308, 1.7e308), (0, 5e-324)])
def test_single_equal_and_extreme_numbers_lie_within_the_drawing(parse, numbers):
    page = parse(lines_svg({0: points(*numbers)}))
    assert all(20 <= float(dot.get("cy")) <= 200 for dot in page.all("circle"))
    assert len(page.all("circle")) == len(numbers)


def test_names_of_lines_that_end_together_do_not_lie_on_each_other_or_outside(parse):
    page = parse(lines_svg({i: points(9, 1 + i * 1e-6) for i in range(6)}))
    ys = sorted(float(text.get("y")) for text in page.all("text") if text.get("fill") in LINES)
    assert min(np.diff(ys)) >= 10
    assert ys[-1] <= 205


def test_long_histories_have_no_dots_and_few_labels(parse):
    page = parse(lines_svg({0: points(*RANDOM.random(500).tolist())}))
    assert not page.all("circle")
    assert len(labels(page, "middle")) < 20


def test_the_description_says_where_lines_begin_and_end(parse):
    svg = lines_svg({0: points(1, 2, None), 1: points(None, None, None)}, "loss")
    said = parse(svg).all("svg")[0].get("aria-label")
    assert said == "loss: [0] from 1 to 2, [1] without a number"
    assert "nothing yet" in lines_svg({})


# --- sparks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ([0, 1, 2, 3, 4, 5, 6, 7], "▁▃▄▅▆▇██"),
        ([0, 1, 10**9], "▁▂█"),
        ([0, 0], "▁▁"),
        ([], ""),
        ([NAN, 3, -1], " █ "),
        ([1e300, 5e299], "█▅"),
    ],
)
def test_sparks_are_blocks_and_the_lowest_is_for_zero_only(counts, text):
    assert spark(counts) == text


def test_a_spark_has_words_for_screen_readers(parse):
    (span,) = parse(spark_html([0, 1], NASTY)).all("span")
    assert (span.text, span.get("aria-label"), span.get("title"), span.get("role")) == (
        "▁█",
        NASTY,
        NASTY,
        "img",
    )
