"""The live view of a timeline: sliders, workers, refresh, and what is saved."""

from __future__ import annotations

import json
import re

import pytest

from disco_magic.core.timeline import Span
from disco_magic.notebook.live.views import everything_in
from disco_magic.notebook.pictures.kept import kept
from disco_magic.notebook.timeline.picture import timeline_html
from tests.timelines import BOTH, MANY, timeline


class Takes:
    """Gives one timeline after the other."""

    def __init__(self, *made):
        self.made = list(made)

    def __call__(self):
        return self.made.pop(0)


@pytest.fixture
def view():
    pytest.importorskip("ipywidgets")
    from disco_magic.notebook.timeline.view import TimelineView

    made = []

    def open_view(*timelines, choose=None):
        made.append(TimelineView(Takes(*timelines), choose))
        return made[-1]

    yield open_view
    for each in made:
        each.widget.close_all()


def test_a_view_shows_all_of_it_at_first(view):
    shown = view(MANY)
    assert (shown.window.value, shown.workers.value) == ((0.0, 10.0), (0, 1))
    assert shown.picture.value == timeline_html(MANY)


def test_a_view_can_begin_with_the_last_seconds(view):
    shown = view(MANY, timeline(end_s=30.0), choose=lambda made: made.last(4.0))
    assert shown.shown.start_s == 6.0
    shown.refresh.click()
    assert shown.window.value == (26.0, 30.0)


def test_a_slider_covers_what_is_around_a_short_time_that_is_shown(view):
    # Both handles of a cell of 85 ms lay on top of each other, after twenty seconds.
    shown = view(timeline(end_s=100.0), choose=lambda made: made.between(50.0, 51.0))
    assert (shown.window.min, shown.window.max, shown.window.value) == (48.0, 53.0, (50.0, 51.0))
    assert shown.window.step == pytest.approx(0.005)


def test_a_slider_covers_less_or_more_when_asked(view):
    shown = view(timeline(end_s=100.0))
    shown.window.value = (20.0, 30.0)
    shown.closer.click()
    assert (shown.window.min, shown.window.max, shown.window.value) == (20.0, 30.0, (20.0, 30.0))
    shown.window.value = (24.0, 25.0)
    assert (shown.shown.start_s, shown.shown.end_s) == (24.0, 25.0)
    shown.wider.click()
    assert (shown.window.min, shown.window.max, shown.window.value) == (5.0, 45.0, (24.0, 25.0))
    for _ in range(3):
        shown.wider.click()
    assert (shown.window.min, shown.window.max, shown.window.value) == (0.0, 100.0, (24.0, 25.0))
    shown.window.value = (24.0, 24.0)
    shown.closer.click()  # there is nothing to cover
    assert (shown.window.min, shown.window.max) == (0.0, 100.0)


def test_a_view_can_follow_the_last_cell_until_another_time_is_chosen(view):
    later = [timeline(Span(1, "cell", "Cell In[3]", 20.0, 25.0, seq=4), end_s=30.0) for _ in range(2)]
    shown = view(MANY, *later, choose=lambda made: made.of_cell())
    assert shown.window.value == (0.0, 8.0)
    shown.refresh.click()
    assert shown.window.value == (20.0, 25.0)
    shown.window.value = (29.0, 30.0)
    shown.refresh.click()
    assert shown.window.value == (29.0, 30.0)


def test_a_chosen_window_and_worker_are_shown(view):
    shown = view(MANY)
    shown.window.value = (2.0, 5.0)
    shown.workers.value = (1,)
    assert (shown.shown.start_s, shown.shown.end_s, shown.shown.workers) == (2.0, 5.0, (1,))
    assert shown.picture.value == timeline_html(MANY.of([1]).between(2.0, 5.0))


def test_no_chosen_worker_means_all_of_them(view):
    shown = view(MANY)
    shown.workers.value = ()
    assert shown.shown.workers == BOTH


