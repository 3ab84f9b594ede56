"""Lines, colours and unfinished lines of workers, without a shell: sinks over streams that record."""

from __future__ import annotations

import threading

import pytest

from disco_magic.notebook.printing import worker_print
from disco_magic.notebook.sink import _visible
from disco_magic.notebook.streams import current_sink


class Clock:
    """Time that stands still until it is moved."""

    now = 0.0

    def __call__(self):
        return self.now


# --- lines -----------------------------------------------------------------------------------------


def test_pieces_become_whole_lines_under_the_worker_s_prefix(texts, live):
    _, (first, second) = live(texts)
    out, other = first.writer("stdout"), second.writer("stdout")
    out("a")
    other("x\ny")
    out("b\nc")
    assert texts[0].getvalue() == "[1] x\n[0] ab\n"
    first.finish()
    second.finish()
    assert texts[0].getvalue() == "[1] x\n[0] ab\n[0] c\n[1] y\n"


def test_both_channels_keep_their_own_unfinished_line(texts, live):
    _, (first, _) = live(texts)
    first.writer("stdout")("out")
    first.writer("stderr")("err\n")
    first.finish()
    assert [stream.getvalue() for stream in texts] == ["[0] out\n", "[0] err\n"]


def test_only_shown_workers_are_shown_and_all_are_recorded(texts, live):
    _, (first, second) = live(texts, shown=[1])
    first.writer("stdout")("a\n")
    second.writer("stdout")("b\n")
    assert (texts[0].getvalue(), first.text, second.text) == ("[1] b\n", "a\n", "b\n")


