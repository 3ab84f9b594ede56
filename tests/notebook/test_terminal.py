"""A line that is read from a terminal, here one whose keyboard is the test."""

from __future__ import annotations

import os
import sys

import pytest

from disco_magic.errors import WorkerInterrupt
from disco_magic.notebook.debugging.questions import read_line
from disco_magic.notebook.output.footer import FOOTER
from disco_magic.workers.injection import inject
from tests.notebook.conftest import Terminal

pty = pytest.importorskip("pty", reason="there are terminals on POSIX only")


@pytest.fixture
def keyboard(monkeypatch):
    """What is written to it is what the user types."""
    mine, theirs = pty.openpty()
    with open(theirs, encoding="utf8") as stdin, open(mine, "wb", buffering=0) as typed:
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.delenv("NO_COLOR", raising=False)
        yield typed
    assert FOOTER._asking == []


@pytest.fixture
def put_up(monkeypatch):
    """Makes the screen; pytest replaces sys.stdout between fixture and test."""

    def make():
        monkeypatch.setattr(sys, "stdout", Terminal())
        return sys.stdout

    return make


def test_it_is_the_line_that_the_user_types(keyboard, put_up):
    screen = put_up()
    keyboard.write("näme\n".encode())
    assert read_line("? ") == "näme"
    assert screen.getvalue() == "? "


def test_of_two_lines_the_second_is_left_for_the_next_question(keyboard):
    keyboard.write(b"one\ntwo\n")
    assert [read_line("? "), read_line("? ")] == ["one", "two"]


def test_ctrl_d_is_the_end_and_leaves_the_line(keyboard, put_up):
    screen = put_up()
    keyboard.write(b"\x04")
    with pytest.raises(EOFError):
        read_line("? ")
    assert screen.getvalue() == "? \n"


def test_what_others_print_meanwhile_stands_above_the_question(keyboard, put_up, background):
    screen = put_up()
    answer = background(read_line, "? ")
    while not FOOTER._asking:
        pass
    FOOTER.above(screen.write, "a line\n")
    assert screen.screen == ["a line", "? "]
    keyboard.write(b"yes\n")
    assert answer() == "yes"


def test_a_terminal_that_cannot_move_its_cursor_is_asked_once(keyboard, put_up, background, monkeypatch):
    screen = put_up()
    monkeypatch.setenv("TERM", "dumb")
    answer = background(read_line, "? ")
    while not FOOTER._asking:
        pass
    FOOTER.above(screen.write, "a line\n")
    assert screen.getvalue() == "? a line\n"
    keyboard.write(b"yes\n")
    assert answer() == "yes"


def test_an_interrupt_ends_the_wait(keyboard, background):
    import threading

    thread = []

    def read():
        thread.append(threading.get_ident())
        return read_line("? ")

    answer = background(read)
    while not FOOTER._asking:
        pass
    inject(thread[0])
    with pytest.raises(WorkerInterrupt):
        answer()
    keyboard.write(b"later\n")
    assert os.read(sys.stdin.fileno(), 100) == b"later\n"
