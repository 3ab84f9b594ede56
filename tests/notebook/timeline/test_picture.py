"""A timeline as people see it in a notebook: the picture."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest

from disco_magic.core.timeline import Span
from disco_magic.notebook.timeline.bars import merged
from disco_magic.notebook.timeline.picture import MOST_BARS, colour_of, timeline_bundle, timeline_html
from tests.timelines import MANY, met, timeline, waiting

SVG = "{http://www.w3.org/2000/svg}"


def page(html):
    """The HTML as a tree; it has to be well formed."""
    return ET.fromstring(f"<page>{html}</page>")  # noqa: S314 - our own


def picture(made):
    return page(timeline_html(made)).find(f".//{SVG}svg")


def bars(svg):
    """(what fills it, x, width, tooltip) of every bar."""
    return [
        (rect.get("fill"), float(rect.get("x")), float(rect.get("width")), rect.findtext(f"{SVG}title"))
        for rect in svg.iter(f"{SVG}rect")
        if rect.find(f"{SVG}title") is not None
    ]


def test_there_is_a_lane_per_worker_and_an_axis():
    texts = [text.text for text in picture(MANY).iter(f"{SVG}text")]
    assert [text for text in texts if text.startswith("worker")] == ["worker 0", "worker 1"]
    assert [text for text in texts if text.endswith(" s")][:3] == ["0 s", "2 s", "4 s"]


def test_kinds_are_told_apart_without_colours():
    html = timeline_html(MANY)
    grey = re.sub(r"#[0-9a-f]{6}", "#888888", html)
    svg = page(grey).find(f".//{SVG}svg")
    fills = {
        (rect.get("fill").rpartition("-")[2].strip(")"), rect.get("fill-opacity"))
        for rect in svg.iter(f"{SVG}rect")
        if rect.find(f"{SVG}title") is not None
    }
    assert len(fills) == 5  # cell, call, copy, collective, waiting
    assert [path.findtext(f"{SVG}title") for path in svg.iter(f"{SVG}path") if len(path)] == [
        "ValueError: boom (at 6.0000 s)"
    ]


def test_what_fills_a_bar_is_defined_in_the_same_picture():
    svg = picture(MANY)
    defined = {pattern.get("id") for pattern in svg.iter(f"{SVG}pattern")}
    used = {fill[5:-1] for fill, *_ in bars(svg) if fill.startswith("url(#")}
    assert used <= defined


def test_two_pictures_of_a_page_share_no_names():
    ids = [
        {pattern.get("id") for pattern in picture(made).iter(f"{SVG}pattern")}
        for made in (MANY, MANY.last(3.0))
    ]
    assert not ids[0] & ids[1]


def test_waiting_is_drawn_apart_from_working():
    found = {tip.partition(":")[0]: (x, width) for _, x, width, tip in bars(picture(MANY.of([0])))}
    waits, works = found["waiting for others"], found["collective, working"]
    assert waits[0] + waits[1] == pytest.approx(works[0], abs=0.1)
    assert waits[1] == pytest.approx(4 * works[1], rel=0.01)


def test_what_waits_until_now_has_worked_before():
    made = timeline(met(0, 2.0, 10.0, unfinished=True), waiting(0, 4.0, 10.0, unfinished=True))
    found = {tip.partition(":")[0]: x for _, x, _, tip in bars(picture(made))}
    assert found["collective, working"] < found["waiting for others"]


def test_a_collective_that_was_all_waiting_has_no_working_part():
    tips = [tip for *_, tip in bars(picture(timeline(met(0, 1.0, 4.0), waiting(0, 1.0, 4.0))))]
    assert [tip.partition(":")[0] for tip in tips] == ["waiting for others"]


def test_a_tooltip_says_what_where_and_how_long():
    (tip,) = [tip for *_, tip in bars(picture(MANY.of([0]))) if tip.startswith("waiting")]
    assert tip == "waiting for others: barrier(), Cell In[2], line 1, for others\n4.00 s from 1.0000 s"


def test_wide_bars_have_their_text_in_them_cut_where_it_does_not_fit():
    made = timeline(Span(0, "cell", "Cell In[2]", 0.0, 8.0), Span(1, "cell", "a very long label", 0.0, 0.8))
    texts = [text.text for text in picture(made).iter(f"{SVG}text")]
    assert "Cell In[2]" in texts
    assert any(text.startswith("a very") and text.endswith("\u2026") for text in texts)


def test_labels_cannot_break_out_of_the_picture():
    evil = "</title><script>alert('x')</script>&\"<b>"
    made = timeline(
        Span(0, "cell", evil, 0.0, 8.0, evil, evil),
        Span(0, "error", evil, 8.0, 8.0),
        Span(1, "calls", evil, 0.0, 9.0),
    )
    html = timeline_html(made)
    assert "<script" not in html
    assert evil in [text.text for text in picture(made).iter(f"{SVG}text")]


def test_what_is_narrower_than_a_pixel_is_drawn_as_one():
    spans = [Span(0, "collective", "barrier()", n / 1000, n / 1000 + 0.0005) for n in range(1000)]
    (bar,) = merged(spans, 0.002)
    assert (bar.count, bar.start_s) == (1000, 0.0)
    assert bar.sum_s == pytest.approx(0.5)
    assert "1,000 \u00d7 collective, working, 500.0 ms in 999.5 ms from 0.0000 s" in bar.title


@pytest.mark.parametrize(
    "spans",
    [
        [Span(0, "cell", "a", 0.0, 5.0), Span(0, "cell", "b", 5.0, 5.1)],  # the first is wide enough
        [Span(0, "cell", "a", 0.0, 0.1), Span(0, "cell", "b", 0.1, 5.0)],
        [Span(0, "cell", "a", 0.0, 0.1), Span(0, "cell", "b", 3.0, 3.1)],  # far apart
        [Span(0, "cell", "a", 0.0, 0.1), Span(0, "call", "b", 0.1, 0.2)],
    ],
)
def test_what_can_be_told_apart_is_not_drawn_as_one(spans):
    assert [bar.count for bar in merged(spans, 1.0)] == [1, 1]


def test_merged_waiting_and_working_lie_above_each_other_by_their_shares():
    spans = []
    for n in range(4000):
        spans += [met(0, n / 4000, n / 4000 + 0.0002), waiting(0, n / 4000, n / 4000 + 0.0001)]
    svg = picture(timeline(*spans, workers=1))
    heights = {
        rect.findtext(f"{SVG}title").split("\n")[0].split(", ")[0]: (
            float(rect.get("y")),
            float(rect.get("height")),
        )
        for rect in svg.iter(f"{SVG}rect")
        if rect.find(f"{SVG}title") is not None
    }
    (works, waits) = (
        next(heights[key] for key in heights if word in key) for word in ("collective", "waiting")
    )
    assert works[0] + works[1] < waits[0] + 0.01


@pytest.mark.unmeasured
@pytest.mark.parametrize("workers", [1, 16])
def test_a_picture_of_everything_that_is_kept_stays_small(workers):
    spans = []
    for worker in range(workers):
        for n in range(2048):
            start = n / 200 + (n % 7) / 2000
            spans += [met(worker, start, start + 0.004), waiting(worker, start, start + 0.002)]
            spans.append(Span(worker, "cell", f"Cell {n}", start, start + 0.0045))
            spans += [Span(worker, "error", "E", start, start)] * (n % 3 == 0)
    html = timeline_html(timeline(*spans, workers=workers, end_s=11.0))
    assert len(html) < 200_000
    svg = page(html).find(f".//{SVG}svg")
    assert len(list(svg.iter())) < 2_000
    assert len(bars(svg)) <= MOST_BARS


def test_steps_of_many_workers_are_drawn_one_by_one_and_merged_ones_explain_their_height():
    def steps(count):
        at = [(worker, n * 10 / count) for worker in range(16) for n in range(count)]
        return timeline_html(timeline(*(met(*each, each[1] + 5 / count) for each in at), workers=16))

    few, many = steps(60), steps(2000)
    assert len(bars(page(few).find(f".//{SVG}svg"))) == 16 * 60
    assert "as high as their share of the time" not in few
    assert "as high as their share of the time" in many


def test_what_was_dropped_is_dashed_and_said():
    made = timeline(Span(0, "cell", "c", 5.0, 6.0), whole_from_s=(4.0, 0.0), dropped=(7, 0))
    html = timeline_html(made)
    assert "older spans were dropped</title>" in html
    assert "7 older spans of workers [0] were dropped" in html


def test_the_numbers_and_the_straggler_are_below_the_picture():
    html = timeline_html(MANY)
    cells = [[cell.text for cell in row] for row in page(html).iter("tr")]
    assert cells[0] == ["worker", "running", "waiting", "idle", "errors", "came last", "others waited"]
    assert cells[2][-2:] == ["1 of 1", "4.00 s"]
    assert "worker 1 came last to 1 of 1 collective; the others waited 4.00 s for it" in html


def test_a_timeline_of_nothing_can_be_shown():
    assert picture(timeline(end_s=0.0)) is not None
    assert bars(picture(timeline())) == []


def test_in_a_narrow_window_the_picture_is_scrolled():
    assert "overflow-x:auto" in timeline_html(MANY)


def test_the_bundle_has_the_text_picture_too():
    bundle = timeline_bundle(MANY)
    assert bundle["text/plain"] == repr(MANY)
    assert set(bundle) == {"text/plain", "text/html"}


NAMED = timeline(
    Span(0, "cell", "Cell In[2]", 0.0, 8.0),
    Span(0, "span", "F1", 0.0, 2.0),
    Span(0, "span", "F2", 2.0, 4.0),
    Span(0, "span", "B1", 4.0, 4.2),
    met(0, 5.0, 6.0),
    Span(1, "cell", "Cell In[3]", 0.0, 8.0),
)


def test_blocks_with_names_have_a_row_of_their_own():
    svg, before = picture(NAMED), picture(MANY)
    assert int(svg.get("height")) - int(before.get("height")) == 2 * 16
    texts = [text.text for text in svg.iter(f"{SVG}text")]
    assert [text for text in texts if text in ("F1", "F2", "B1")] == ["F1", "F2"]  # there is no room for B1
    rows = {
        rect.findtext(f"{SVG}title").partition("\n")[0]: (float(rect.get("y")), rect.get("fill"))
        for rect in svg.iter(f"{SVG}rect")
        if rect.find(f"{SVG}title") is not None
    }
    named = {title: rows[title] for title in rows if title.startswith("named by worker.span: ")}
    assert len(named) == 3
    f1, f2, b1 = named.values()
    assert f1 == f2 != b1  # names that differ in digits have one colour
    assert (
        rows["cell: Cell In[2]"][0] < f1[0] < rows["collective, working: barrier(), " + met(0, 1, 2).site][0]
    )
    assert "named by worker.span" in timeline_html(NAMED)
    assert "named by worker.span" not in timeline_html(MANY)


def test_blocks_that_take_turns_and_are_too_narrow_to_draw_apart_are_bands_as_high_as_their_share():
    steps = [
        Span(0, "span", name, start + at, start + at + took)
        for start in (number * 0.004 for number in range(2500))
        for name, at, took in (("forward 1", 0.0, 0.003), ("backward", 0.003, 0.001))
    ]
    svg = picture(timeline(*steps, workers=1))
    bands = {}
    for rect in svg.iter(f"{SVG}rect"):
        title = rect.findtext(f"{SVG}title") or ""
        if "forward #, backward" in title:
            bands[rect.get("stroke")] = float(rect.get("height"))
            assert "\nforward #: " in title
    assert bands == pytest.approx({colour_of("forward 2"): 10.5, colour_of("backward"): 3.5}, abs=0.3)
    # The highest band has its name inside; one over several bands would cross their borders.
    (text,) = [text for text in svg.iter(f"{SVG}text") if "forward" in text.text]
    (top,) = {float(each.get("y")) for each in svg.iter(f"{SVG}rect") if each.get("height") == "10.5"}
    assert text.text == "forward #"
    assert top + 7 < float(text.get("y")) < top + 10.5 - 2


def test_bars_and_names_of_hundreds_of_workers_are_in_their_lanes():
    steps = [Span(worker, "span", "step", 0.1, 0.9) for worker in range(300)]
    svg = picture(timeline(*steps, workers=300))
    bars = [float(rect.get("y")) for rect in svg.iter(f"{SVG}rect") if len(rect)]  # they have a title
    names = [float(text.get("y")) for text in svg.iter(f"{SVG}text") if text.text == "step"]
    for places in bars, names:
        assert len(places) == 300
        assert {below - above for above, below in pairwise(places)} == {places[1] - places[0]}


def test_bands_that_are_too_low_for_text_have_none():
    steps = [Span(0, "span", "AB"[turn % 2], turn * 0.002, turn * 0.002 + 0.002) for turn in range(5000)]
    texts = [text.text for text in picture(timeline(*steps, workers=1)).iter(f"{SVG}text")]
    assert not [text for text in texts if "A" in text or "B" in text]


def test_names_are_escaped():
    html = timeline_html(timeline(Span(0, "span", "<b>&", 0.0, 9.0)))
    assert "&lt;b&gt;&amp;" in html
    assert "<b>&" not in html


def test_a_long_pause_of_all_workers_takes_no_room_and_says_how_long_it_was():
    busy = Span(0, "cell", "Cell In[2]", 5.0, 6.0), Span(1, "cell", "Cell In[3]", 50.0, 53.0)
    html = timeline_html(timeline(*busy, end_s=90.0))
    svg = page(html).find(f".//{SVG}svg")
    (_, first, first_width, _), (_, second, second_width, _) = bars(svg)
    assert second - (first + first_width) < 30
    assert second_width > 550
    assert second_width / first_width == pytest.approx(3, rel=0.1)
    told = [path.findtext(f"{SVG}title") for path in svg.iter(f"{SVG}path") if len(path)]
    assert told == [
        "nobody worked: 5.00 s from 0.0000 s",
        "nobody worked: 44.00 s from 6.0000 s",
        "nobody worked: 37.00 s from 53.0000 s",
    ]
    texts = [text.text for text in svg.iter(f"{SVG}text") if text.text.endswith(" s")]
    assert texts == ["5.00 s", "5.5 s", "50.00 s", "50.5 s", "51.0 s", "51.5 s", "52.0 s", "52.5 s", "53.0 s"]
    assert "a pause, shortened" in html
    assert "a pause, shortened" not in timeline_html(MANY)


def test_no_time_sticks_out_of_the_picture():
    svg = picture(timeline(Span(0, "cell", "Cell In[2]", 86_400.0, 86_400.0 + 1e-5), end_s=86_401.0))
    texts = [each for each in svg.iter(f"{SVG}text") if each.text.endswith(" s")]
    assert len(texts) > 3
    assert all(float(each.get("x")) + 3 * len(each.text) < 960 for each in texts)
