"""Colours, progress bars and unfinished lines of workers, without a shell."""

from __future__ import annotations

import types

import pytest

from disco_magic.isolation.streams import WorkerStream
from disco_magic.notebook.facade import worker_print
from disco_magic.notebook.libraries.bars import BARS
from disco_magic.notebook.output import outlet
from disco_magic.notebook.output.sink import RESTS
from disco_magic.notebook.output.streams import using_sink
from tests.clocks import Clock
from tests.locks import taken_elsewhere

# --- colours and unfinished lines ------------------------------------------------------------------


def test_prefixes_are_coloured_on_a_terminal_and_plain_elsewhere(terminal, live):
    _, (first, _) = live(terminal)
    first.writer("stdout")("a\n")
    assert terminal.getvalue() == "\x1b[38;5;30m[0]\x1b[0m a\n"


def test_no_color_switches_colours_off(terminal, monkeypatch, live):
    monkeypatch.setenv("NO_COLOR", "1")
    _, (first, _) = live(terminal)
    first.writer("stdout")("a\n")
    assert terminal.getvalue() == "[0] a\n"


@pytest.mark.parametrize("colours", ["NoColor", "nocolor"])  # of IPython 8, and since 9
def test_ipython_s_own_setting_switches_colours_off(terminal, monkeypatch, live, colours):
    monkeypatch.setattr(outlet, "get_ipython", lambda: types.SimpleNamespace(colors=colours))
    _, (first, _) = live(terminal)
    first.writer("stdout")("a\n")
    assert terminal.getvalue() == "[0] a\n"


def test_a_progress_bar_is_drawn_in_its_place_at_most_five_times_a_second(terminal, live):
    clock = Clock()
    _, (sink,) = live(terminal, 1, clock=clock)
    frames = []
    for eighth in range(1, 10):
        clock.now = eighth / 8
        sink.writer("stdout")(f"\r{eighth}/10")
        frames += [line for line in terminal.screen if line not in frames]
    assert frames == ["", "[0] 2/10", "[0] 4/10", "[0] 6/10", "[0] 8/10"]
    sink.writer("stdout")("\r100%\n")
    sink.finish()
    assert terminal.screen == ["[0] 100%", ""]
    assert sink.text == "100%\n"


def test_unfinished_lines_of_all_workers_stay_below_the_lines(terminal, live):
    clock = Clock()
    _, (first, second) = live(terminal, clock=clock)
    clock.now = 1.0
    first.writer("stderr")("\r50%")
    second.writer("stdout")("start\n")
    clock.now = 2.0
    second.writer("stdout")("\r10%")
    assert terminal.screen == ["[1] start", "[0] 50%", "[1] 10%"]
    first.writer("stdout")("half\n")
    assert terminal.screen == ["[1] start", "[0] half", "[0] 50%", "[1] 10%"]
    second.finish()
    first.finish()
    assert terminal.screen == ["[1] start", "[0] half", "[1] 10%", "[0] 50%", ""]


def test_a_bar_that_has_ended_becomes_a_line_although_its_worker_writes_no_more(terminal, live, more_bars):
    clock = Clock()
    page, (first, second) = live(terminal, clock=clock)
    for clock.now, piece in ((1.0, "\r90%"), (2.0, "\r100%"), (3.0, "\n")):
        first.writer("stderr")(piece)
    second.writer("stdout")("below\n")
    assert terminal.screen == ["[1] below", "[0] 100%"]
    for clock.now in range(4, 2 + RESTS):
        page.look()
        assert terminal.screen == ["[1] below", "[0] 100%"]  # the next bar may still come
    for clock.now in range(2 + RESTS, 5 + RESTS):
        page.look()
    assert terminal.screen == ["[1] below", "[0] 100%", ""]
    second.writer("stdout")("last\n")
    assert terminal.screen == ["[1] below", "[0] 100%", "[1] last", ""]


def test_two_bars_in_a_row_are_looked_at_in_the_middle_without_harm(terminal, live, more_bars):
    clock = Clock()
    page, (sink,) = live(terminal, 1, clock=clock)
    for clock.now, piece in enumerate(["\r100%", "\n", "\rnext 0%", "\rnext 1%"], 1):
        sink.writer("stderr")(piece)
        page.look()
    assert terminal.screen == ["[0] 100%", "[0] next 1%"]
    sink.finish()
    assert (terminal.screen, sink.text) == (["[0] 100%", "[0] next 1%", ""], "100%\nnext 1%")


def test_nobody_stands_in_line_to_look(terminal, live):
    clock = Clock()
    page, (sink,) = live(terminal, 1, clock=clock)
    sink.writer("stderr")("\r1%")
    clock.now = 1.0
    with taken_elsewhere(page.lock):
        page.look()
        assert terminal.screen == [""]
    page.look()
    assert terminal.screen == ["[0] 1%"]


def test_bars_of_a_cell_that_nobody_waits_for_are_not_drawn_on_a_terminal(terminal, live):
    clock = Clock()
    page, (sink,) = live(terminal, 1, clock=clock)
    page.area.end_wait()
    clock.now = 1.0
    sink.writer("stderr")("\r1%")
    assert terminal.screen == [""]
    with page.waited_for():
        clock.now = 2.0
        page.look()
        assert terminal.screen == ["[0] 1%"]
    assert terminal.screen == [""]


