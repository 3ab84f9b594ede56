"""How Disco ends, or is ended, and that every end is clean here: interrupts, shutdown, several threads."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import disco_magic as disco
from tests.surface.conftest import give, usable
from tests.unfinished import apart

# --- interrupt -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "doing",
    ["n = 0\nwhile True: n += 1", "if worker_id: allreduce(1.0)\nwhile True: pass"],
    ids=["loop", "collective"],
)
def test_an_interrupt_stops_the_cell_on_all_workers(session, doing):
    s = session(3)
    main = threading.get_ident()
    press = f"import signal\nif worker_id == 1: signal.pthread_kill({main}, signal.SIGINT)\n"
    with pytest.raises(KeyboardInterrupt, match=r"was stopped on workers \[0-2\]"):
        s.run(press + doing)
    assert usable(s)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_from_another_thread_stops_what_was_sent(session, gate):
    s = session(2)

    def loop():
        reached()
        while True:
            pass

    reached = type(gate)()
    reached.open()
    s.call_packed(loop)
    reached.arrived(2)
    s.interrupt()
    with pytest.raises(disco.WorkerError, match="WorkerInterrupt"):
        s.sync_all()
    assert usable(s)


# --- the end ---------------------------------------------------------------------------------------

BEGIN = """
import gc, threading
import disco_magic as disco
begun = threading.Semaphore(0)
def loop():
    begun.release()
    while True: pass
def held():
    begun.release()
    threading.Event().wait()
def reduce():
    begun.release()
    disco.worker().allreduce(1.0) if disco.worker().id else loop()
session = disco.ThreadedSession(2)
session.call_packed(int, 1)
session.sync_all()
"""
BUSY = "session.call_packed({0})\nbegun.acquire(), begun.acquire()\n"
ENDS = {
    "exit after shutdown": "session.shutdown()",
    "exit without shutdown": "",
    "shutdown while in a loop": BUSY.format("loop") + "session.shutdown(timeout=0)",
    "shutdown while in a collective": BUSY.format("reduce") + "session.shutdown(timeout=0)",
    "shutdown while in foreign code": BUSY.format("held") + "session.shutdown(timeout=0)",
    "exit while in a loop": BUSY.format("loop"),
    "exit while in foreign code": BUSY.format("held"),
    "collected while in a loop": BUSY.format("loop") + "del session; gc.collect()",
    "collected while in a collective": BUSY.format("reduce") + "del session; gc.collect()",
    "collected in a cycle": "cycle = [session]; cycle.append(cycle); del cycle, session; gc.collect()",
}


@pytest.mark.parametrize("end", ENDS)
def test_every_end_is_clean(end):
    command = [sys.executable, "-c", BEGIN + ENDS[end]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - our own code
    said, besides = apart(done.stderr)
    assert (done.returncode, done.stdout, besides) == (0, "", "")
    assert len(said) == end.startswith("exit while")


# --- several threads -------------------------------------------------------------------------------


def test_threads_may_share_a_session(session, background):
    s = session(3)

    def work(number):
        for step in range(30):
            mine = s.call_packed(give, number, step)
            total = s.allreduce(s.call_packed(np.float64, step))
            assert mine.get(step % 3) == ((number, step), {})
            assert total.get(0) == 3 * step

    for ended in [background(work, number) for number in range(4)]:
        ended()
    assert usable(s)
