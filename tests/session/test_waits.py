"""Waiting with a timeout, from several threads, and for sessions that are not there."""

from __future__ import annotations

import re
from queue import Empty, SimpleQueue

import pytest

import disco_magic as disco
from disco_magic.core.ledger import Ledger
from disco_magic.core.messages import CellDone, Reached
from disco_magic.errors import SyncTimeout, UsageMistake
from disco_magic.session.pump import Pump, take
from disco_magic.session.refusing_lock import RefusingLock
from tests.session.conftest import until


def who():
    return disco.worker().id


# --- who is woken when -----------------------------------------------------------------------------


def test_who_waits_is_woken_when_all_but_two_have_answered_and_waits_on():
    pump = Pump(Ledger(4), RefusingLock())
    inbox = SimpleQueue()
    pump.expect(1, range(4), inbox)
    pump.deliver(Reached(0, 1))
    assert inbox.empty()
    pump.deliver(Reached(1, 1))
    assert inbox.qsize() == 1
    with pytest.raises(Empty):  # it is no reply
        take(inbox, 0)
    pump.deliver(Reached(2, 1))
    assert inbox.empty()
    pump.deliver(Reached(3, 1))
    assert sorted(take(inbox, 0).replies) == [0, 1, 2, 3]


def test_who_waits_for_a_cell_is_woken_at_its_end_only():
    pump = Pump(Ledger(4), RefusingLock())
    inbox = SimpleQueue()
    pump.expect(1, range(4), inbox)
    for worker in range(3):
        pump.deliver(CellDone(worker, 1, 0.0, ()))
        assert inbox.empty()
    pump.deliver(CellDone(3, 1, 0.0, ()))
    assert inbox.qsize() == 1


@pytest.mark.parametrize("tell", ["deliver", "excuse"])
def test_who_finds_that_all_have_answered_finds_the_answers(tell):
    # Else the failure of a cell whose handle has died is lost, if who takes it over comes between.
    locked, seen = RefusingLock(), []

    class Inbox(SimpleQueue):
        def put(self, item):
            seen.append(locked.taken)

    pump = Pump(Ledger(1), locked)
    pump.expect(1, (0,), Inbox())
    done = CellDone(0, 1, 0.0, ())
    getattr(pump, tell)(done if tell == "deliver" else [done])
    assert seen == [True]


# --- waiting ---------------------------------------------------------------------------------------


def test_a_timeout_shows_who_waits_in_which_collective(gated, gate):
    s = gated(2)
    pending = s.run_nowait("if worker_id == 0: gate()\nallreduce(1.0)")
    gate.arrived()
    until(lambda: 1 in s._launcher.plane.waiting)
    with pytest.raises(SyncTimeout) as caught:
        s.sync_all(timeout=0)
    sentence, *table = str(caught.value).splitlines()
    assert re.search(
        r"go on; worker 0 keeps worker 1 waiting: executing (Cell \d+), now at \1, line 1, for ", sentence
    )
    assert table[0].split() == ["worker", "doing", "where", "for"]
    assert table[2].split()[:7] == ["[1]", "waiting", "in", "allreduce(float64", "(),", "op=sum)", "for"]
    gate.open()
    pending.wait()


def test_a_late_answer_after_a_timeout_disturbs_nobody(gated, gate):
    s = gated(1)
    pending = s.run_nowait("gate()")
    gate.arrived()
    for _ in range(3):
        with pytest.raises(SyncTimeout):
            s.sync_all(timeout=0)
    gate.open()
    pending.wait()
    assert s.call_packed(who).get(0) == 0
    assert not s.ledger.expecting


# --- several sessions ------------------------------------------------------------------------------


@pytest.mark.parametrize("use", ["get", "name"])
def test_a_reference_of_another_session_is_refused(session, use):
    mine, other = session(1), session(1)
    ref = other.call_packed(who)
    uses = {
        "get": lambda: mine.fetch(ref, (0,)),
        "name": lambda: mine.__setitem__("x", ref),
    }
    text = f"{ref!r} belongs to session {other.id}, this is session {mine.id}"
    before = mine.ledger.seq
    with pytest.raises(UsageMistake) as caught:
        uses[use]()
    assert str(caught.value) == text
    assert mine.ledger.seq == before
