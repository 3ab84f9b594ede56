"""How the live area looks in a notebook and on a terminal, and where there is none."""

from __future__ import annotations

import io
import re
from html.parser import HTMLParser

import pytest

from disco_magic.core.markup import ink
from disco_magic.functions.execution.printed import Printed
from disco_magic.isolation.streams import WorkerStream, put_by
from disco_magic.notebook.output import outlet
from disco_magic.notebook.output.footer import Footer
from disco_magic.notebook.output.livearea import Row
from disco_magic.notebook.output.outlet import Outlet, put_above
from disco_magic.notebook.output.screens import NotebookScreen, TerminalScreen, screen_for
from tests.clocks import Clock
from tests.contrast import DARK, contrast, mixed

BARS = [Row((0,), "train:  50%|##  | 1/2"), Row((2, 3), "waiting in barrier() for worker 0", status=True)]


class Kernel(io.StringIO):
    """A stream as kernels have them."""

    def set_parent(self, parent):
        raise NotImplementedError


class Publisher:
    """Records what is published; `shown` is what a notebook would show of it."""

    def __init__(self):
        self.messages = []
        self.places = {}

    def publish(self, data, *, metadata, transient, update):
        assert (transient["display_id"] in self.places) == update
        self.places[transient["display_id"]] = data
        self.messages.append(data)

    def set_parent(self, parent):
        raise NotImplementedError


class Texts(HTMLParser):
    """The texts of the innermost elements."""

    def __init__(self, html):
        super().__init__()
        self.texts = []
        self.styles = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.styles.append(dict(attrs)["style"])

    def handle_data(self, data):
        self.texts.append(data)


@pytest.fixture
def notebook(monkeypatch):
    """A publisher and the screen on it."""
    monkeypatch.setenv("NO_COLOR", "")
    publisher = Publisher()
    return publisher, screen_for(Outlet(Kernel()), publisher)


# --- notebooks -------------------------------------------------------------------------------------


def test_a_notebook_shows_rows_as_text_and_as_html_that_says_the_same(notebook):
    publisher, screen = notebook
    screen.show(BARS)
    data = publisher.messages[0]
    text = "[0]   train:  50%|##  | 1/2\n[2-3] waiting in barrier() for worker 0"
    assert data["text/plain"] == text
    assert "".join(Texts(data["text/html"]).texts) == text.replace("\n", "")
    assert screen.covered() is False


def test_prefixes_have_the_colours_of_the_lines_unless_colours_are_unwanted(notebook, monkeypatch):
    publisher, screen = notebook
    screen.show(BARS)
    assert {ink("#008787", 80), ink("#d700d7", 80)} < set(Texts(publisher.messages[0]["text/html"]).styles)
    monkeypatch.setenv("NO_COLOR", "1")
    plain = screen_for(Outlet(Kernel()), publisher)
    plain.show(BARS)
    assert "#" not in "".join(Texts(publisher.messages[1]["text/html"]).styles)


