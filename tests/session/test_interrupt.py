"""Stopping what runs: every way a worker can be busy, and every moment an interrupt can come."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading

import pytest

import disco_magic as disco
from disco_magic.errors import CellError, SyncTimeout, WorkerError, WorkerInterrupt
from disco_magic.session import pump

LOOP = "here()\nn = 0\nwhile True:\n    n += 1\n"
MAIN = threading.main_thread().ident


def who():
    return disco.worker().id


def interrupt_main():
    """Ctrl-C, as the terminal or the stop button does it, as soon as the main thread waits in a session."""
    pause = threading.Event()
    for _ in range(60_000):
        if sys._current_frames()[MAIN].f_code in (pump.take.__code__,):
            signal.pthread_kill(MAIN, signal.SIGINT)
            return
        pause.wait(0.001)


@pytest.fixture
def here(gate):
    """A gate that only says who has come."""
    made = type(gate)()
    made.open()
    return made


@pytest.fixture
def busy(gated, here):
    """Starts sessions whose cells can call `here`, `gate`, `stop` and `interrupt_main`."""
    stop = threading.Event()

    def start(n=2, groups=1):
        s = gated(n, groups, here=here, stop=stop, interrupt_main=interrupt_main)
        return s

    yield start
    stop.set()


def stopped(pending):
    """The failures of a cell that was stopped."""
    with pytest.raises(CellError) as caught:
        pending.wait()
    return caught.value.failures


# --- what a worker may be doing --------------------------------------------------------------------

CELLS = {
    "a loop": LOOP,
    "a function": "def f():\n    n = 0\n    while True:\n        n += 1\nhere()\nf()\n",
    "an await": "import asyncio\nhere()\nawait asyncio.sleep(3600)",
    "a loop of awaits": "import asyncio\nhere()\nwhile True:\n    await asyncio.sleep(0)",
    "a collective that a rank misses": "here()\nif worker_id == 0: allreduce(1.0)\nn = 0\nwhile True:\n    n += 1\n",
    "a message that never comes": "here()\nrecv((worker_id + 1) % num_workers) if worker_id else recv(0)",
    "collectives without end": "here()\nwhile True: allreduce(1.0)",
    "except Exception": "here()\nn = 0\nwhile True:\n    try:\n        n += 1\n    except Exception:\n        pass\n",
}


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("cell", CELLS)
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


def test_a_stopped_cell_tells_the_line_it_was_in(busy, here):
    s = busy(1)
    pending = s.run_nowait(LOOP)
    here.arrived()
    pending.cancel()
    failure = stopped(pending)[0]
    assert isinstance(failure.exception, WorkerInterrupt)
    assert ", in <module>" in failure.traceback_text


def test_a_call_can_be_stopped_too(busy, here):
    s = busy(2)
    s.run("def loop():\n    here()\n    n = 0\n    while True:\n        n += 1\n")
    bad = s.call_packed(s["loop"])
    here.arrived(2)
    s.interrupt()
    with pytest.raises(WorkerError) as caught:
        bad.get_all()
    assert {type(f.exception) for f in caught.value.failures.values()} == {WorkerInterrupt}
    assert s.call_packed(who).get_all() == [0, 1]


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


def test_a_cell_that_has_ended_is_not_changed_by_cancel(busy):
    s = busy(2)
    pending = s.run_nowait("worker_id")
    pending.wait()
    pending.cancel()
    assert pending.wait().values == [0, 1]


# --- code that catches the interrupt ---------------------------------------------------------------


def test_user_code_can_clean_up(busy, here):
    s = busy(1)
    pending = s.run_nowait(
        "here()\n"
        "n = 0\n"
        "try:\n"
        "    n += 1\n"
        "    while True:\n"
        "        n += 1\n"
        "except KeyboardInterrupt:\n"
        "    cleaned = True\n"
        "    raise\n"
    )
    here.arrived()
    pending.cancel()
    assert isinstance(stopped(pending)[0].exception, WorkerInterrupt)
    assert s["cleaned"].get(0) is True


def test_a_cell_that_catches_the_interrupt_and_ends_well_was_interrupted_all_the_same(busy, here):
    s = busy(1)
    pending = s.run_nowait(
        "here()\nn = 0\ntry:\n    n += 1\n    while True:\n        n += 1\nexcept KeyboardInterrupt:\n    pass\n'fine'"
    )
    here.arrived()
    pending.cancel()
    failure = stopped(pending)[0]
    assert failure.summary == "WorkerInterrupt: the command was interrupted"


def test_a_cell_that_goes_on_after_the_first_interrupt_is_ended_by_the_next(busy, here):
    s = busy(1)
    pending = s.run_nowait(
        "caught = 0\n"
        "n = 0\n"
        "here()\n"
        "try:\n"
        "    n += 1\n"
        "    while True:\n"
        "        n += 1\n"
        "except KeyboardInterrupt:\n"
        "    caught = 1\n"
        "while True:\n"
        "    n += 1\n"
    )
    here.arrived()
    pending.cancel()
    assert isinstance(stopped(pending)[0].exception, WorkerInterrupt)
    assert s["caught"].get(0) == 1
    assert s._launcher.stuck == []


def test_a_cell_that_cancels_no_await_is_ended_by_the_next_interrupt(busy, here):
    s = busy(1)
    pending = s.run_nowait(
        "import asyncio\n"
        "caught = 0\n"
        "async def stubborn():\n"
        "    global caught\n"
        "    here()\n"
        "    try:\n"
        "        await asyncio.sleep(3600)\n"
        "    except asyncio.CancelledError:\n"
        "        caught = 1\n"
        "    while True:\n"
        "        await asyncio.sleep(0)\n"
        "await stubborn()\n"
    )
    here.arrived()
    pending.cancel()
    assert isinstance(stopped(pending)[0].exception, WorkerInterrupt)
    assert s["caught"].get(0) == 1


SWALLOW = (
    "here()\n"
    "n = 0\n"
    "while not stop.is_set():\n"
    "    try:\n"
    "        while not stop.is_set():\n"
    "            n += 1\n"
    "    except BaseException:\n"
    "        pass\n"
)


def test_code_that_swallows_everything_loses_its_thread(busy, here):
    s = busy(2)
    pending = s.run_nowait(SWALLOW, workers=[1])
    here.arrived()
    pending.cancel()
    failure = stopped(pending)[1]
    assert "its thread was stuck in a call that Python cannot end" in str(failure.exception)
    assert len(s._launcher.stuck) == 1
    assert s.run("allreduce(1)").values == [2, 2]


# --- threads that cannot be ended ------------------------------------------------------------------


def test_a_thread_in_a_c_call_is_replaced_and_the_registers_stay(busy, gate):
    s = busy(2)
    s.run("kept = worker_id")
    kept = s.call_packed(who)
    pending = s.run_nowait("gate()\nlate = 'written'")
    gate.arrived(2)
    pending.cancel()
    assert sorted(stopped(pending)) == [0, 1]
    assert s.run("kept").values == kept.get_all() == [0, 1]
    assert s.run("allreduce(1)").values == [2, 2]
    gate.open()
    for thread in s._launcher.stuck:
        thread.join()
    assert "late" not in s
    assert all("late" not in worker.registers.names for worker in s._launcher.workers)


def test_a_replaced_thread_that_comes_back_does_not_overwrite_registers(busy, gate):
    s = busy(1)
    s.run("def slow():\n    try:\n        gate()\n    except BaseException:\n        pass\n    return 'late'")
    stuck = s.call_packed(s["slow"])
    gate.arrived()
    pending = s.run_nowait("1")
    pending.cancel()
    with pytest.raises(CellError):
        pending.wait()
    stuck.set(0, "new")
    gate.open()
    for thread in s._launcher.stuck:
        thread.join()
    assert stuck.get(0) == "new"


def test_a_replaced_thread_can_call_no_collective(busy, gate, here):
    s = busy(1)
    s.run("seen = []")
    pending = s.run_nowait(
        "try:\n    gate()\nexcept BaseException: pass\ntry:\n    barrier()\nexcept BaseException as error:\n"
        "    seen.append(str(error))\n"
    )
    gate.arrived()
    pending.cancel()
    with pytest.raises(CellError):
        pending.wait()
    gate.open()
    for thread in s._launcher.stuck:
        thread.join()
    assert "in another thread than the worker's own" in s["seen"].get(0)[0]


def test_the_front_end_is_told_whose_thread_was_given_up(busy, gate):
    import contextvars

    class Scope:
        stdout = {}  # noqa: RUF012 - never written
        given_up = []  # noqa: RUF012 - one test, one list

        def context(self, worker):
            return contextvars.copy_context()

        def render(self, value):
            return {"text/plain": ""}

        def ended(self, worker):
            return None

        def abandoned(self, worker):
            self.given_up.append(worker)

    s = busy(2)
    pending = s.run_nowait("if worker_id == 1: gate()", scope=Scope())
    gate.arrived()
    pending.cancel()
    with pytest.raises(CellError):
        pending.wait()
    assert Scope.given_up == [1]


# --- Ctrl-C and time -------------------------------------------------------------------------------


def test_ctrl_c_stops_the_cell_on_all_workers(busy):
    s = busy(2)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt, match=r"was stopped on workers \[0-1\]; registers may differ") as caught:
        s.run("n = 0\nif worker_id == 0: interrupt_main()\nwhile True:\n    n += 1\n")
    assert sorted(caught.value.result.errors) == [0, 1]
    assert signal.getsignal(signal.SIGINT) is before
    assert s.run("worker_id").values == [0, 1]


def test_ctrl_c_says_which_threads_were_replaced(busy, gate):
    s = busy(2)
    with pytest.raises(KeyboardInterrupt, match=r"The thread of \[1\] was stuck in a call that cannot be interrupted"):
        s.run("if worker_id == 1: interrupt_main(); gate()")
    assert s.run("worker_id").values == [0, 1]


def test_ctrl_c_is_reported_although_the_cell_ends_well_meanwhile(busy):
    s = busy(1)
    with pytest.raises(KeyboardInterrupt):
        s.run("try:\n    interrupt_main()\n    n = 0\n    while True:\n        n += 1\nexcept KeyboardInterrupt:\n    pass")


def test_ctrl_c_while_waiting_for_a_value_leaves_the_session_usable(busy, gate):
    s = busy(1)
    s.run("def slow():\n    interrupt_main()\n    gate()\n    return 5")
    ref = s.call_packed(s["slow"])
    with pytest.raises(KeyboardInterrupt):
        ref.get(0)
    gate.open()
    assert ref.get(0) == 5


def test_a_thread_that_is_not_the_main_one_leaves_ctrl_c_alone(busy, background, gate):
    s = busy(1)
    before = signal.getsignal(signal.SIGINT)
    result = background(s.run, "gate()\n5")
    gate.arrived()
    assert signal.getsignal(signal.SIGINT) is before
    gate.open()
    assert result()[0] == 5


def test_a_cell_that_takes_too_long_is_stopped_and_says_where_it_was(busy):
    s = busy(2)
    with pytest.raises(SyncTimeout, match="took longer than 0 s and was stopped; it was here:") as caught:
        s.run("n = 0\nwhile True:\n    n += 1\n", timeout=0)
    assert sorted(caught.value.result.errors) == [0, 1]
    assert "worker 1:" in str(caught.value)
    assert s.run("worker_id").values == [0, 1]


def test_a_cell_that_is_quick_enough_is_not_stopped(busy):
    assert busy(2).run("worker_id", timeout=60).values == [0, 1]


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
        try:
            pending.wait()
            outcomes["ended"] += 1
        except WorkerError as error:
            outcomes["stopped"] += 1
            kinds = {type(f.exception).__name__ for f in error.failures.values()}
            assert kinds <= {"WorkerInterrupt", "PlaneAborted"}, error
        try:
            assert ref.get_all() == [0, 1]
        except WorkerError as error:
            assert all(isinstance(f.exception, WorkerInterrupt) for f in error.failures.values()), error
        assert s.call_packed(int, step).get_all() == [step, step]
    assert outcomes["stopped"] > 0
    assert s.run("allreduce(1)").values == [2, 2]
    assert s._launcher.stuck == []


# --- the end of the process ------------------------------------------------------------------------

BUSY = """
import threading
import disco_magic as disco
begun = threading.Semaphore(0)
session = disco.ThreadedSession(3, extras=lambda context: {{"begun": begun}})
session.run_nowait({cell!r})
for _ in range(3):
    begun.acquire()
{end}
"""


@pytest.mark.parametrize("end", ["", "del session", "raise SystemExit(0)", "session.shutdown(timeout=0)"])
@pytest.mark.parametrize(
    "cell",
    [
        "begun.release()\nn = 0\nwhile True:\n    n += 1",
        "begun.release()\nimport threading\nthreading.Lock().acquire() and threading.Event().wait()",
        "begun.release()\nif worker_id: allreduce(1.0)\nwhile True: pass",
        "begun.release()\nwhile True:\n    try:\n        n = 1\n    except BaseException:\n        pass",
    ],
    ids=["loop", "stuck", "collective", "swallowing"],
)
def test_a_process_with_a_busy_session_ends_cleanly(cell, end):
    code = BUSY.format(cell=cell, end=end)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - our own code
    assert (done.returncode, done.stderr) == (0, "")
