"""A restart in another thread, between two steps of a call: it touches nothing of the next life."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.errors import SessionClosed


def old():
    return "of the old life"


def new():
    return "of the new life"


class Restarting:
    """An argument whose copy is made in the moment in which another thread restarts the session."""

    def __init__(self, session):
        self.session = session
        self.ref = None

    def __deepcopy__(self, memo):
        self.session.restart()
        self.ref = self.session.call_packed(new)
        return 1

    def __iter__(self):
        self.__deepcopy__({})
        return iter([0])


WAYS = {
    "call": lambda s, x, now: s.call_packed(lambda a, b: a, x, now),
    "call on one worker": lambda s, x, now: s.call_packed(lambda a, b: a, x, now, workers=[0]),
    "get": lambda s, x, now: s.fetch(x, now),
    "set": lambda s, x, now: s.set_register(x, 0, now),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_reference_of_the_old_life_never_reaches_a_register_of_the_new_one(session, way):
    # Whether it is the session's own was checked before the restart, the command was sent after it.
    s = session(2)
    x = s.call_packed(old)
    s.sync_all()
    now = Restarting(s)
    with pytest.raises(SessionClosed, match="was restarted meanwhile; nothing was sent"):
        WAYS[way](s, x, now)
    assert now.ref.get_all() == ["of the new life"] * 2


class Late:
    """A ledger that another thread's restart overtakes after its number was read."""

    def __init__(self, session):
        self.session, self.ledger = session, session.ledger

    @property
    def seq(self):
        seq = self.ledger.seq
        self.session.ledger = self.ledger
        self.session.restart()
        return seq


def test_an_interrupt_that_a_restart_overtakes_skips_nothing_of_the_new_life(session):
    s = session(1)
    for _ in range(100):
        s.call_packed(int)
    s.sync_all()
    s.ledger = Late(s)
    s.interrupt()
    assert [s.call_packed(int, 7).get(0) for _ in range(3)] == [7] * 3


def test_stopping_a_cell_of_the_old_life_asks_nothing_of_the_new_launcher(session):
    s = session(1)
    pending = s.run_nowait("1")
    pending.wait()
    s.restart()
    asked = []
    s._launcher.interrupt = s._launcher.replace_stuck = lambda *args: asked.append(args) or []
    s.interrupt_through(pending.seq, (0,), pending._life)
    assert s.replace_stuck((0,), pending._life) == []
    assert asked == []
    del s._launcher.interrupt, s._launcher.replace_stuck


# --- whose failure it is ------------------------------------------------------------------------------


def boom():
    raise ValueError("boom")


@pytest.mark.parametrize("way", ["from", "to"])
def test_a_copy_that_cannot_be_made_raises_although_the_failure_was_raised_before(session, way):
    # It waited with a sync, which raises what was not raised before: the caller went on with zeros.
    s = session(2)
    bad = s.call_packed(boom)
    with pytest.raises(Exception, match="boom"):
        s.sync_all()
    host = np.zeros(3)
    copy = {"from": s.copy_from_worker_0, "to": s.copy_to_worker_0}[way]
    with pytest.raises(Exception, match="boom"):
        copy(host, bad)
