"""Real SIGINTs at random moments of the main thread: nothing is lost, nothing is left behind.

``python -m tests.session.storms cells 200``. A process of its own: what measures coverage takes a lock in
Python code, in which a SIGINT may strike like anywhere else.
"""

from __future__ import annotations

import contextlib
import gc
import random
import signal
import sys
import threading
from queue import SimpleQueue

import numpy as np

import disco_magic as disco
from disco_magic.errors import PlaneAborted, WorkerError, WorkerInterrupt

MAIN = threading.main_thread().ident
WORKERS = 3
PATIENCE = 20  # so often it may act when the SIGINT is on its way


def shooter(orders, shot):
    """For every number in `orders` a SIGINT to the main thread, as many turns of a loop later."""
    while True:
        for _ in range(orders.get()):
            pass
        signal.pthread_kill(MAIN, signal.SIGINT)
        shot.set()


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


def again_and_again(act, s, shot):
    """Act until a KeyboardInterrupt comes out, or some times after it should have."""
    late = 0
    while late < PATIENCE:
        late += shot.is_set()
        try:
            act(s)
        except WorkerError as error:  # cells that were given up: the next wait says so, and nothing else
            kinds = {type(failure.exception) for failure in error.failures.values()}
            assert kinds <= {WorkerInterrupt, PlaneAborted}


ACTS = {
    act.__name__: act
    for act in (cells, endless_cells, waiting_cells, awaiting_cells, calls, asynchronous_cells, syncs)
}


def strike(act, shots):
    """Interrupt `act` so many times, in one session; AssertionError if anything is not as it should be."""
    unraisable = []
    sys.unraisablehook = unraisable.append
    sys.setswitchinterval(0.001)  # as in a notebook while cells run
    dice, orders = random.Random(act.__name__), SimpleQueue()  # noqa: S311 - moments, not secrets
    fired = threading.Event()
    threading.Thread(target=shooter, args=(orders, fired), daemon=True).start()
    handler = signal.getsignal(signal.SIGINT)
    with disco.ThreadedSession(WORKERS) as s:
        for shot in range(shots):
            with contextlib.suppress(KeyboardInterrupt):
                fired.clear()
                orders.put(dice.randrange(20_000))
                again_and_again(act, s, fired)
                raise AssertionError(f"a SIGINT was lost; what could not be raised: {unraisable}")
            # One that comes between the SIGINT and its own note of it would count for the next shot.
            assert fired.wait(60)
            assert signal.getsignal(signal.SIGINT) is handler
            s.take_failures()
            # What runs now was sent after the shot: it is executed, by all workers, once.
            sums = s.run(f"shot = {shot}\nallreduce(shot)", timeout=60).values
            assert sums == [WORKERS * shot] * WORKERS, sums
        gc.collect()  # errors hold the frames that held the cells
        s.sync_all(timeout=60)
        assert not s.ledger.expecting
        assert s._launcher.stuck == []
        left = s._launcher.plane.statistics()
        assert left == {"waiting": 0, "meetings": 0, "messages": 0, "failures": 0}, left
        # A Ctrl-C between the two halves of taking an id from the queue keeps that register: `call_all`.
        held = [sorted(worker.registers.values) for worker in s._launcher.workers]
        assert all(len(registers) <= 2 for registers in held), held
    assert not unraisable, unraisable


if __name__ == "__main__":
    strike(ACTS[sys.argv[1]], int(sys.argv[2]))
    print("nothing was lost")
