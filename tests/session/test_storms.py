"""Hundreds of real SIGINTs at random moments of the main thread: nothing is lost, nothing is left behind."""

from __future__ import annotations

import gc
import random
import signal
import sys
import threading
from queue import SimpleQueue

import numpy as np
import pytest

from disco_magic.errors import PlaneAborted, WorkerError, WorkerInterrupt

SHOTS = 200
SLOW = 60  # of cells that compute, beside which an interrupt takes 50 ms
MAIN = threading.main_thread().ident


@pytest.fixture
def shoot():
    """``shoot(n)``: a SIGINT to the main thread, `n` turns of a loop from now."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(0.001)  # as in a notebook while cells run
    orders = SimpleQueue()

    def shooter():
        while (turns := orders.get()) is not None:
            for _ in range(turns):
                pass
            signal.pthread_kill(MAIN, signal.SIGINT)

    thread = threading.Thread(target=shooter, daemon=True)
    thread.start()
    yield orders.put
    sys.setswitchinterval(interval)
    orders.put(None)
    thread.join(60)
    assert not thread.is_alive()


def add(x, y):
    return x + y


def cells(s):
    s.run("n = 0\nfor i in range(50):\n    n += i\ntotal = allreduce(float(n))\nn", timeout=60)


def endless_cells(s):
    s.run("n = 0\nwhile True:\n    n += 1\n")


def waiting_cells(s):
    s.run("if worker_id:\n    barrier()\nelse:\n    n = 0\n    while True:\n        n += 1\n")


def awaiting_cells(s):
    s.run("import asyncio\nawait asyncio.sleep(60)")


def calls(s):
    x = s.call_packed(int, 3)
    for _ in range(5):
        x = s.call_packed(add, x, 1)
    total = s.allreduce(s.call_packed(np.float64, x))
    assert total.get_all() == [24.0] * 3


def asynchronous_cells(s):
    pending = [s.run_nowait("n = allreduce(worker_id)") for _ in range(3)]
    for each in pending:
        each.wait()


def syncs(s):
    s.call_packed(add, 1, 2)
    s.sync_all()


def again_and_again(act, s, begin):
    begin()
    while True:
        try:
            act(s)
        except WorkerError as error:  # cells that were given up: the next wait says so, and nothing else
            kinds = {type(failure.exception) for failure in error.failures.values()}
            assert kinds <= {WorkerInterrupt, PlaneAborted}


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("act", "shots"),
    [
        (cells, SHOTS),
        (calls, SHOTS),
        (asynchronous_cells, SHOTS),
        (syncs, SHOTS),
        (endless_cells, SLOW),
        (waiting_cells, SLOW),
        (awaiting_cells, SLOW),
    ],
)
def test_interrupts_at_random_moments_leave_a_session_that_works(session, shoot, act, shots):
    s = session(3)
    dice = random.Random(act.__name__)  # noqa: S311 - moments, not secrets
    handler = signal.getsignal(signal.SIGINT)
    for shot in range(shots):
        with pytest.raises(KeyboardInterrupt):
            again_and_again(act, s, lambda: shoot(dice.randrange(20_000)))
        assert signal.getsignal(signal.SIGINT) is handler
        s.take_failures()
        # What runs now was sent after the shot: it is executed, by all workers, once.
        assert s.run(f"shot = {shot}\nallreduce(shot)", timeout=60).values == [3 * shot] * 3
    gc.collect()  # errors hold the frames that held the cells
    s.sync_all(timeout=60)
    assert not s.ledger.expecting
    assert s._launcher.stuck == []
    assert s._launcher.plane.statistics() == {"waiting": 0, "meetings": 0, "messages": 0, "failures": 0}
    # A Ctrl-C between the two halves of taking an id from the queue keeps that register: `Calls.call_all`.
    assert all(len(worker.registers.values) <= 2 for worker in s._launcher.workers)
