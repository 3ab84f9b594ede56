"""Lines, frames, displays and their order, without a shell: a sink per worker over streams that record."""

from __future__ import annotations

import io
import sys
import time
import threading
from contextlib import contextmanager

import pytest
from disco_magic.notebook.arrange import ARRANGEMENTS
from disco_magic.notebook.page import KeptPage, Page
from disco_magic.notebook.sink import Sink
from disco_magic.notebook.streams import WorkerStream, current_sink, install_streams, remove_streams
from disco_magic.notebook.transcript import Transcript


class Terminal(io.StringIO):
    """A stream that shows colours and understands carriage returns."""

    def isatty(self):
        return True


class Clock:
    """Time that stands still until it is moved."""

    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def texts():
    """Plain streams for sys.stdout and sys.stderr."""
    return io.StringIO(), io.StringIO()


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "")
    return Terminal()


@contextmanager
def onto(out, err):
    """sys.stdout and sys.stderr for a moment; pytest replaces them between fixture and test."""
    saved = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = out, err
    try:
        yield
    finally:
        sys.stdout, sys.stderr = saved


def live(streams, count=2, shown=None, clock=time.monotonic):
    with onto(*(streams if isinstance(streams, tuple) else (streams, streams))):
        page = Page(range(count), range(count) if shown is None else shown)
    return page, [Sink(worker, page, clock) for worker in range(count)]


def kept(streams, mode, count=3):
    with onto(*streams):
        page = KeptPage(range(count), range(count), ARRANGEMENTS[mode])
    return page, [Sink(worker, page) for worker in range(count)]


# --- lines -----------------------------------------------------------------------------------------


def test_pieces_become_whole_lines_under_the_worker_s_prefix(texts):
    _, (first, second) = live(texts)
    out, other = first.writer("stdout"), second.writer("stdout")
    out("a")
    other("x\ny")
    out("b\nc")
    assert texts[0].getvalue() == "[1] x\n[0] ab\n"
    first.finish()
    second.finish()
    assert texts[0].getvalue() == "[1] x\n[0] ab\n[0] c\n[1] y\n"


def test_both_channels_keep_their_own_unfinished_line(texts):
    _, (first, _) = live(texts)
    first.writer("stdout")("out")
    first.writer("stderr")("err\n")
    first.finish()
    assert [stream.getvalue() for stream in texts] == ["[0] out\n", "[0] err\n"]


def test_only_shown_workers_are_shown_and_all_are_recorded(texts):
    _, (first, second) = live(texts, shown=[1])
    first.writer("stdout")("a\n")
    second.writer("stdout")("b\n")
    assert (texts[0].getvalue(), first.text, second.text) == ("[1] b\n", "a\n", "b\n")


def test_lines_of_many_threads_are_never_torn(texts):
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


def test_an_abandoned_worker_writes_nowhere(texts):
    _, (first, _) = live(texts)
    first.writer("stdout")("before\nhalf")
    first.abandon()
    assert first.writer("stdout")("stray\n") == 6
    assert texts[0].getvalue() == "[0] before\n[0] half\n"
    assert first.text == "before\nhalf"


def test_writing_something_else_than_text_is_refused_as_by_any_stream(texts):
    _, (first, _) = live(texts)
    with pytest.raises(TypeError, match=r"write\(\) argument must be str, not bytes"):
        first.writer("stdout")(b"x")


def test_an_empty_piece_makes_no_line(texts):
    _, (first, _) = live(texts)
    first.writer("stdout")("a\n")
    first.writer("stdout")("")
    first.finish()
    assert texts[0].getvalue() == "[0] a\n"


def test_printing_while_a_line_is_being_printed_does_not_deadlock(texts):
    page, (first, _) = live(texts)
    with page.lock:
        first.writer("stdout")("from a finalizer\n")
    assert texts[0].getvalue() == "[0] from a finalizer\n"


# --- colours and unfinished lines ------------------------------------------------------------------