def test_lines_of_many_threads_are_never_torn(texts, live):
    _, sinks = live(texts, 4)
    start = threading.Barrier(4)

    def write(sink):
        start.wait(20)
        for i in range(300):
            sink.writer("stdout")(f"{i}")
            sink.writer("stdout")(" end\n")

    threads = [threading.Thread(target=write, args=(sink,)) for sink in sinks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    lines = texts[0].getvalue().splitlines()
    assert sorted(lines) == sorted(f"[{w}] {i} end" for w in range(4) for i in range(300))


def test_an_abandoned_worker_writes_nowhere(texts, live):
    _, (first, _) = live(texts)
    first.writer("stdout")("before\nhalf")
    first.abandon()
    assert first.writer("stdout")("stray\n") == 6
    assert texts[0].getvalue() == "[0] before\n[0] half\n"
    assert first.text == "before\nhalf"


def test_writing_something_else_than_text_is_refused_as_by_any_stream(texts, live):
    _, (first, _) = live(texts)
    with pytest.raises(TypeError, match=r"write\(\) argument must be str, not bytes"):
        first.writer("stdout")(b"x")


def test_an_empty_piece_makes_no_line(texts, live):
    _, (first, _) = live(texts)
    first.writer("stdout")("a\n")
    first.writer("stdout")("")
    first.finish()
    assert texts[0].getvalue() == "[0] a\n"


def test_printing_while_a_line_is_being_printed_does_not_deadlock(texts, live):
    page, (first, _) = live(texts)
    with page.lock:
        first.writer("stdout")("from a finalizer\n")
    assert texts[0].getvalue() == "[0] from a finalizer\n"


# --- colours and unfinished lines ------------------------------------------------------------------


def test_prefixes_are_coloured_on_a_terminal_and_plain_elsewhere(terminal, live):
    _, (first, _) = live(terminal)
    first.writer("stdout")("a\n")
    assert terminal.getvalue() == "\x1b[36m[0]\x1b[0m a\n"


def test_no_color_switches_colours_off(terminal, monkeypatch, live):
    monkeypatch.setenv("NO_COLOR", "1")
    _, (first, _) = live(terminal)
    first.writer("stdout")("a\n")
    assert terminal.getvalue() == "[0] a\n"


def test_a_progress_bar_replaces_its_line_at_most_five_times_a_second(terminal, live):
    clock = Clock()
    _, (sink,) = live(terminal, 1, clock=clock)
    for percent in (10, 20, 30):
        sink.writer("stdout")(f"\r{percent}%")
    clock.now = 0.3
    sink.writer("stdout")("\r40%")
    sink.writer("stdout")("\r100%\n")
    frames = [part for part in terminal.getvalue().split("\r") if part.strip()]
    assert [frame.replace("\x1b[36m[0]\x1b[0m ", "") for frame in frames] == ["10%", "40%", "100%\n"]
    assert sink.text == "100%\n"


def test_an_unfinished_line_is_wiped_before_another_worker_s_line(terminal, monkeypatch, live):
    monkeypatch.setattr("disco_magic.notebook.outlet._COLOURS", (0,))
    _, (first, second) = live(terminal)
    first.writer("stdout")("\r50%")
    second.writer("stdout")("done\n")
    assert terminal.getvalue().endswith(f"\r{' ' * 7}\r\x1b[0m[1]\x1b[0m done\n")


def test_flush_shows_an_unfinished_line_on_a_terminal(terminal, live):
    _, (first, _) = live(terminal)
    first.writer("stdout")("loading")
    assert "loading" not in terminal.getvalue()
    first.flush("stdout")
    assert "loading" in terminal.getvalue()


def test_captured_text_holds_only_what_the_progress_bar_ended_with(texts, live):
    _, (first, _) = live(texts)
    first.writer("stdout")("\r10%\r20%")
    first.flush("stdout")
    first.writer("stdout")("\r30%\r\n")
    assert texts[0].getvalue() == "[0] 30%\n"


def test_lines_come_above_the_prompt_while_the_user_types(terminal, monkeypatch, live, onto):
    prompt = type("StdoutProxy", (type(terminal),), {"__module__": "prompt_toolkit.patch_stdout"})()
    _, (first, _) = live(terminal)
    token = current_sink.set(first)
    try:
        with onto(prompt, prompt):
            worker_print("late", 1)
            worker_print("elsewhere", file=terminal)
    finally:
        current_sink.reset(token)
    assert prompt.getvalue() == "\x1b[36m[0]\x1b[0m late 1\n"
    assert terminal.getvalue() == "elsewhere\n"


# --- lines that do not end -------------------------------------------------------------------------


@pytest.fixture
def joined(monkeypatch):
    """Lengths of the texts that sinks have joined to look at."""
    lengths = []

    def count(line):
        lengths.append(len(line))
        return _visible(line)

    monkeypatch.setattr("disco_magic.notebook.sink._visible", count)
    return lengths


def test_flushing_after_every_character_joins_the_line_once_per_frame_only(terminal, live, joined):
    clock = Clock()
    _, (first, _) = live(terminal, clock=clock)
    for i in range(2000):
        clock.now = i // 1000
        first.writer("stdout")(".")
        first.flush("stdout")
    assert joined == [1, 1001]
    first.finish()
    assert first.text == "." * 2000


def test_a_line_without_end_is_shown_in_parts_and_recorded_whole(texts, live, joined, monkeypatch):
    monkeypatch.setattr("disco_magic.notebook.sink.LINE_LIMIT", 100)
    _, (first, _) = live(texts)
    for _ in range(250):
        first.writer("stdout")("x")
    first.writer("stdout")("\n")
    assert texts[0].getvalue() == f"[0] {'x' * 101}\n" * 2 + f"[0] {'x' * 48}\n"
    assert first.text == "x" * 250 + "\n"
    assert sum(joined) == 250


def test_a_progress_bar_without_end_keeps_its_present_state_only(texts, live, joined, monkeypatch):
    monkeypatch.setattr("disco_magic.notebook.sink.LINE_LIMIT", 100)
    _, (first, _) = live(texts, clock=Clock())
    for step in range(1000):
        first.writer("stdout")(f"\r{step}")
    first.finish()
    assert (texts[0].getvalue(), first.text) == ("[0] 999\n", "999")
    assert max(joined) <= 105
    assert sum(joined) < 2 * 4000


def test_carriage_returns_behind_a_long_line_do_not_look_at_it_again_each_time(
    texts, live, joined, monkeypatch
):
    monkeypatch.setattr("disco_magic.notebook.sink.LINE_LIMIT", 100)
    _, (first, _) = live(texts, clock=Clock())
    first.writer("stdout")("\r")
    first.writer("stdout")("x" * 99)
    for _ in range(1000):
        first.writer("stdout")("\r")
    assert sum(joined) < 2 * 1100
    assert first.text == "x" * 99
