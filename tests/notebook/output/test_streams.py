"""The objects that stand in for sys.stdout and sys.stderr, and what is kept of a worker's text."""

from __future__ import annotations

import gc
import io
import sys
import weakref

import pytest

from disco_magic.functions.execution.printed import Transcript
from disco_magic.isolation.streams import (
    WorkerStream,
    install_streams,
    put_back,
    put_by,
    remove_streams,
    unwrapped,
)
from disco_magic.notebook.output.streams import using_sink

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


def test_a_worker_s_text_goes_to_its_sink_even_while_write_is_assigned(texts, live):
    _, (first, _) = live(texts)
    stream = WorkerStream(io.StringIO(), "stdout")
    stream.write = lambda text: pytest.fail("the notebook's own")
    with using_sink(first):
        stream.write("mine\n")
        stream.flush()
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


def test_installing_twice_wraps_once_and_removing_gives_the_same_objects_back(texts, onto):
    with onto(*texts):
        install_streams(onto)
        wrapped = sys.stdout
        install_streams(onto)
        assert sys.stdout is wrapped
        remove_streams(onto)
        assert (sys.stdout, sys.stderr) == texts


def test_what_stood_in_for_a_stream_stands_in_for_it_again_without_what_was_assigned_to_it(texts, onto):
    # CPython's print uses it without holding it: it must not go while another thread is in the middle of one.
    with onto(*texts):
        install_streams(onto)
        first, last = sys.stdout, sys.stderr
        first.write = len
        remove_streams(onto)
        install_streams(onto)
        assert sys.stdout is first
        assert sys.stderr is last
        sys.stdout.write("mine")
        remove_streams(onto)
    assert texts[0].getvalue() == "mine"


def test_a_stream_is_put_back_unless_it_has_been_closed(texts, onto):
    kept, present = io.StringIO(), texts[0]
    with onto(*texts):
        put_back({"stdout": kept})
        assert unwrapped(sys.stdout) is kept
        sys.stdout = present
        kept.close()
        detached = io.TextIOWrapper(io.BytesIO())
        detached.detach()
        for gone in (kept, detached):
            put_back({"stdout": gone})
            assert sys.stdout is present


def test_only_the_last_ones_are_kept(onto):
    gone = io.StringIO()
    for text in [gone, *(io.StringIO() for _ in range(40))]:
        with onto(text, io.StringIO()):
            install_streams(onto)
            remove_streams(onto)
    text = weakref.ref(gone)
    del gone
    gc.collect()
    assert text() is None


def test_what_is_taken_before_a_cell_and_given_back_after_it_is_not_wrapped_by_each_cell(monkeypatch):
    """IPython takes ``sys.stdout.write`` before a cell and assigns it again after it.

    While a front end wants to know of text, what it takes is wrapped, and was kept like that: one more layer
    per cell, and after some hundred cells everything printed was a RecursionError.
    """
    below = io.StringIO()
    monkeypatch.setattr(sys, "stdout", below)
    owner, told = Transcript(), []
    install_streams(owner)
    undo = put_by(lambda _stream, text, write: told.append(text) or write(text))
    try:
        for _ in range(3):
            taken = sys.stdout.write
            sys.stdout.write = lambda text, taken=taken: taken(text)
            sys.stdout.write = taken
        sys.stdout.write("once")
    finally:
        undo()
        remove_streams(owner)
    assert (told, below.getvalue()) == (["once"], "once")