def test_prefixes_are_coloured_on_a_terminal_and_plain_elsewhere(terminal):
    _, (first, _) = live(terminal)
    first.writer("stdout")("a\n")
    assert terminal.getvalue() == "\x1b[36m[0]\x1b[0m a\n"


def test_no_color_switches_colours_off(terminal, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    _, (first, _) = live(terminal)
    first.writer("stdout")("a\n")
    assert terminal.getvalue() == "[0] a\n"


def test_a_progress_bar_replaces_its_line_at_most_five_times_a_second(terminal):
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


def test_an_unfinished_line_is_wiped_before_another_worker_s_line(terminal, monkeypatch):
    monkeypatch.setattr("disco_magic.notebook.outlet._COLOURS", (0,))
    _, (first, second) = live(terminal)
    first.writer("stdout")("\r50%")
    second.writer("stdout")("done\n")
    assert terminal.getvalue().endswith(f"\r{' ' * 7}\r\x1b[0m[1]\x1b[0m done\n")


def test_flush_shows_an_unfinished_line_on_a_terminal(terminal):
    _, (first, _) = live(terminal)
    first.writer("stdout")("loading")
    assert "loading" not in terminal.getvalue()
    first.flush("stdout")
    assert "loading" in terminal.getvalue()


def test_captured_text_holds_only_what_the_progress_bar_ended_with(texts):
    _, (first, _) = live(texts)
    first.writer("stdout")("\r10%\r20%")
    first.flush("stdout")
    first.writer("stdout")("\r30%\r\n")
    assert texts[0].getvalue() == "[0] 30%\n"


# --- orders ----------------------------------------------------------------------------------------


def write_out_of_order(sinks):
    sinks[2].writer("stdout")("two\n")
    sinks[0].writer("stderr")("warning\n")
    sinks[0].writer("stdout")("zero\n")
    sinks[1].writer("stdout")("one\n")
    for sink in sinks:
        sink.finish()


def test_ordered_output_comes_at_the_end_by_worker(texts):
    _, sinks = kept(texts, "ordered")
    sinks[0].writer("stdout")("x\n")
    assert texts[0].getvalue() == ""
    write_out_of_order(sinks)
    assert texts[0].getvalue() == "[0] x\n[0] zero\n[1] one\n[2] two\n"
    assert texts[1].getvalue() == "[0] warning\n"


def test_grouped_output_shows_equal_text_once(texts):
    _, sinks = kept(texts, "grouped")
    for worker in (2, 0, 1):
        sinks[worker].writer("stdout")("same\n" if worker != 1 else "other\n")
    for sink in sinks:
        sink.finish()
    assert texts[0].getvalue() == "[0,2] same\n[1] other\n"


def test_digits_make_a_difference_when_output_is_grouped(texts):
    _, sinks = kept(texts, "grouped", 2)
    for worker, sink in enumerate(sinks):
        sink.writer("stdout")(f"loss 0.{worker}\n")
        sink.finish()
    assert texts[0].getvalue() == "[0] loss 0.0\n[1] loss 0.1\n"


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("type", "so0 so1 se0 d0a d0b d1a d1b"),
        ("order", "so0 so1 se0 d0a d1a d0b d1b"),
        ("engine", "se0 so0 d0a d0b so1 d1a d1b"),
    ],
)
def test_groupings_of_px_keep_their_meaning(texts, mode, expected):
    shown = []
    texts[0].write = lambda text: shown.append(text.split()[-1]) if "so" in text else None
    texts[1].write = lambda text: shown.append(text.split()[-1])
    _, sinks = kept(texts, mode, 2)
    sinks[0].writer("stderr")("se0\n")
    for worker, sink in enumerate(sinks):
        sink.writer("stdout")(f"so{worker}\n")
        for turn in "ab":
            sink.display(
                lambda data, **_: shown.append(data["text/html"]), {"text/html": f"d{worker}{turn}"}, {}
            )
    for sink in sinks:
        sink.finish()
    assert " ".join(shown) == expected


