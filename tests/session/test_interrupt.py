"""Stopping what runs: every way a worker can be busy, and every moment an interrupt can come."""

from __future__ import annotations

import copy
import random
import sys
import threading

import pytest

import disco_magic as disco
from disco_magic.errors import CellError, Failure, PlaneAborted, WorkerError, WorkerInterrupt
from disco_magic.workers.worker import Worker
from tests.conftest import DEADLINE_S, until
from tests.sampled import in_turn
from tests.session.conftest import cancelled, stopped

LOOP = "here()\nn = 0\nwhile True:\n    n += 1\n"


def who():
    return disco.worker().id


# --- what a worker may be doing --------------------------------------------------------------------

CELLS = {
    "a loop": LOOP,
    "a function": "def f():\n    n = 0\n    while True:\n        n += 1\nhere()\nf()\n",
    "an await": "import asyncio\nhere()\nawait asyncio.sleep(3600)",
    "a loop of awaits": "import asyncio\nhere()\nwhile True:\n    await asyncio.sleep(0)",
    "a collective a rank misses": "here()\nif not worker_id: barrier()\nn = 0\nwhile True:\n    n += 1\n",
    "a message that never comes": "here()\nrecv((worker_id + 1) % num_workers) if worker_id else recv(0)",
    "collectives without end": "here()\nwhile True: allreduce(1.0)",
    "except Exception": "here()\nn = 0\nwhile True:\n  try:\n    n += 1\n  except Exception:\n    pass\n",
}


@pytest.mark.parametrize(("cell", "n"), in_turn([*CELLS], [2, 3]))
def test_a_cell_can_be_stopped_whatever_it_does(busy, here, cell, n):
    s = busy(n)
    pending = s.run_nowait(CELLS[cell])
    here.arrived(n)
    pending.cancel()
    failures = stopped(pending)
    assert sorted(failures) == list(range(n))
    kinds = {type(f.exception).__name__ for f in failures.values()}
    assert kinds <= {"WorkerInterrupt", "PlaneAborted", "PlaneMismatch"}
    assert s.run("allreduce(1)").values == [n] * n


def test_a_worker_that_leaves_a_plane_call_before_it_is_struck_cleans_up_undisturbed(
    session, gate, monkeypatch
):
    begun, cleaning, strike = threading.Event(), threading.Event(), Worker.strike

    def strikes_late(worker):
        assert cleaning.wait(DEADLINE_S)
        try:
            return strike(worker)
        finally:
            gate.open()

    s = session(1, extras=lambda _: {"cleaning": cleaning, "gate": gate, "begun": begun})
    pending = s.run_nowait(
        "saved = False\ntry:\n  while True:\n    iprobe()\n    begun.set()\n"
        "except BaseException:\n  cleaning.set()\n  gate()\n  saved = True\n  raise"
    )
    assert begun.wait(DEADLINE_S)
    monkeypatch.setattr(Worker, "strike", strikes_late)
    pending.cancel()
    stopped(pending)
    assert s.run("saved")[0]


def test_a_stopped_cell_tells_the_line_it_was_in(busy, here):
    s = busy(1)
    pending = s.run_nowait(LOOP)
    here.arrived()
    pending.cancel()
    failure = stopped(pending)[0]
    assert isinstance(failure.exception, WorkerInterrupt)
    assert ", in <module>" in failure.traceback_text


def test_an_array_like_that_computes_without_end_can_be_stopped(busy, here):
    # It was read inside of the plane call, where nothing is injected: its worker lost the thread.
    s = busy(2)
    pending = s.run_nowait(
        "class Lazy:\n"
        "    def __array__(self, dtype=None, copy=None):\n"
        "        here()\n"
        "        n = 0\n"
        "        while True:\n"
        "            n += 1\n"
        "allreduce(Lazy())\n"
    )
    cancelled(pending, here, 2)
    assert s._launcher.stuck == []
    assert s.run("allreduce([worker_id, 1]).tolist()")[0] == [1, 2]


def test_some_workers_can_be_stopped_while_the_others_go_on(busy, here, gate):
    s = busy(2)
    pending = s.run_nowait("here()\nif worker_id: gate()\nn = 0\nwhile worker_id == 0:\n    n += 1\n'fine'")
    here.arrived(2)
    s.interrupt([0])
    gate.open()
    assert list(stopped(pending)) == [0]
    with pytest.raises(CellError) as caught:
        pending.wait()
    assert caught.value.result[1] == "fine"