@pytest.mark.parametrize("worker", range(5))
def test_a_prefix_is_readable_on_black_on_white_and_in_jupyterlab_s_dark_theme(worker):
    terminal = Outlet(Kernel())
    number = int(re.match(r"\x1b\[38;5;(\d+)m\[", terminal.prefix((worker,)))[1]) - 16
    levels = (0, 95, 135, 175, 215, 255)  # of the palette's 6 x 6 x 6 colours
    line = tuple(levels[number // step % 6] for step in (36, 6, 1))
    assert min(contrast(line, behind) for behind in ((0, 0, 0), (255, 255, 255), DARK)) > 4
    style = terminal.label_html((worker,))
    assert "color:#{:02x}{:02x}{:02x};".format(*line) in style
    percent = int(re.search(r"(\d+)%,currentColor", style)[1])
    assert contrast(mixed(line, percent, (33, 33, 33)), (255, 255, 255)) > 4.5
    assert contrast(mixed(line, percent, (225, 225, 225)), DARK) > 4.5


def test_rows_are_replaced_in_their_place_and_leave_nothing(notebook):
    publisher, screen = notebook
    for rows in (BARS, BARS[:1], []):
        screen.show(rows)
    assert list(publisher.places.values()) == [{"text/plain": "", "text/html": ""}]
    assert len(publisher.messages) == 3


def test_rows_that_come_again_have_a_new_place_below_but_not_without_end(notebook):
    publisher, screen = notebook
    for _ in range(50):
        screen.show(BARS)
        screen.show([])
    assert 1 < len(publisher.places) == NotebookScreen.PLACES
    assert {data["text/plain"] for data in publisher.places.values()} == {""}


def test_text_of_bars_is_escaped_and_moves_nothing(notebook):
    publisher, screen = notebook
    screen.show([Row((0,), "\x1b[31m<b>\x1b[0m\t\x1b[Kx\x07\x1by")])
    data = publisher.messages[0]
    assert data["text/plain"] == "[0] <b> x y"
    assert "&lt;b&gt; x y" in data["text/html"]


# --- nowhere ---------------------------------------------------------------------------------------


def test_files_captured_text_and_terminals_that_cannot_do_it_have_no_live_area(monkeypatch, terminal):
    class Capturing:
        def publish(self, data):
            raise NotImplementedError

    assert screen_for(Outlet(io.StringIO()), Publisher()) is None
    assert screen_for(Outlet(Kernel()), Capturing()) is None
    assert isinstance(screen_for(Outlet(terminal), None), TerminalScreen)
    monkeypatch.setenv("TERM", "dumb")
    assert screen_for(Outlet(terminal), None) is None
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert screen_for(Outlet(terminal), None) is None


# --- terminals -------------------------------------------------------------------------------------


def test_a_terminal_shows_rows_below_the_lines_and_wipes_them(terminal):
    outlet = Outlet(terminal)
    screen = screen_for(outlet, None)
    outlet.write("first\n")
    screen.show(BARS)
    rows = ["[0]   train:  50%|##  | 1/2", "[2-3] waiting in barrier() for worker 0"]
    assert terminal.screen == ["first", *rows]
    outlet.write("second\n")
    assert terminal.screen == ["first", "second", *rows]
    screen.show(BARS[:1])
    assert terminal.screen == ["first", "second", "[0] train:  50%|##  | 1/2"]
    screen.show([])
    outlet.write("third\n")
    assert terminal.screen == ["first", "second", "third", ""]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("x" * 15, "x" * 15),
        ("x" * 16, "x" * 14 + "\u2026"),
        ("\u6f22" * 7, "\u6f22" * 7),
        ("\u6f22" * 8, "\u6f22" * 7 + "\u2026"),
        ("e\u0301" * 15, "e\u0301" * 15),
        ("", ""),
    ],
)
def test_rows_are_as_long_as_the_terminal_is_wide_at_most(terminal, monkeypatch, text, shown):
    monkeypatch.setenv("COLUMNS", "24")
    screen_for(Outlet(terminal), None).show([Row((0,), text)])
    assert terminal.screen == [f"[0] {shown}"]