def test_kept_output_is_bounded_and_says_what_it_left_out(texts, monkeypatch):
    monkeypatch.setattr("disco_magic.notebook.page.LIMIT", 10)
    _, sinks = kept(texts, "ordered", 1)
    for i in range(100):
        sinks[0].writer("stdout")(f"line {i}\n")
    sinks[0].finish()
    assert texts[0].getvalue().splitlines() == [
        "[0] line 0",
        "[0] line 1",
        "[0] ... 98 more lines left out ...",
    ]


def test_a_worker_that_never_began_does_not_keep_the_others_output_back(texts):
    page, sinks = kept(texts, "ordered", 2)
    sinks[0].writer("stdout")("here\n")
    sinks[0].finish()
    page.close()
    page.close()
    assert texts[0].getvalue() == "[0] here\n"


def test_a_thread_that_outlives_the_cell_is_shown_as_it_writes(texts):
    _, sinks = kept(texts, "ordered", 1)
    sinks[0].finish()
    sinks[0].writer("stdout")("later\n")
    assert texts[0].getvalue() == "[0] later\n"


def test_clearing_forgets_what_the_worker_wrote_so_far(texts):
    _, sinks = kept(texts, "ordered", 2)
    sinks[0].writer("stdout")("old\n")
    sinks[1].writer("stdout")("other\n")
    sinks[0].clear(lambda **_: None, wait=False)
    sinks[0].writer("stdout")("new\n")
    for sink in sinks:
        sink.finish()
    assert texts[0].getvalue() == "[0] new\n[1] other\n"


# --- transcript ------------------------------------------------------------------------------------


def test_a_transcript_keeps_everything_up_to_its_limit():
    transcript = Transcript(10)
    for piece in ("abc", "def", "ghij"):
        transcript.add(piece)
    assert transcript.text == "abcdefghij"


def test_a_longer_transcript_keeps_both_ends_and_says_how_much_is_missing():
    transcript = Transcript(10)
    transcript.add("abcdefgh" + "x" * 40)
    for piece in "0123456789":
        transcript.add(piece)
    text = transcript.text
    assert text.startswith("abcde\n... ")
    assert text.endswith("56789")
    assert "characters left out" in text
    assert len(text) < 60


# --- streams ---------------------------------------------------------------------------------------


def test_other_threads_write_to_the_base_and_a_tee_over_it_is_respected(texts):
    base = io.StringIO()
    stream = WorkerStream(base, "stdout")
    seen = []
    original = stream.write
    stream.write = lambda text: (seen.append(text), original(text))[1]
    stream.write("a")
    stream.writelines(["b", "c"])
    stream.write = original
    stream.write("d")
    assert (base.getvalue(), seen) == ("abcd", ["a", "b", "c"])


def test_a_worker_s_text_goes_to_its_sink_even_while_write_is_assigned(texts):
    _, (first, _) = live(texts)
    stream = WorkerStream(io.StringIO(), "stdout")
    stream.write = lambda text: pytest.fail("the notebook's own")
    token = current_sink.set(first)
    try:
        stream.write("mine\n")
        stream.flush()
    finally:
        current_sink.reset(token)
    assert texts[0].getvalue() == "[0] mine\n"


def test_attributes_are_the_base_s_own_in_both_directions():
    assert not hasattr(WorkerStream(io.StringIO(), "stdout"), "set_parent")
    base = type("Routing", (io.StringIO,), {"set_parent": lambda self, parent: parent})()
    stream = WorkerStream(base, "stdout")
    assert stream.set_parent(3) == 3
    stream.parent_header = {"id": 1}
    assert base.parent_header == {"id": 1}
    del stream.parent_header
    assert not hasattr(base, "parent_header")
    stream.write = len
    del stream.write
    assert stream.write("text") == 4
    assert base.getvalue() == "text"


def test_installing_twice_wraps_once_and_removing_gives_the_same_objects_back(texts):
    with onto(*texts):
        install_streams()
        wrapped = sys.stdout
        install_streams()
        assert sys.stdout is wrapped
        remove_streams()
        assert (sys.stdout, sys.stderr) == texts
