"""The live area of a cell, without a notebook: when it is drawn, what it shows, and what it survives."""

from __future__ import annotations

import threading
from contextvars import ContextVar, copy_context

import pytest

from disco_magic.notebook.output.livearea import LiveArea, Row
from tests.clocks import Clock

where = ContextVar("where", default="nowhere")


class Recorder:
    """A screen that remembers what it showed."""

    waited = False
    stopped_by = "the stop button"

    def __init__(self):
        self.shown = []
        self.contexts = []
        self.is_covered = False
        self.on_show = lambda: None

    def show(self, rows):
        self.shown.append([f"{list(row.workers)} {row.text}" for row in rows])
        self.contexts.append(where.get())
        self.on_show()

    def covered(self):
        return self.is_covered


class Bars:
    """Stands for a sink with unfinished lines."""

    def __init__(self, worker, *texts):
        self.worker = worker
        self.texts = list(texts)

    def shown(self, channels):
        assert channels == ["stdout", "stderr"]
        return self.texts


@pytest.fixture
def stage():
    """A clock, a screen and the area on it."""
    clock, screen = Clock(), Recorder()
    return clock, screen, LiveArea(screen, ["stdout", "stderr"], copy_context(), clock)


def test_all_workers_are_shown_in_their_order_and_a_bar_without_text_is_not(stage):
    clock, screen, area = stage
    area.touch(Bars(1, "b"))
    clock.now = 1.0
    area.touch(Bars(0, "a", "inner"))
    area.touch(Bars(2))
    assert screen.shown == [["[1] b"], ["[0] a", "[0] inner", "[1] b"]]


def test_it_is_drawn_at_most_five_times_a_second_whoever_touches_it(stage):
    clock, screen, area = stage
    bars = [Bars(0, ""), Bars(1, "")]
    for step in range(1000):
        clock.now = step / 100
        bars[step % 2].texts = [str(step)]
        area.touch(bars[step % 2])
        area.look([Row((2,), f"{step}", status=True)])
        area.wrote(0)
    assert 10 * 4 <= len(screen.shown) <= 10 * 5


def test_what_came_during_the_pause_is_shown_by_the_next_look(stage):
    clock, screen, area = stage
    bar = Bars(0, "1")
    area.touch(bar)
    bar.texts = ["2"]
    area.touch(bar)
    area.look(None)
    clock.now = 0.3
    area.look(None)
    area.look(None)
    assert screen.shown == [["[0] 1"], ["[0] 2"]]


def test_rows_that_did_not_change_are_not_drawn_again_unless_they_were_covered(stage):
    clock, screen, area = stage
    area.touch(Bars(0, "1"))
    for now in (1.0, 2.0):
        clock.now = now
        area.look(None)
    assert len(screen.shown) == 1
    screen.is_covered = True
    area.look(None)
    assert screen.shown == [["[0] 1"]] * 2


def test_a_bar_that_became_a_line_goes(stage):
    clock, screen, area = stage
    bar = Bars(0, "99%")
    area.touch(bar)
    bar.texts = []
    clock.now = 1.0
    area.wrote(1)
    assert len(screen.shown) == 1
    area.wrote(0)
    assert screen.shown[1:] == [[]]


def test_status_comes_below_the_bars_and_goes_when_nobody_waits(stage):
    clock, screen, area = stage
    area.wait()
    clock.now = 1.0
    area.look([Row((0, 1), "waiting", status=True)])
    clock.now = 2.0
    area.touch(Bars(1, "bar"))
    area.end_wait()
    assert screen.shown == [["[0, 1] waiting"], ["[1] bar", "[0, 1] waiting"], ["[1] bar"]]


def test_a_cell_that_is_over_at_once_shows_nothing(stage):
    clock, screen, area = stage
    area.wait()
    clock.now = 0.1
    area.touch(Bars(0, "1"))
    area.close()
    area.end_wait()
    assert screen.shown == []


def test_closing_takes_everything_away_and_later_touches_show_nothing(stage):
    clock, screen, area = stage
    area.touch(Bars(0, "1"))
    area.close()
    clock.now = 5.0
    area.touch(Bars(0, "late"))
    area.look([Row((0,), "late")])
    area.wait()
    area.end_wait()
    area.close()
    assert screen.shown == [["[0] 1"], []]


def test_without_rows_the_screen_is_never_asked(stage):
    clock, screen, area = stage
    clock.now = 9.0
    area.look(None)
    area.look([])
    area.close()
    assert screen.shown == []


def test_a_screen_in_the_way_of_the_user_is_used_while_somebody_waits_only(stage):
    clock, screen, area = stage
    screen.waited = True
    area.touch(Bars(0, "1"))
    assert screen.shown == []
    area.wait()
    clock.now = 1.0
    area.look(None)
    area.end_wait()
    assert screen.shown == [["[0] 1"], []]


def test_a_screen_that_fails_ends_the_area_and_nothing_else(stage, caplog):
    caplog.set_level("DEBUG", "disco_magic")
    clock, screen, area = stage

    def fail():
        raise OSError("gone")

    screen.on_show = fail
    area.touch(Bars(0, "1"))
    clock.now = 1.0
    area.touch(Bars(0, "2"))
    area.close()
    assert len(screen.shown) == 1
    assert "OSError: gone" in caplog.text


def test_an_interrupt_while_drawing_goes_through_and_the_next_one_draws(stage):
    clock, screen, area = stage

    def interrupt():
        raise KeyboardInterrupt

    screen.on_show = interrupt
    with pytest.raises(KeyboardInterrupt):
        area.touch(Bars(0, "1"))
    screen.on_show = lambda: None
    clock.now = 1.0
    area.touch(Bars(0, "2"))
    assert screen.shown[-1] == ["[0] 2"]


def test_a_finalizer_that_prints_while_it_is_drawn_does_not_draw_again(stage):
    clock, screen, area = stage
    screen.on_show = lambda: area.touch(Bars(1, "inside"))
    clock.now = 1.0
    area.touch(Bars(0, "1"))
    assert screen.shown == [["[0] 1"]]


def test_it_is_drawn_in_the_cell_s_own_context_by_whatever_thread():
    screen = Recorder()
    token = where.set("the cell")
    area = LiveArea(screen, ["stdout", "stderr"], copy_context(), Clock())
    where.reset(token)
    thread = threading.Thread(target=area.touch, args=(Bars(0, "1"),))
    thread.start()
    thread.join(20)
    area.close()
    assert screen.contexts == ["the cell"] * 2


def test_it_is_quiet_since_the_last_line_or_change_of_any_worker(stage):
    clock, _, area = stage
    clock.now = 1.0
    area.wrote(3)
    assert area.quiet_since == 1.0
    clock.now = 2.0
    area.touch(Bars(0, "1"))
    assert area.quiet_since == 2.0
