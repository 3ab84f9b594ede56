"""Waiting with a timeout, from several threads, and for sessions that are not there."""

from __future__ import annotations

import re
from queue import Empty, SimpleQueue

import pytest

import disco_magic as disco
from disco_magic.core.ledger import Ledger
from disco_magic.core.messages import CellDone, Reached
from disco_magic.errors import SessionClosed, SyncTimeout, UsageMistake
from disco_magic.session.pump import Pump, take
from disco_magic.session.refusing_lock import RefusingLock
from tests.session.conftest import until


def who():
    return disco.worker().id


def give(*args, **kwargs):
    return args, kwargs


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


@pytest.mark.parametrize("way", ["sync_all", "get", "get_all"])
def test_a_wait_that_takes_too_long_says_where_the_workers_are(gated, gate, way):
    s = gated(2)
    s.run("def hold(): gate()")
    ref = s.call_packed(s["hold"])
    gate.arrived(2)
    ways = {
        "sync_all": lambda: s.sync_all(timeout=0),
        "get": lambda: ref.get(1, timeout=0),
        "get_all": lambda: ref.get_all(timeout=0),
    }
    with pytest.raises(SyncTimeout, match=r"did not answer within 0 s and goe?s? on; ") as caught:
        ways[way]()
    assert "workers [0-1] are executing call hold" in str(caught.value)
    assert [each.command for each in caught.value.diagnosis.positions] == ["call hold"] * 2
    gate.open()
    s.sync_all()
    assert ref.get_all() == [None, None]


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


def test_waiting_for_one_worker_does_not_wait_for_the_others(gated, gate):
    s = gated(2)
    pending = s.run_nowait("if worker_id == 1: gate()")
    gate.arrived()
    s.sync_worker_0()
    s.sync_worker(0)
    assert not pending.done()
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


# --- several threads, several sessions -------------------------------------------------------------


def test_two_threads_may_use_one_session(session, background):
    s = session(3)

    def work(number):
        for step in range(50):
            ref = s.call_packed(give, number, step)
            assert ref.get(step % 3)[0] == (number, step)
            name = f"x{number}"
            s.run(f"{name} = {step}")
            assert s[name].get(0) == step

    results = [background(work, number) for number in range(3)]
    for result in results:
        result()
    s.sync_all()


@pytest.mark.parametrize("use", ["get", "argument", "name", "function"])
def test_a_reference_of_another_session_is_refused(session, use):
    mine, other = session(1), session(1)
    ref = other.call_packed(who)
    uses = {
        "get": lambda: mine.fetch(ref, (0,)),
        "argument": lambda: mine.call_packed(give, 1, ref),
        "name": lambda: mine.__setitem__("x", ref),
        "function": lambda: mine.call_packed(ref),
    }
    text = f"{ref!r} belongs to session {other.id}, this is session {mine.id}"
    before = mine.ledger.seq
    with pytest.raises(UsageMistake) as caught:
        uses[use]()
    assert str(caught.value) == text
    assert mine.ledger.seq == before


def test_after_shutdown_a_call_is_refused(session):
    s = session(1)
    ref = s.call_packed(who)
    s.shutdown()
    for use in (lambda: s.call_packed(who), ref.get, s.sync_all, lambda: s.run("1"), lambda: s.store(1)):
        with pytest.raises(SessionClosed, match=f"session {s.id} is closed: it was shut down"):
            use()
