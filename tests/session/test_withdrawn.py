"""A cell that is stopped before it began is left out; what was sent before and after it goes on."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

from disco_magic.errors import CellError, SyncTimeout, WorkerError, WorkerInterrupt
from disco_magic.session import stopping
from disco_magic.workers.lane import Withdrawals
from tests.conftest import DEADLINE_S
from tests.session.conftest import stopped, until

LEFT_OUT = "withdrawn before it began"


@pytest.fixture
def behind(busy, gate):
    """A session whose workers, two of three by default, are in a cell, and that cell."""

    def start(workers=(0, 1, 2)):
        s = busy(3)
        first = s.run_nowait("x = 1\ngate()\nx + worker_id", workers=workers)
        gate.arrived(len(workers))
        return s, first

    return start


def settled(s):
    """Nothing is kept of cells that are over."""
    s.sync_all()
    ledger = s.ledger
    assert [worker.withdrawals._withdrawn for worker in s._launcher.workers] == [set()] * s.num_workers
    return (ledger._excused, ledger._forgotten, ledger._expected, s._pump._inboxes) == (set(), {}, {}, {})


def test_a_cell_whose_time_is_over_before_it_began_is_left_out_alone(behind, gate):
    s, first = behind()
    with pytest.raises(
        SyncTimeout, match=r"Cell \d+ did not begin within 0.05 s and was withdrawn; .*executing Cell"
    ):
        s.run("y = 2", timeout=0.05)
    after = s.call_packed(np.add, 1, 1)
    assert not first.done()
    gate.open()
    assert first.wait().values == [1, 2, 3]
    assert after.get_all() == [2, 2, 2]
    assert s.names() == ("x",)
    assert s.run("allreduce(x)").values == [3, 3, 3]
    assert settled(s)


def test_a_cell_that_is_cancelled_before_it_began_says_so_for_every_worker(behind, gate):
    s, first = behind()
    second, third = s.run_nowait("y = 2"), s.run_nowait("z = 3\nz")
    second.cancel()
    failures = stopped(second)
    assert [str(failures[worker].exception) for worker in range(3)] == [LEFT_OUT] * 3
    assert {type(failure.exception) for failure in failures.values()} == {WorkerInterrupt}
    assert failures[0].command == second.label
    gate.open()
    assert third.wait().values == [3, 3, 3]
    assert first.wait().values == [1, 2, 3]
    s.sync_all()  # what the workers tell of it late is no news
    assert s.names() == ("x", "z")
    assert settled(s)


def test_who_has_begun_it_is_stopped_and_who_has_not_leaves_it_out(behind, gate, here):
    s, first = behind([1])
    second = s.run_nowait("here()\nbarrier()\ny = 2")
    here.arrived(2)
    second.cancel()
    texts = {worker: str(failure.exception) for worker, failure in stopped(second).items()}
    assert texts.pop(1) == LEFT_OUT
    assert sorted(texts) == [0, 2]
    assert LEFT_OUT not in texts.values()
    assert not first.done()
    gate.open()
    assert first.wait()[1] == 2
    assert s.run("allreduce(1)").values == [3, 3, 3]
    assert settled(s)


def test_a_timeout_that_strikes_some_in_it_says_that_it_was_stopped(behind, gate, here):
    s, first = behind([1])
    second = s.run_nowait("here()\nbarrier()")
    here.arrived(2)
    with pytest.raises(
        SyncTimeout, match=r"Cell \d+ took longer than 0 s and was stopped; .*executing Cell"
    ) as caught:
        second.wait(0, stop=True)
    assert sorted(caught.value.result.errors) == [0, 1, 2]
    gate.open()
    first.wait()
    assert settled(s)


def test_failures_of_what_came_before_are_told_all_the_same(busy, gate):
    s = busy(2)
    kept = s.call_packed(lambda: (gate(), 1 / 0))
    gate.arrived(2)
    second = s.run_nowait("y = 2")
    second.cancel()
    with pytest.raises(CellError, match=LEFT_OUT):
        second.wait()
    gate.open()
    with pytest.raises(WorkerError, match="division by zero"):
        s.sync_all()
    assert settled(s)
    del kept


def test_a_name_that_is_bound_behind_it_stays_bound(behind, gate):
    s, first = behind()
    second = s.run_nowait("y = 2")
    s["late"] = s.call_packed(int)
    second.cancel()
    s.run_nowait("w = 1").cancel()
    assert "late" in s.names()
    gate.open()
    first.wait()
    s.sync_all()
    assert s.names() == ("x", "late")
    assert s.run("late").values == [0, 0, 0]
    assert settled(s)


def test_registers_that_die_with_it_are_freed(behind, gate):
    s, first = behind()
    doomed = s.call_packed(np.zeros, 5)
    live = s.ledger.live_registers
    del doomed
    second = s.run_nowait("y = 2")  # takes the kill along
    second.cancel()
    del second
    gc.collect()
    s.flush()
    assert s.ledger.live_registers < live
    gate.open()
    first.wait()
    assert settled(s)


def test_a_handle_may_be_dropped_as_soon_as_it_is_withdrawn(behind, gate):
    s, first = behind()
    s.run_nowait("y = 2").cancel()
    gc.collect()
    gate.open()
    assert first.wait().values == [1, 2, 3]
    assert settled(s)


def test_what_will_be_left_out_is_not_behind(behind, gate):
    s, first = behind()
    for _ in range(3):
        s.run_nowait("y = 2").cancel()
    assert [each.behind for each in s.doctor().positions] == [1, 1, 1]
    gate.open()
    first.wait()
    s.sync_all()
    assert [each.behind for each in s.doctor().positions] == [0, 0, 0]


def test_one_that_is_given_up_by_its_handle_and_withdrawn_in_part_is_forgotten(behind, gate, here):
    s, first = behind([1])
    second = s.run_nowait("here()\ngate()")
    here.arrived(2)
    assert list(s.withdraw(second.seq, [1], second.label, s.life)) == [1]
    del second
    gc.collect()
    gate.open()
    with pytest.raises(WorkerError, match=LEFT_OUT):  # nobody else was told
        first.wait()
    assert settled(s)


def test_ctrl_c_leaves_a_cell_alone_that_was_sent_before(behind, gate, here):
    s, first = behind([0, 1])
    second = s.run_nowait("here()\nwhile True: pass")
    here.arrived()  # worker 2 has begun it
    second.stop_soon()
    who = r"was stopped on worker 2, left out on workers \[0-1\]; registers may differ between them"
    with pytest.raises(KeyboardInterrupt, match=rf"{who}\. {first.label} goes on"):
        second.wait()
    assert not first.done()
    gate.open()
    assert first.wait().values == [1, 2]
    assert settled(s)


def test_who_had_done_it_is_told_apart_from_who_had_not_begun_it(behind, gate):
    s, first = behind([0])
    second = s.run_nowait("y = 2")
    until(lambda: s.ledger._expected[second.seq].missing == {0})
    second.stop_soon()
    with pytest.raises(KeyboardInterrupt, match=r"was left out on worker 0, done on workers \[1-2\]; reg"):
        second.wait()
    gate.open()
    first.wait()


def test_a_cell_that_ends_while_it_is_withdrawn_has_ended(busy):
    s = busy(2)
    for number in range(200):
        pending = s.run_nowait(f"z = {number}")
        pending.cancel()
        try:
            values = pending.wait().errors
        except CellError as error:
            values = error.failures
        assert {type(failure.exception) for failure in values.values()} <= {WorkerInterrupt}
        left_out = {worker for worker, failure in values.items() if str(failure.exception) == LEFT_OUT}
        found = s.run("globals().get('z', -1)").values
        assert all(found[worker] != number for worker in left_out)
    until(lambda: settled(s))


def test_a_restart_begins_with_nothing_withdrawn(behind, gate):
    s, first = behind()
    second = s.run_nowait("y = 2")
    second.cancel()
    gate.open()
    s.restart()
    assert second.done()
    assert s.withdraw(1, (0, 1, 2), "Cell 1", first._verdict.cell.life) == ()
    assert [s.run("worker_id").values for _ in range(4)] == [[0, 1, 2]] * 4
    assert settled(s)


def test_nothing_is_kept_of_cells_that_are_withdrawn_and_then_interrupted(behind, gate):
    s, first = behind()
    for _ in range(10):
        s.run_nowait("y = 2").cancel()
    s.interrupt()
    gate.open()
    stopped(first)
    assert settled(s)


def test_who_was_told_that_it_will_not_begin_can_rely_on_it():
    withdrawals = Withdrawals()
    assert withdrawals.add(5)
    withdrawals._begun = 5  # the worker has come to it, and has not looked yet
    assert withdrawals.add(5)
    with pytest.raises(WorkerInterrupt, match=LEFT_OUT):
        withdrawals.begin(5)
    assert not withdrawals.add(5)
    assert withdrawals._withdrawn == set()


def test_ctrl_c_while_a_cell_is_withdrawn_leaves_what_came_before_alone(busy, gate, here, monkeypatch):
    s, has_come = busy(2), threading.Event()

    def pauses():
        """Worker 0 is not given up before Ctrl-C has come, however busy the machine is."""
        yield 0.01
        has_come.wait(DEADLINE_S)
        yield 0.35

    def press():
        until(lambda: LEFT_OUT in told(s, second))
        second.stop_soon()
        has_come.set()

    first = s.run_nowait("here()\nwhile True:\n    n = 1", workers=[1])
    here.arrived()
    second = s.run_nowait("here()\ngate()")  # worker 0 sits at the gate, where no interrupt finds it
    here.arrived()
    threading.Thread(target=press).start()
    with monkeypatch.context() as patch:
        patch.setattr(stopping, "PAUSES_S", pauses())
        with pytest.raises(KeyboardInterrupt):
            second.wait(0.01, stop=True)
    assert not first.done()
    first.cancel()
    assert sorted(stopped(first)) == [1]
    gate.open()
    assert s.run("allreduce(1)").values == [2, 2]


def told(s, pending):
    expectation = s.ledger._expected.get(pending.seq)
    replies = {} if expectation is None else expectation.replies
    return " ".join(str(reply.failure) for reply in list(replies.values()))


class Blocking:
    def __init__(self, gate):
        self.gate = gate

    def __deepcopy__(self, memo):
        return self

    def __del__(self):
        self.gate("died")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_finalizer_that_keeps_a_cell_from_beginning_is_stopped_with_it(busy, gate):
    s = busy(1)
    doomed = s.call_packed(Blocking, gate)
    s.sync_all()
    del doomed
    pending = s.run_nowait("y = 2")  # takes the kill along
    gate.arrived()
    pending.cancel()
    stopped(pending)
    until(lambda: not s._launcher.workers[0].lane.running or s._launcher.stuck)
    gate.open()
    assert s.run("5").values == [5]
    assert s.names() == ()