def test_a_terminal_has_no_place_that_changes_so_an_image_waits_for_nobody_and_nothing_is_cleared(
    terminal, live
):
    page, (first, second) = live(terminal)
    shown, image = [], {"image/png": "AAAA"}

    def publish(data, **_):
        shown.append(data)

    for sink in (first, second):
        sink.display(publish, image, {})
        sink.clear(lambda **_: shown.append("cleared"), wait=True)
        sink.writer("stdout")("line\n")
    assert shown == [image, image]
    assert page.area.is_waited_for
    assert terminal.screen == ["[0]", "[0] line", "[1]", "[1] line", ""]


def test_flush_shows_an_unfinished_line_on_a_terminal(terminal, live):
    clock = Clock()
    _, (first, _) = live(terminal, clock=clock)
    clock.now = 1.0
    first.writer("stdout")("loading")
    assert terminal.screen == [""]
    first.flush("stdout")
    assert terminal.screen == ["[0] loading"]


def test_captured_text_holds_only_what_the_progress_bar_ended_with(texts, live):
    _, (first, _) = live(texts)
    first.writer("stdout")("\r10%\r20%")
    first.flush("stdout")
    first.writer("stdout")("\r30%\r\n")
    first.finish()
    assert texts[0].getvalue() == "[0] 30%\n"


@pytest.fixture
def more_bars(monkeypatch):
    """Every worker has other bars, so that a newline need not be the end of one."""
    monkeypatch.setattr(BARS, "has_any", lambda sink: True)


def test_a_bar_that_has_ended_comes_before_later_lines_of_the_other_channel(texts, live, more_bars):
    _, (first, _) = live((texts[0], texts[0]))
    first.writer("stderr")("\r100%")
    first.writer("stderr")("\n")
    first.writer("stdout")("next\n")
    assert texts[0].getvalue() == "[0] 100%\n[0] next\n"


def test_lines_come_above_the_prompt_while_the_user_types(terminal, monkeypatch, live, onto):
    prompt = type("StdoutProxy", (type(terminal),), {"__module__": "prompt_toolkit.patch_stdout"})()
    _, (first, _) = live(terminal)
    with using_sink(first), onto(prompt, prompt):
        worker_print("late", 1)
        worker_print("elsewhere", file=terminal)
    assert prompt.getvalue() == "\x1b[38;5;30m[0]\x1b[0m late 1\n"
    assert terminal.getvalue() == "elsewhere\n"


def test_what_one_print_writes_is_one_piece(texts, live, onto, monkeypatch):
    _, (first, _) = live(texts)
    pieces = []
    monkeypatch.setattr(first, "_write", lambda _, text: pieces.append(text))
    with using_sink(first), onto(WorkerStream(texts[0], "stdout"), texts[1]):
        worker_print("two\nlines", 1, end="!\n")
    assert pieces == ["two\nlines 1!\n"]


def test_an_unfinished_line_that_is_flushed_is_seen_at_once(terminal, live, onto):
    clock = Clock()
    _, (first, _) = live(terminal, clock=clock)
    clock.now = 1.0
    with using_sink(first), onto(WorkerStream(terminal, "stdout"), terminal):
        worker_print("loading", end="", flush=True)
    assert terminal.screen == ["[0] loading"]


# --- lines that do not end -------------------------------------------------------------------------


@pytest.fixture
def joined(monkeypatch):
    """Lengths of the texts that sinks have joined of pieces to look at."""
    lengths = []

    class Pieces(list):
        def __len__(self):
            if super().__len__() > 1:
                lengths.append(sum(map(len, self)))
            return super().__len__()

    def init(row):
        row.pieces = Pieces()
        row.bar = False

    monkeypatch.setattr("disco_magic.functions.execution.unfinished._Row.__init__", init)
    return lengths


def test_flushing_after_every_character_joins_the_line_once_per_frame_only(terminal, live, joined):
    clock = Clock()
    _, (first, _) = live(terminal, clock=clock)
    for i in range(2000):
        clock.now = 1 + i // 1000
        first.writer("stdout")(".")
        first.flush("stdout")
    assert joined == [1001]
    first.finish()
    assert first.text == "." * 2000


def test_a_line_without_end_is_shown_in_parts_and_recorded_whole(texts, live, joined, monkeypatch):
    monkeypatch.setattr("disco_magic.notebook.output.sink.LINE_LIMIT", 100)
    _, (first, _) = live(texts)
    for _ in range(250):
        first.writer("stdout")("x")
    first.writer("stdout")("\n")
    assert texts[0].getvalue() == f"[0] {'x' * 101}\n" * 2 + f"[0] {'x' * 48}\n"
    assert first.text == "x" * 250 + "\n"
    assert sum(joined) <= 250


def test_a_progress_bar_without_end_keeps_its_present_state_only(texts, live, joined, monkeypatch):
    monkeypatch.setattr("disco_magic.notebook.output.sink.LINE_LIMIT", 100)
    _, (first, _) = live(texts, clock=Clock())
    for step in range(1000):
        first.writer("stdout")(f"\r{step}")
    first.finish()
    assert (texts[0].getvalue(), first.text) == ("[0] 999\n", "999")
    assert joined == []


def test_carriage_returns_behind_a_long_line_do_not_look_at_it_again_each_time(
    texts, live, joined, monkeypatch
):
    monkeypatch.setattr("disco_magic.notebook.output.sink.LINE_LIMIT", 100)
    _, (first, _) = live(texts, clock=Clock())
    first.writer("stdout")("\r")
    first.writer("stdout")("x" * 99)
    for _ in range(1000):
        first.writer("stdout")("\r")
    assert sum(joined) <= 100
    first.finish()
    assert first.text == "x" * 99