def test_the_last_cell_is_shown_and_followed_until_all_is_shown_again(view):
    later = timeline(Span(1, "cell", "Cell In[3]", 2000.0, 2025.0, seq=4), end_s=2030.0)
    shown = view(MANY, later)
    shown.cell.click()
    assert shown.window.value == (0.0, 8.0)
    shown.refresh.click()
    assert shown.window.value == (2000.0, 2025.0)
    assert shown.window.min > 1900.0
    shown.all.click()
    assert shown.window.value == (shown.window.min, shown.window.max) == (0.0, 2030.0)


def test_without_a_cell_the_last_cell_is_explained_and_all_stays(view):
    shown = view(timeline())
    shown.cell.click()
    assert "no cell has been executed" in shown.said.value
    assert shown.window.value == (0.0, 10.0)


@pytest.mark.parametrize(("workers", "rows"), [(2, 2), (8, 8), (64, 8)])
def test_eight_workers_are_listed_without_scrolling(view, workers, rows):
    assert view(timeline(workers=workers)).workers.rows == rows


def test_a_window_of_no_time_is_explained_and_the_picture_stays(view):
    shown = view(MANY)
    before = shown.picture.value
    shown.window.value = (3.0, 3.0)
    assert "is empty" in shown.said.value
    assert shown.picture.value == before
    shown.window.value = (3.0, 4.0)
    assert shown.said.value == ""


def test_refresh_looks_again_and_goes_on_to_show_all(view):
    later = timeline(end_s=30.0)
    shown = view(MANY, later)
    shown.refresh.click()
    assert (shown.timeline, shown.window.value) == (later, (0.0, 30.0))


@pytest.mark.parametrize("now", [1, 8])
def test_refresh_shows_the_workers_of_the_session_that_is_there_now(view, now):
    other = timeline(end_s=30.0, workers=now)
    shown = view(MANY, other)
    shown.refresh.click()
    assert shown.said.value == ""
    assert [number for _, number in shown.workers.options] == list(range(now))
    assert shown.shown.workers == tuple(range(now))


def test_refresh_goes_on_to_show_as_many_last_seconds(view):
    shown = view(MANY, timeline(end_s=30.0))
    shown.window.value = (6.0, 10.0)
    shown.refresh.click()
    assert shown.window.value == (26.0, 30.0)


def test_what_is_shown_is_saved(view, tmp_path):
    shown = view(MANY)
    shown.workers.value = (1,)
    shown.path.value = str(tmp_path / "trace.json")
    shown.save.click()
    assert json.loads((tmp_path / "trace.json").read_text()) == MANY.of([1]).to_chrome()
    assert "saved in" in shown.said.value


def test_what_cannot_be_saved_is_explained(view, tmp_path):
    shown = view(MANY)
    shown.path.value = str(tmp_path)
    shown.save.click()
    assert "is a directory" in shown.said.value


def test_a_view_is_a_still_and_widgets_until_it_is_closed(view):
    shown = view(MANY)
    still, live = shown.bundles()
    assert still["text/plain"] == repr(MANY)
    assert kept(timeline_html(MANY, place="still")) in still["text/html"]
    patterns = re.compile(r'<pattern id="([^"]+)"')
    names = set(patterns.findall(still["text/html"]))
    assert names
    assert not names & set(patterns.findall(shown.picture.value))  # the first one of a name may be hidden
    assert "application/vnd.jupyter.widget-view+json" in live
    assert live["text/plain"] == ""  # `jupyter console` has the still's, and printed the widgets' classes
    shown.close()
    shown.close()
    assert len(shown.bundles()) == 1
    assert shown.window.comm is None


def test_a_kernel_gets_the_view(fresh):
    fresh.ok("%%disco\nbarrier()")
    still, live = [display["data"] for display in fresh.ok("%disco timeline").displays]
    assert "<svg" in still["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in live


def test_the_tall_list_of_workers_is_beside_the_other_controls_and_moves_none_of_them(view):
    shown = view(timeline(workers=8))
    rows, workers = shown.widget.children[0].children
    assert workers is shown.workers
    assert {shown.window, shown.all, shown.refresh, shown.save} <= set(everything_in(rows))
    assert shown.widget.children[0].layout.align_items == "flex-start"