@pytest.mark.parametrize("stop", ["interrupt", "cancel"])
def test_who_waits_for_one_that_is_interrupted_too_is_interrupted_itself(
    gated, here, gate, monkeypatch, stop
):
    # 1. The first worker is interrupted, and leaves. 2. The others, who wait for it, are released. 3. They
    # are interrupted, but are in an `except` for what has released them.
    told = {}
    s = gated(3, here=here, told=told)
    plane = s._launcher.plane
    leave = plane.leave

    def others_first(worker, scope, failure=None):
        leave(worker, scope, failure)
        if worker == 0 and failure is not None:
            until(lambda: told.keys() >= {1, 2})

    monkeypatch.setattr(plane, "leave", others_first)
    pending = s.run_nowait(
        "here()\ntry:\n    gate() if worker_id == 0 else allreduce(1)\n"
        "except BaseException as error:\n    told[worker_id] = type(error).__name__\n    raise"
    )
    here.arrived(3)
    until(lambda: len(plane.waiting) == 2)
    s.interrupt() if stop == "interrupt" else pending.cancel()
    gate.open()
    assert {type(each.exception) for each in stopped(pending).values()} == {WorkerInterrupt}
    assert (told[1], told[2]) == ("WorkerInterrupt", "WorkerInterrupt")


def test_those_who_wait_for_one_that_is_stuck_are_released_each_time_it_is_interrupted(busy, gate):
    s = busy(2)
    for _ in range(2):
        pending = s.run_nowait("gate() if worker_id == 0 else allreduce(1)")
        gate.arrived()
        until(lambda: 1 in s._launcher.plane.waiting)
        s.interrupt([0])
        until(lambda: s.diagnosis().positions[1].state == "idle")
        gate._tickets[-1].put(None)  # this one goes on, and the next one waits again
        failures = stopped(pending)
        assert isinstance(failures[0].exception, WorkerInterrupt)
        assert isinstance(failures[1].exception, PlaneAborted)


# --- before it begins, after it has ended ----------------------------------------------------------


def test_what_has_not_begun_is_skipped_and_what_comes_later_is_not(busy, gate):
    s = busy(1)
    pending = s.run_nowait("gate()")
    gate.arrived()
    skipped = s.call_packed(who)
    skipped_cell = s.run_nowait("x = 1")
    s.interrupt()
    later = s.call_packed(who)
    gate.open()
    assert isinstance(stopped(pending)[0].exception, WorkerInterrupt)
    assert str(stopped(skipped_cell)[0].exception) == "interrupted before it began"
    assert later.get(0) == 0
    with pytest.raises(WorkerError, match="interrupted before it began"):
        skipped.get(0)
    assert "x" not in s


def test_an_interrupt_of_idle_workers_does_nothing(busy):
    s = busy(2)
    s.sync_all()
    s.interrupt()
    assert s.run("worker_id").values == [0, 1]


def test_a_cell_that_was_cancelled_says_so_also_in_a_copy(busy, gate):
    pending = busy(2).run_nowait("gate()")
    gate.arrived(2)
    pending.cancel()
    with pytest.raises(CellError, match=r"was cancelled on workers \[0-1\]") as caught:
        pending.wait()
    assert repr(pending).endswith("cancelled>")
    failures = {0: Failure(0, 1, "Cell 1", WorkerInterrupt(), "")}
    assert caught.value.stopped == "cancelled"
    again = copy.copy(CellError(failures, cancelled=True))  # as pickle does
    assert str(again).startswith("Cell 1 was cancelled on worker 0\n")


def test_a_cell_that_was_interrupted_is_not_said_to_have_failed(busy, here):
    s = busy(2)
    pending = s.run_nowait("here()\nwhile not stop.is_set(): pass")
    here.arrived(2)
    s.interrupt()
    with pytest.raises(CellError, match=r"was interrupted on workers \[0-1\]") as caught:
        pending.wait()
    assert repr(pending).endswith("interrupted>")
    assert (caught.value.stopped, str(copy.copy(caught.value))) == ("interrupted", str(caught.value))


def test_who_waited_for_an_interrupted_worker_is_not_said_to_have_been_interrupted(busy, here):
    # The others end as well, because their collective cannot complete: all were named.
    s = busy(4)
    pending = s.run_nowait(
        "if worker_id > 1: here()\nwhile worker_id > 1 and not stop.is_set(): pass\nbarrier()"
    )
    here.arrived(2)
    until(lambda: [each.state for each in s.doctor().positions][:2] == ["waiting"] * 2)
    s.interrupt((2, 3))
    with pytest.raises(CellError) as caught:
        pending.wait()
    assert caught.value.stopped == "interrupted"
    first = str(caught.value).partition("\n")[0]
    assert first == f"{pending.label} was interrupted on workers [2-3], for which workers [0-1] waited"


