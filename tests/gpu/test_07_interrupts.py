"""Interrupts while a real GPU computes for longer than anybody wants to wait."""

from __future__ import annotations

import threading

import pytest

from disco_magic.errors import CellError
from tests.conftest import DEADLINE_S, stacks
from tests.gpu.machine import QUICK, SIMULATED

LONG_S = 2.0 if QUICK else 6.0  # much longer than an interrupt takes, on a busy machine too
LONG = f"spin({LONG_S})\nlast = xp.cuda.Event()\nlast.record()\n"


@pytest.fixture
def spinning(session, spin, gate):
    """Two workers on one GPU, whose cells have `spin` and `gate`, and say ``began()``."""
    spin(0.0)  # so that nobody has to find out how fast the GPU is
    began = threading.Semaphore(0)
    names = {"spin": spin, "gate": gate, "began": began.release}
    made = session(2, devices=[0, 0], extras=lambda context: names)
    made.both_began = lambda: all(began.acquire(timeout=DEADLINE_S) for _ in range(2))
    yield made
    gate.open()
    for stuck in made._launcher.stuck:
        stuck.join(DEADLINE_S)
        assert not stuck.is_alive(), stacks([stuck])


def works(session):
    total = session.run("allreduce(xp.full(3, worker_id + 1.0)).get().tolist()")
    return list(total.values) == [[3.0] * 3] * 2


@pytest.mark.parametrize(
    "waiting",
    ["pass", "reached = worker.place.finish()", "reached = worker.place.take(x)"],
    ids=["at its end", "by itself", "to copy"],
)
def test_a_cell_whose_kernel_runs_is_interrupted_at_once(spinning, waiting):
    pending = spinning.run_nowait(f"x = xp.ones(1000)\n{LONG}began()\n{waiting}")
    assert spinning.both_began()
    pending.cancel()
    with pytest.raises(CellError, match="interrupted"):
        pending.wait()
    after = spinning.run("last.done, 'reached' in globals()")
    # Nobody waited for the kernel; this cell did, but after its last line.
    assert list(after.values) == [(False, False)] * 2
    assert works(spinning)


def test_a_worker_that_waits_in_a_collective_is_interrupted(spinning):
    pending = spinning.run_nowait(
        "if worker_id == 0:\n    allreduce(xp.ones(3))\nelse:\n    while True: pass"
    )
    pause = threading.Event()
    while not spinning._launcher.plane.waiting:
        assert not pause.wait(0.001)
    pending.cancel()
    with pytest.raises(CellError, match="interrupted"):
        pending.wait()
    assert works(spinning)


def test_a_collective_behind_a_long_kernel_is_not_waited_for(spinning):
    pending = spinning.run_nowait(
        f"x = xp.ones(3)\nif worker_id == 1:\n    spin({LONG_S})\n"
        "y = allreduce(x)\nlast = xp.cuda.Event()\nlast.record()\nbegan()"
    )
    assert spinning.both_began()
    pending.cancel()
    with pytest.raises(CellError, match="interrupted"):
        pending.wait()
    assert list(spinning.run("last.done").values) == [False] * 2
    assert spinning.run("y.get().tolist()").values[0] == [2] * 3
    assert works(spinning)


def test_a_thread_that_takes_over_works_on_the_same_gpu_and_stream(spinning, gate):
    spinning.run("x = xp.full(3, worker_id + 1.0)")
    pending = spinning.run_nowait("gate(0) if worker_id == 0 else None")
    gate.arrived()
    thread = spinning._launcher.workers[0].lane.thread_id
    pending.cancel()
    with pytest.raises(CellError):
        pending.wait()
    assert spinning._launcher.workers[0].lane.thread_id != thread
    assert spinning.run("xp.cuda.get_current_stream().ptr == worker.place.stream.ptr").values[0] is True
    assert spinning.run("allreduce(x).get().tolist()").values[0] == [3] * 3
    assert works(spinning)


@pytest.mark.skipif(SIMULATED, reason="a simulated device is waited for in Python")
def test_a_thread_stuck_in_the_drivers_own_wait_is_replaced(spinning):
    pending = spinning.run_nowait(f"{LONG}began()\nxp.cuda.get_current_stream().synchronize()")
    assert spinning.both_began()
    pending.cancel()
    with pytest.raises(CellError):
        pending.wait()
    assert works(spinning)
