"""Cells whose sends wait until their messages are asked for."""

from __future__ import annotations

import pytest

import disco_magic as disco
from disco_magic.errors import CellError, PlaneMismatch, WorkerInterrupt
from tests.conftest import until

RING = "send(worker_id, (worker_id + 1) % num_workers)\nrecv((worker_id - 1) % num_workers)"


def exchange(session, **options):
    return session.run(RING, **options)


def test_a_program_that_needs_buffers_fails_in_such_a_cell_alone(four):
    assert exchange(four).values == [3, 0, 1, 2]
    with pytest.raises(CellError, match=r"workers \[0-3\] wait for each other in a circle") as caught:
        exchange(four, rendezvous=True)
    assert {type(each.exception) for each in caught.value.failures.values()} == {PlaneMismatch}
    assert exchange(four).values == [3, 0, 1, 2]


def test_a_program_that_needs_none_does_not(four):
    first = "if worker_id % 2: got = recv(worker_id - 1)\n"
    last = "if worker_id % 2 == 0: got = recv((worker_id - 1) % 4)\ngot"
    code = f"{first}send(worker_id, (worker_id + 1) % 4)\n{last}"
    assert four.run(code, rendezvous=True).values == [3, 0, 1, 2]


def test_functions_that_are_called_after_it_send_as_ever(session):
    s = session(2)
    assert s.run("worker.rendezvous", rendezvous=True).values == [True, True]

    def exchanged():
        import disco_magic

        me = disco_magic.worker()
        me.send(me.id, 1 - me.id)
        return me.recv(1 - me.id), me.rendezvous

    assert s.call_packed(exchanged).get_all() == [(1, False), (0, False)]


def test_it_ends_with_a_cell_that_fails_or_is_stopped(busy, here):
    s = busy(2)
    with pytest.raises(CellError):
        s.run("1 / 0", rendezvous=True)
    assert s.run("worker.rendezvous").values == [False, False]
    cell = "here()\nif worker_id == 0: send(1, 1)\nwhile True: pass"
    pending = s.run_nowait(cell, rendezvous=True)
    here.arrived(2)
    s.interrupt()
    with pytest.raises(CellError):
        pending.wait()
    assert s.run("worker.rendezvous").values == [False, False]


def test_a_thread_that_was_given_up_leaves_it_to_its_successor(gated, gate, here):
    s = gated(1, here=here)
    gone = type(gate)()
    s.bind("gone", s.store(gone))
    stuck = s.run_nowait("gone()")
    gone.arrived()
    stuck.cancel()
    pending = s.run_nowait("before = worker.rendezvous\ngate()\nbefore, worker.rendezvous", rendezvous=True)
    gate.arrived()
    (thread,) = s._launcher.stuck
    gone.open()
    thread.join()
    gate.open()
    assert pending.wait()[0] == (True, True)


def test_a_thread_that_was_given_up_takes_it_along(gated, here):
    s = gated(1, here=here)
    gone = type(here)()
    s.bind("gone", s.store(gone))
    stuck = s.run_nowait("gone()", rendezvous=True)
    gone.arrived()
    stuck.cancel()
    asked = s.call_packed(lambda: disco.worker().rendezvous).get(0)
    gone.open()
    assert asked is False


def test_who_waits_in_it_can_be_interrupted(busy, gate):
    s = busy(2)
    pending = s.run_nowait("send(1, 1) if worker_id == 0 else gate()", rendezvous=True)
    gate.arrived()
    until(lambda: s.diagnosis().positions[0].state == "waiting")
    s.interrupt([0])
    until(lambda: s.diagnosis().positions[0].state == "idle")
    gate.open()
    with pytest.raises(CellError) as caught:
        pending.wait()
    assert isinstance(caught.value.failures[0].exception, WorkerInterrupt)


def test_the_doctor_says_who_does_not_receive(busy, gate):
    s = busy(2)
    pending = s.run_nowait("send(1.5, 1) if worker_id == 0 else (gate(), recv(0))[1]", rendezvous=True)
    gate.arrived()
    until(lambda: s.diagnosis().positions[0].state == "waiting")
    said = str(s.doctor())
    assert said.startswith("worker 1 keeps worker 0 waiting: executing Cell ")
    assert "waiting in send to worker 1 of float64 ()  " in said
    gate.open()
    assert pending.wait()[1] == 1.5


def test_a_timeline_charges_the_receiver_with_the_wait(busy, gate):
    s = busy(2)
    pending = s.run_nowait("send(1.5, 1) if worker_id == 0 else (gate(), recv(0))[1]", rendezvous=True)
    gate.arrived()
    until(lambda: s.diagnosis().positions[0].state == "waiting")
    until(lambda: (s.diagnosis().positions[0].seconds or 0) > 0.02)
    gate.open()
    pending.wait()
    summary = s.timeline().summary()
    assert summary.workers[1].messages_s > 0.01
    assert summary.workers[1].others_waited_s == summary.workers[1].messages_s
    assert summary.sentence.endswith("for worker 1 in send, all together")


def test_files_and_modules_can_be_run_so(session, tmp_path, monkeypatch):
    (tmp_path / "ring.py").write_text(RING)
    monkeypatch.chdir(tmp_path)
    s = session(2)
    s.run_file("ring.py")
    s.run_module("ring")
    for run in (s.run_file, s.run_module):
        with pytest.raises(CellError, match="wait for each other"):
            run("ring.py" if run == s.run_file else "ring", rendezvous=True)