def test_where_one_worker_fails_an_interrupt_of_the_others_does_not_hide_it(busy, here):
    s = busy(2)
    pending = s.run_nowait("here()\nwhile worker_id and not stop.is_set(): pass\n1 / 0")
    here.arrived(2)  # who has not begun is idle, too
    until(lambda: s.doctor().positions[0].state == "idle")
    s.interrupt()
    with pytest.raises(CellError, match="failed on worker 0") as caught:
        pending.wait()
    assert caught.value.stopped == ""


def test_a_cell_that_has_ended_is_not_changed_by_cancel(busy):
    s = busy(2)
    pending = s.run_nowait("worker_id")
    pending.wait()
    pending.cancel()
    assert pending.wait().values == [0, 1]


# --- at random moments -----------------------------------------------------------------------------

SHORT = (
    "import asyncio\n"
    "total = 0\n"
    "for i in range(40):\n"
    "    total += i\n"
    "x = allreduce(float(total))\n"
    "await asyncio.sleep(0)\n"
    "for i in range(40):\n"
    "    total += i\n"
    "total\n"
)


def kinds_of_failure(wait):
    """Names of the errors that a wait raises for its workers; none if it does not."""
    try:
        wait()
    except WorkerError as error:
        return {type(failure.exception).__name__ for failure in error.failures.values()}
    return set()


def test_two_hundred_interrupts_at_random_moments_leave_nothing_behind(busy):
    s = busy(2)
    dice = random.Random(7)  # noqa: S311 - moments, not secrets
    outcomes = {"ended": 0, "stopped": 0}
    for step in range(200):
        pending = s.run_nowait(SHORT)
        ref = s.call_packed(who)
        for _ in range(dice.randrange(6000)):
            pass
        s.interrupt()
        kinds = kinds_of_failure(pending.wait)
        assert kinds <= {"WorkerInterrupt", "PlaneAborted"}
        outcomes["stopped" if kinds else "ended"] += 1
        assert kinds_of_failure(ref.get_all) <= {"WorkerInterrupt"}
        assert s.call_packed(int, step).get_all() == [step, step]
    assert outcomes["stopped"] > 0
    assert s.run("allreduce(1)").values == [2, 2]
    assert s._launcher.stuck == []


def test_stopping_one_group_leaves_the_collectives_of_the_other_alone(busy, gate, here):
    # An interrupt of some workers once gave up every wait of the plane.
    s = busy(4, 2)
    cell = (
        "if worker_id == 1: gate()\n"
        "if worker_id == 3: here()\n"
        "while worker_id == 3: n = worker_id\n"
        "total = allreduce(worker_id)"
    )
    pending = s.run_nowait(cell)
    gate.arrived()
    here.arrived()
    s.interrupt([2, 3])
    gate.open()
    with pytest.raises(CellError) as caught:
        pending.wait()
    assert sorted(caught.value.failures) == [2, 3]
    assert [s["total"].get(worker) for worker in (0, 1)] == [1, 1]
    assert s.run("allreduce(1, in_group=False)").values == [4] * 4


def test_a_worker_that_interrupts_its_session_stops_all_workers(busy, here):
    s = busy(3)
    for worker in s._launcher.workers:
        worker.registers.names["s"] = s
    pending = s.run_nowait("if worker_id == 0: s.interrupt()\nn = 0\nwhile True:\n    n += 1\n")
    with pytest.raises(CellError) as caught:
        pending.wait()
    assert sorted(caught.value.failures) == [0, 1, 2]
    for worker in s._launcher.workers:
        worker.registers.names.clear()


def test_a_look_at_all_workers_is_one_look_at_their_threads(session, gate, monkeypatch):
    """A look for each worker took time in the square of how many there are."""
    s, looks, errors = session(8, extras=lambda _: {"gate": gate}), [], []
    current = sys._current_frames
    handled = sys._current_exceptions
    pending = s.run_nowait("gate()")
    gate.arrived(8)
    monkeypatch.setattr(sys, "_current_frames", lambda: looks.append(1) or current())
    monkeypatch.setattr(sys, "_current_exceptions", lambda: errors.append(1) or handled())
    s.interrupt(workers=range(4))  # these are asked whether they clean up
    looks.clear()
    states = [each.state for each in s._launcher.positions()]
    assert states == ["stopping"] * 4 + ["executing"] * 4
    assert (len(looks), len(errors)) == (1, 1)
    gate.open()
    pending.cancel()
