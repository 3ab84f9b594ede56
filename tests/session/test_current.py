"""The session that `disco_magic.session` finds."""

from __future__ import annotations

import copy
import gc
import pickle

import pytest

import disco_magic as disco
from disco_magic.errors import LaunchError, UsageMistake
from disco_magic.session import current
from disco_magic.session.config import Preset


def test_the_current_session_is_the_one_started_last(session):
    session(1)
    s = session(2)
    assert disco.session() is s


def test_a_closed_session_is_not_current(session):
    current.make_current(None)  # whatever another test has left open
    session(1).shutdown()
    with pytest.raises(UsageMistake, match="no session is running; start one with %disco start"):
        disco.session()


def test_a_front_end_can_choose_the_current_session(session):
    first, second = session(1), session(1)
    current.make_current(first)
    assert disco.session() is first
    current.make_current(None)
    with pytest.raises(UsageMistake):
        disco.session()
    assert not second.closed


def test_being_current_keeps_no_session_alive():
    disco.ThreadedSession(1)
    gc.collect()
    with pytest.raises(UsageMistake):
        disco.session()


def test_when_one_has_ended_the_one_before_it_that_is_open_is_current_again(session):
    first, second = session(1), session(1)
    with disco.ThreadedSession(1) as third:
        second.shutdown()
        assert disco.session() is third
    assert disco.session() is first
    second.restart()
    assert disco.session() is second


def test_one_that_is_dropped_is_followed_by_the_one_before_it(session):
    kept = session(1)
    disco.ThreadedSession(1)
    gc.collect()
    assert disco.session() is kept


def test_one_that_is_made_on_a_worker_is_not_the_notebook_s(session):
    s = session(1)
    s.run("import disco_magic\nmine = disco_magic.ThreadedSession(1)")
    assert disco.session() is s
    s.run("mine.shutdown()")


def test_a_session_that_could_not_be_started_is_none_of_those_that_end(session, monkeypatch):
    held = session(1)

    def broken(self, *_):
        raise LaunchError("no GPU")

    monkeypatch.setattr(Preset, "launcher", broken)
    with pytest.raises(LaunchError) as caught:
        disco.ThreadedSession(2)
    monkeypatch.undo()
    assert caught.value.__traceback__ is not None  # which keeps that session, as notebooks do
    held.run_nowait("1/0")
    current._end(current._living())
    assert held.closed


def test_one_that_cannot_be_ended_does_not_keep_the_others_from_it(session, monkeypatch, caplog):
    first, second = session(1), session(1)

    def broken(_):
        raise RuntimeError("out of order")

    monkeypatch.setattr(first, "end_with_program", broken)
    current._end([first, second])
    assert second.closed
    assert f"session {first.id} could not be ended" in caplog.text


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_session_cannot_be_copied(session, how):
    s = session(2)
    with pytest.raises(UsageMistake, match=f"session {s.id} cannot be copied or pickled"):
        how(s)
    gc.collect()
    assert s.run("worker_id").values == [0, 1]
