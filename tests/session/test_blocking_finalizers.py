"""Finalizers and errors that block where a worker drops a value: they hold nobody up."""

from __future__ import annotations

import pytest

import disco_magic as disco
from disco_magic.errors import CellError, WorkerError
from tests.conftest import given_up_comes_back
from tests.session.conftest import until

# --- finalizers that block ---------------------------------------------------------------------------


class Blocking:
    """Its finalizer stops at the gate."""

    def __init__(self, gate, worker=None):
        self.gate, self.worker = gate, worker

    def __deepcopy__(self, memo):
        return Blocking(self.gate)

    def __del__(self):
        if disco.worker().id == (0 if self.worker is None else self.worker):
            self.gate()


def hold(gate):
    return Blocking(gate)


# When the gate opens, the interrupt strikes in the finalizer, where Python can only report it.
UNRAISABLE = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def assert_stopping_costs_one_thread(s):
    pending = s.run_nowait("1")
    pending.stop_soon()
    with pytest.raises(KeyboardInterrupt):
        pending.wait()
    del pending  # which may hold a value of worker 1's, and the error's traceback this frame
    assert [thread.is_alive() for thread in s._launcher.stuck] == [True]
    assert s.run("allreduce(1)").values == [2, 2]


@UNRAISABLE
@pytest.mark.parametrize("alone", [True, False], ids=["a kill of its own", "kills of a call"])
def test_a_finalizer_that_blocks_costs_its_worker_the_thread_and_no_more(busy, gate, alone):
    s = busy(2)
    others = [s.call_packed(int) for _ in range(2)]
    doomed = s.call_packed(hold, gate)
    s.sync_all()
    del doomed, others
    if alone:
        s.flush()
    called = s.call_packed(int)
    gate.arrived()
    assert s.doctor().positions[0].state == "executing"
    assert_stopping_costs_one_thread(s)
    del called
    s.sync_all()
    assert [len(worker.registers.values) for worker in s._launcher.workers] == [0, 0]


@UNRAISABLE
def test_a_finalizer_that_comes_back_late_drops_no_register_of_another_command(busy, gate):
    # Its thread goes on with the loop over the ids that were to be dropped: they have been reused meanwhile.
    s = busy(1)
    doomed = [s.call_packed(int), s.call_packed(hold, gate)]
    s.sync_all()
    doomed.clear()
    s.flush()
    gate.arrived()
    s.interrupt()
    s.replace_stuck((0,))
    kept = [s.call_packed(max, 5, number) for number in range(3)]
    with pytest.raises(WorkerError, match=r"drop of #2, #1 was interrupted on worker 0"):
        s.sync_all()
    given_up_comes_back(s, gate)
    assert [ref.get(0) for ref in kept] == [5, 5, 5]


@UNRAISABLE
@pytest.mark.parametrize("wait", ["sync", "get"])
def test_who_waits_behind_a_finalizer_that_blocks_is_answered_when_its_thread_is_given_up(
    busy, gate, wait, background
):
    s = busy(2)
    doomed, kept = s.call_packed(hold, gate), s.call_packed(int)
    s.sync_all()
    sent = s.ledger.seq  # workers that were at rest by then were sent nothing
    del doomed
    waiter = background(s.sync_all if wait == "sync" else kept.get_all)
    gate.arrived()
    until(lambda: s.ledger.seq > sent)
    s.interrupt()
    s.replace_stuck((0,))
    if wait == "sync":
        waiter()
    else:
        with pytest.raises(WorkerError, match="its thread did not end and was given up"):
            waiter()
    assert s.run("allreduce(1)").values == [2, 2]


REPLACED = {
    "del": lambda s: s.__delitem__("doomed"),
    "put": lambda s: s.put("doomed", 3),
}


@UNRAISABLE
@pytest.mark.parametrize("way", ["del", "put"])
def test_a_value_whose_finalizer_blocks_when_its_name_is_dropped_holds_nobody_up(busy, gate, way):
    # It ran outside of the claim: no interrupt found it.
    s = busy(2)
    s["doomed"] = s.call_packed(hold, gate)
    s.sync_all()
    REPLACED[way](s)
    gate.arrived()
    assert_stopping_costs_one_thread(s)


@UNRAISABLE
def test_an_error_whose_words_block_holds_nobody_up(busy, gate):
    s = busy(2)
    s.run("class Mute(Exception):\n    def __str__(self):\n        gate()\n        return 'spoke'\n")
    pending = s.run_nowait("if worker_id == 0:\n    raise Mute\nbarrier()")
    gate.arrived()
    pending.cancel()
    with pytest.raises(CellError):
        pending.wait()
    assert s.run("allreduce(1)").values == [2, 2]
