"""The session that `disco_magic.session` finds."""

from __future__ import annotations

import gc

import pytest

import disco_magic as disco
from disco_magic.errors import UsageMistake
from disco_magic.session import current


def test_the_current_session_is_the_one_started_last(session):
    session(1)
    s = session(2)
    assert disco.session() is s


def test_a_closed_session_is_not_current(session):
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
