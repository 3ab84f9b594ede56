"""`session.stats()`: what the workers did, and where their time went."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.errors import SessionClosed
from disco_magic.threads import stopwatch
from disco_magic.threads.stopwatch import Stopwatch
from tests.clocks import Clock
from tests.session.conftest import until


def test_all_that_was_sent_is_done_after_a_sync(session):
    s = session(2)
    kept = [s.call_packed(int) for _ in range(5)]
    s.sync_all()
    assert [(each.sent, each.done, each.outstanding) for each in s.stats()] == [(6, 6, 0)] * 2
    assert len(kept) == 5


def test_what_only_some_workers_were_sent_counts_for_them_alone(session):
    s = session(3)
    kept = s.call_packed(int, workers=[0, 2])
    s.sync_worker(2)
    s.sync_all()
    assert kept.register
    assert [each.sent for each in s.stats()] == [2, 1, 3]


def test_commands_of_a_busy_worker_are_outstanding(session, gate):
    s = session(2)
    s.call_packed(gate, "begun", workers=[1])
    kept = [s.call_packed(int) for _ in range(4)]
    gate.arrived()
    s.sync_worker_0()
    stats = s.stats()
    assert [each.outstanding for each in stats] == [0, 5]
    assert [each.sent - each.done for each in stats] == [0, 5]
    gate.open()
    s.sync_all()
    assert [each.outstanding for each in s.stats()] == [0, 0]
    assert len(kept) == 4


def test_registers_and_their_bytes_are_counted_per_worker(session):
    s = session(2)
    s.run("x = np.zeros(worker_id * 100, 'float64'); name = 'four'")
    kept = s.call_packed(np.ones, 8, "float32")
    s.sync_all()
    # x, name, the cell's value (None) dropped with its result, and `kept`
    assert [(each.registers, each.nbytes) for each in s.stats()] == [(3, 4 + 32), (3, 800 + 4 + 32)]
    assert kept.register


# --- time ------------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(stopwatch, "perf_counter", made)
    return made


def times(session):
    return [(each.running_s, each.waiting_s, each.idle_s) for each in session.stats()]


def test_time_asleep_in_a_collective_is_waiting_and_not_running(session, gate, clock):
    s = session(2)
    workers = s._launcher.workers
    until(lambda: all(worker.idle.is_running for worker in workers))
    clock.now = 1.0
    s.run("me = worker_id", workers=[0])
    s["hold"] = s.call_packed(lambda: gate)
    pending = s.run_nowait("if worker_id == 1:\n    hold()\nbarrier()")
    gate.arrived()
    until(lambda: s._launcher.plane._board.asleep[0].is_running)
    clock.now = 11.0
    assert times(s) == [(0.0, 10.0, 1.0), (10.0, 0.0, 1.0)]
    gate.open()
    pending.wait()
    until(lambda: all(worker.idle.is_running for worker in workers))
    clock.now = 14.0
    assert times(s) == [(0.0, 10.0, 4.0), (10.0, 0.0, 4.0)]


def test_time_asleep_for_a_message_is_waiting(session, gate, clock):
    s = session(2)
    s["hold"] = s.call_packed(lambda: gate)
    pending = s.run_nowait("if worker_id == 1:\n    hold()\n    send(1.0, 0)\nelse:\n    recv(1)")
    gate.arrived()
    until(lambda: s._launcher.plane._board.asleep[0].is_running)
    clock.now = 3.0
    gate.open()
    pending.wait()
    assert [each.waiting_s for each in s.stats()] == [3.0, 0.0]


def test_a_stopwatch_adds_up_and_can_be_read_while_it_runs(clock):
    watch = Stopwatch()
    watch.start()
    clock.now = 2.0
    assert (watch.seconds(), watch.is_running) == (2.0, True)
    watch.stop()
    clock.now = 5.0
    assert (watch.seconds(), watch.is_running) == (2.0, False)
    watch.stop()
    watch.start()
    clock.now = 6.0
    assert watch.seconds() == 3.0


# --- the session itself ----------------------------------------------------------------------------


def test_stats_begin_anew_after_a_restart(session):
    s = session(2)
    s.run("x = 1")
    s.restart()
    assert [(each.sent, each.registers) for each in s.stats()] == [(0, 0)] * 2


def test_a_closed_session_has_no_stats(session):
    s = session(2)
    s.shutdown()
    with pytest.raises(SessionClosed):
        s.stats()
