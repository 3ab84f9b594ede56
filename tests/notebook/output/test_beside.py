"""Images that workers display, side by side: which wait for which, and what comes behind them."""

from __future__ import annotations

import pytest

from disco_magic.notebook.output.arrange import Item
from tests.notebook.output.pages import show_image


def test_images_that_workers_show_last_are_one_display_side_by_side(notebook):
    _, (first, second) = notebook()
    for sink in (second, first):
        show_image(notebook, sink)
        sink.finish()
    assert notebook.log == [("html", [0, 1])]


def test_an_image_comes_before_what_its_worker_writes_or_shows_next(notebook):
    _, (first, second) = notebook()
    show_image(notebook, first)
    first.writer("stdout")("line\n")
    show_image(notebook, second)
    second.display(notebook.kernel.publish, {"text/html": "x"}, {"metadata": None})
    first.finish()
    second.finish()
    assert notebook.log == [
        ("html", [0]),
        ("out", "[0] line\n"),
        ("out", "[1]\n"),
        ("html", [1]),
        ("update html", [0, 1]),
    ]


def test_an_image_waits_a_moment_for_those_of_the_others_which_come_beside_it_later_too(notebook):
    page, (first, second) = notebook()
    show_image(notebook, first)
    notebook.clock.now = 0.1
    page.look()
    assert notebook.log == []
    notebook.clock.now = 0.2
    page.look()
    assert notebook.log == [("html", [0])]
    notebook.clock.now = 60.0
    show_image(notebook, second)
    assert notebook.log[1:] == [("update html", [0, 1])]


def test_an_image_does_not_come_above_what_its_worker_wrote_before(notebook):
    page, (first, second) = notebook()
    show_image(notebook, first)
    notebook.clock.now = 0.2
    page.look()
    second.writer("stdout")("line\n")
    show_image(notebook, second)
    first.finish()
    second.finish()
    assert notebook.log == [("html", [0]), ("out", "[1] line\n"), ("out", "[1]\n"), ("image", [1])]


def test_figures_one_after_the_other_are_displays_one_below_the_other(notebook):
    page, sinks = notebook()
    for turn in range(3):
        for sink in sinks:
            show_image(notebook, sink, f"figure {turn}")
        notebook.clock.now += 0.3
        page.look()
    for sink in sinks:
        sink.finish()
    assert notebook.log == [("html", [0, 1])] * 3
    assert notebook.seen[2] == ["[0]", "figure 2", "[1]", "figure 2"]


def test_figures_of_the_cell_s_end_wait_as_long_as_the_cell_takes(notebook):
    page, (first, second) = notebook()
    first.pictures([Item("picture", data={"image/png": "iVBOR"})])
    first.finish()
    notebook.clock.now = 60.0
    page.look()
    assert notebook.log == []
    second.pictures([Item("picture", data={"image/png": "iVBOR"})])
    second.finish()
    assert notebook.log == [("html", [0, 1])]


@pytest.mark.parametrize(
    "kwargs", [{"update": True, "transient": {"display_id": "1"}}, {"transient": {"display_id": "1"}}]
)
def test_an_image_that_is_to_change_in_its_place_gets_it_at_once(notebook, kwargs):
    _, (first, _) = notebook()
    show_image(notebook, first, **kwargs)
    assert notebook.log[-1][0].endswith("image")


def test_an_image_waits_for_nobody_where_nobody_else_is_shown_or_nobody_watches(notebook):
    _, (first, _) = notebook(shown=[0])
    show_image(notebook, first)
    assert len(notebook.log) == 2
    page, (first, _) = notebook()
    page.area.end_wait()
    show_image(notebook, first)
    assert len(notebook.log) == 4
    show_image(notebook, first)
    first.abandon()
    show_image(notebook, first)
    assert len(notebook.log) == 6


def test_an_image_waits_for_the_others_only_as_long_as_somebody_waits_for_the_cell(notebook):
    page, (first, _) = notebook()
    page.area.end_wait()
    with page.waited_for():
        with page.waited_for():  # as `result(timeout=1)` in another thread
            show_image(notebook, first)
        assert notebook.log == []
    assert notebook.log == [("html", [0])]


def test_images_that_are_kept_are_beside_each_other_only_if_nothing_is_behind_them(notebook):
    _, sinks = notebook("ordered")
    for sink in sinks:
        show_image(notebook, sink)
        sink.writer("stdout")("line\n")
        show_image(notebook, sink)
        sink.pictures([Item("picture", data={"image/png": "iVBOR"})])
    for sink in sinks:
        sink.finish()
    first = [("out", "[0]\n"), ("image", [0]), ("out", "[0] line\n[1]\n")]
    assert notebook.log == [*first, ("image", [1]), ("out", "[1] line\n"), ("html", [0, 1])]


def test_of_figures_that_nobody_sees_nothing_is_kept(notebook):
    _, (first, second) = notebook(shown=[1])
    first.pictures([Item("picture", data={"image/png": "iVBOR"})])
    assert not first.is_shown
    assert second.is_shown
    second.abandon()
    assert not second.is_shown
    second.pictures([Item("picture", data={"image/png": "iVBOR"})])
    first.finish()
    assert notebook.log == []
