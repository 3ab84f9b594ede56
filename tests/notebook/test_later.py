"""What is to be done in a while is done by one thread."""

from __future__ import annotations

import sys
import threading
import weakref
from functools import partial

import pytest

from disco_magic.notebook import later
from tests.conftest import DEADLINE_S, until


def threads():
    return [each for each in threading.enumerate() if each.name == "disco-later"]


@pytest.fixture
def due():
    """Its thread ends with the test; by itself it would wait for more to do, for two seconds."""
    made = later.Later()
    yield made
    made.end()


def test_all_of_it_is_done_in_its_time_by_one_thread(due):
    done, before = [], len(threads())
    over = threading.Event()
    with due._lock:  # nothing is done before all of it is known, however long that takes
        for number in range(200):
            due.call(0.1 - number / 4000, partial(done.append, number))
        due.call(0.0, partial(done.append, "first"))
        expected = [call.args[0] for _, _, call in sorted(due._due)]
        due.call(0.2, over.set)
    assert len(threads()) <= before + 1
    assert over.wait(DEADLINE_S)
    assert done == expected


def test_the_thread_ends_when_there_is_nothing_to_do_and_another_one_begins(due, monkeypatch):
    monkeypatch.setattr(later, "_LINGER_S", 0.01)
    seen = []
    for _ in range(2):
        due.call(0.0, lambda: seen.append(threading.current_thread()))
        until(lambda: due._thread is None)
        until(lambda: not seen[-1].is_alive())
    assert len(set(seen)) == 2


def test_what_fails_is_told_and_the_rest_is_done(due, monkeypatch):
    told, over = [], threading.Event()
    monkeypatch.setattr(sys, "excepthook", lambda kind, *_: told.append(kind))
    due.call(0.0, lambda: 1 / 0)
    due.call(0.01, over.set)
    assert over.wait(DEADLINE_S)
    assert told == [ZeroDivisionError]


def test_what_was_done_is_not_kept(due):
    class Thing:
        def __call__(self):
            over.set()

    over, thing = threading.Event(), Thing()
    seen = weakref.ref(thing)
    due.call(0.0, thing)
    del thing
    assert over.wait(DEADLINE_S)
    until(lambda: seen() is None)


def test_while_no_thread_can_be_started_nothing_is_lost_and_nobody_fails(due, monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    over = threading.Event()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        due.call(0.0, over.set)
    assert not over.is_set()
    due.call(0.0, int)
    assert over.wait(DEADLINE_S)


def test_it_can_be_ended_while_no_thread_could_be_started(due, monkeypatch):
    monkeypatch.setattr(threading.Thread, "start", lambda thread: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        due.call(0.0, int)
    due.end()


def test_what_comes_in_the_middle_of_a_call_is_done_too(due, monkeypatch):
    # A finalizer may run there, and show something in its turn.
    over, start = threading.Event(), threading.Thread.start

    def in_the_middle(thread):
        monkeypatch.undo()
        due.call(0.0, over.set)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", in_the_middle)
    due.call(60.0, int)
    assert over.wait(DEADLINE_S)


def test_what_is_not_done_by_the_end_never_is(due):
    done = []
    due.call(60.0, lambda: done.append("late"))
    thread = due._thread
    due.end()
    assert not thread.is_alive()
    due.end()
    over = threading.Event()
    due.call(0.0, over.set)
    assert over.wait(DEADLINE_S)
    assert done == []