def test_a_terminal_that_is_too_small_for_anything_shows_the_prefix(terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", "4")
    monkeypatch.setenv("LINES", "2")
    screen_for(Outlet(terminal), None).show([Row((0,), "x"), Row((1,), "y")])
    assert terminal.screen == ["[0] "]


def test_many_rows_leave_room_on_the_terminal(terminal):
    screen_for(Outlet(terminal), None).show([Row((worker,), "x") for worker in range(100)])
    assert len(terminal.screen) == 22


def test_rows_stand_in_the_column_of_the_lines(terminal):
    outlet = Outlet(terminal, among=11)
    outlet.lines((0,), ["a line"])
    screen_for(outlet, None).show([Row((0,), "a bar"), Row((3,), "x")])
    assert terminal.screen == ["[0]  a line", "[0]  a bar", "[3]  x"]


def test_nothing_is_drawn_over_the_line_that_the_user_types(terminal, onto):
    prompt = type("StdoutProxy", (type(terminal),), {"__module__": "prompt_toolkit.patch_stdout"})()
    with onto(prompt, prompt):
        screen_for(Outlet(terminal), None).show(BARS)
    assert (terminal.getvalue(), prompt.getvalue()) == ("", "")


def test_lines_on_another_stream_of_the_terminal_come_above_too(terminal):
    footer, both = Footer(), type(terminal)()
    footer.show(both.write, ["footer"])
    footer.above(lambda text: both.write(f"err: {text}"), "line\n")
    assert both.screen == ["err: line", ""]
    assert footer.covered


def test_what_a_cell_of_python_prints_stands_above_the_last_lines_of_a_terminal(terminal):
    # It was written into them: a footer was drawn behind a `run_nowait`, whose lines nobody expected.
    screen, printed = screen_for(Outlet(terminal), None), Printed((0, 1))
    undo = put_by(put_above)
    try:
        screen.show([Row((1,), "waits", status=True)])
        printed.texts[0].writer("stdout", terminal)("a line\n")
        assert terminal.screen == ["[0] a line", "[1] waits"]
        screen.show([])
    finally:
        undo()
    assert terminal.screen == ["[0] a line", ""]


def test_the_last_lines_of_a_terminal_are_hidden_while_a_line_above_them_is_unfinished(terminal):
    # They were drawn behind it, and wiped together with it.
    screen, printed = screen_for(Outlet(terminal), None), Printed((1,))
    write = printed.texts[1].writer("stdout", terminal)
    undo = put_by(put_above)
    try:
        for text, line in (("a", "[1] a"), (" b", "[1] a b")):
            write(text)
            screen.show([Row((0,), "waits", status=True)])
            assert terminal.screen == [line]
        write("\n")
        assert terminal.screen == ["[1] a b", "[0] waits"]
        write("then")
        with outlet.FOOTER.aside(terminal.write, "? "):
            assert terminal.screen == ["[1] a b", "[1] then", "? "]
    finally:
        undo()


def test_a_line_that_a_stuck_thread_has_left_unfinished_hides_nothing_from_the_next_cell(four):
    # Nothing was drawn any more until something else was printed: the user had ended that line at the prompt.
    drawn = []
    outlet.FOOTER.above(str, "[1] loading ...")
    four.run("None")
    outlet.FOOTER.show(drawn.append, ["[0] waits"])
    outlet.FOOTER.show(drawn.append, [])
    assert drawn[0] == "[0] waits"


def test_the_last_lines_of_a_terminal_begin_below_a_line_that_a_plain_cell_has_left_unfinished(terminal):
    # `print("Loading ... ", end="")` and a wait: its rows were drawn behind, and wiped with it.
    screen = screen_for(Outlet(terminal), None)
    waits = [Row((1,), "waits", status=True)]
    terminal.write("Loading ... ")
    screen.show(waits)
    assert [line.rstrip() for line in terminal.screen] == ["Loading ...", "[1] waits"]
    screen.show([])
    screen.show(waits)
    assert [line.rstrip() for line in terminal.screen] == ["Loading ...", "[1] waits"]


def test_what_other_threads_print_stands_above_the_last_lines_of_a_terminal(terminal):
    # 1. Two rows are the last lines, the cursor is behind the second.
    # 2. A thread of the notebook prints a line: the cursor is in the line below them.
    # 3. To wipe them was to wipe the second one, with the thread's text, and what was below it.
    both = WorkerStream(terminal, "stdout")
    screen = screen_for(Outlet(both), None)
    undo = put_by(put_above)
    try:
        screen.show([Row((each,), "waits", status=True) for each in (0, 1)])
        assert [both.write(text) for text in ("from a thread", "\n")] == [13, 1]
        assert terminal.screen == ["from a thread", "[0] waits", "[1] waits"]
        screen.show([])
    finally:
        undo()
    assert terminal.screen == ["from a thread", ""]


def test_a_flood_of_lines_redraws_the_footer_now_and_then(terminal):
    clock = Clock()
    footer = Footer(clock)
    out = []
    footer.show(out.append, ["footer"])
    for step in range(1000):
        clock.now = step / 1000
        footer.above(lambda text: None, "line\n")
    assert 10 <= out.count("footer") <= 21


def test_the_footer_steps_aside_for_a_question_and_comes_back(terminal):
    footer = Footer()
    footer.show(terminal.write, ["one", "two"])
    with footer.aside():
        terminal.write("name? Ada\n")
        footer.show(terminal.write, ["three"])
        footer.above(terminal.write, "line\n")
    assert terminal.screen == ["name? Ada", "line", ""]
    assert footer.covered
    footer.show(terminal.write, ["three"])
    assert terminal.screen == ["name? Ada", "line", "three"]
    with footer.aside(), footer.aside():
        pass
    assert terminal.screen == ["name? Ada", "line", ""]
