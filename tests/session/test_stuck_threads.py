"""Code that catches interrupts, and threads that nobody can end."""

from __future__ import annotations

import contextvars

import numpy as np
import pytest

from disco_magic.errors import CellError, WorkerError, WorkerInterrupt
from disco_magic.functions.execution.program_runs import ProgramRun
from disco_magic.functions.execution.scripts import compile_file
from disco_magic.launchers import last_calls
from tests.conftest import given_up_comes_back
from tests.session.conftest import cancelled, who

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
    assert isinstance(cancelled(pending, here)[0].exception, WorkerInterrupt)
    assert s["cleaned"].get(0) is True


def test_a_cell_that_catches_the_interrupt_and_ends_well_was_interrupted_all_the_same(busy, here):
    s = busy(1)
    pending = s.run_nowait(
        "here()\nn = 0\ntry:\n  n += 1\n  while True:\n    n += 1\nexcept KeyboardInterrupt:\n  pass\n'fine'"
    )
    failure = cancelled(pending, here)[0]
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
    assert isinstance(cancelled(pending, here)[0].exception, WorkerInterrupt)
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
    assert isinstance(cancelled(pending, here)[0].exception, WorkerInterrupt)
    assert s["caught"].get(0) == 1


SWALLOW = (
    "n = 0\n"
    "here()\n"
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
    failure = cancelled(pending, here)[1]
    assert "its thread did not end and was given up" in str(failure.exception)
    assert len(s._launcher.stuck) == 1
    assert s.run("allreduce(1)").values == [2, 2]
    assert "all workers are idle; 1 thread that was given up has not ended" in str(s.doctor())


# --- threads that cannot be ended ------------------------------------------------------------------


def test_a_thread_in_a_c_call_is_replaced_and_the_registers_stay(busy, gate):
    s = busy(2)
    s.run("kept = worker_id")
    kept = s.call_packed(who)
    pending = s.run_nowait("gate()\nlate = 'written'")
    assert sorted(cancelled(pending, gate, 2)) == [0, 1]
    assert s.run("kept").values == kept.get_all() == [0, 1]
    assert s.run("allreduce(1)").values == [2, 2]
    gate.open()
    for thread in s._launcher.stuck:
        thread.join()
    assert "late" not in s
    assert all("late" not in worker.registers.names for worker in s._launcher.workers)


def test_a_program_whose_thread_is_given_up_before_its_first_line_never_begins(
    session, gate, tmp_path, monkeypatch
):
    # It ran for ever, beside the worker's new thread.
    def begins(run, begin=ProgramRun.begin):
        begin(run)
        gate()

    monkeypatch.setattr(ProgramRun, "begin", begins)
    (tmp_path / "program.py").write_text("ran.append(1)\n")
    ran = []
    s = session(1, extras=lambda context: {"ran": ran})
    cancelled(s.run_nowait(compile_file(tmp_path / "program.py")), gate)
    given_up_comes_back(s, gate)
    assert ran == []


def test_what_cells_have_set_in_their_context_holds_on_the_new_thread_too(busy, gate):
    s = busy(2)
    s.run(
        "import contextvars, decimal\nV = contextvars.ContextVar('V'); V.set(worker_id)\n"
        "np.seterr(divide='raise'); decimal.getcontext().prec = 5"
    )
    cancelled(s.run_nowait("V.set('of a cell that was given up'); gate()"), gate, 2)
    told = "V.get(None), np.geterr()['divide'], decimal.getcontext().prec"
    divide = "raise" if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else "warn"  # before, the thread's
    assert s.run(told).values == [(0, divide, 5), (1, divide, 5)]
    gate.open()
    for thread in s._launcher.stuck:
        thread.join()
    assert s.run(told).values == [(0, divide, 5), (1, divide, 5)]


def test_a_replaced_thread_that_comes_back_does_not_overwrite_registers(busy, gate):
    s = busy(1)
    s.run("def slow():\n    try:\n        gate()\n    except BaseException:\n        pass\n    return 'late'")
    stuck = s.call_packed(s["slow"])
    gate.arrived()
    s.interrupt()
    assert s.see_stopped() == ([0], [])
    with pytest.raises(WorkerError, match="call slow was interrupted on worker 0"):
        s.sync_all()
    stuck.set(0, "new")
    given_up_comes_back(s, gate)
    assert stuck.get(0) == "new"


class Counted(list):
    """Notes how often it is looked through."""

    looks = 0

    def __iter__(self):
        self.looks += 1
        return super().__iter__()

    def __contains__(self, thing):
        self.looks += 1
        return super().__contains__(thing)


def test_threads_that_are_given_up_together_are_noted_together(busy, gate, monkeypatch):
    """All that were given up before were asked anew for each, whether they live."""
    s, before = busy(6), Counted()
    monkeypatch.setattr(last_calls, "_given_up", before)
    cancelled(s.run_nowait("gate()"), gate, 6)
    assert len(before) == 6
    assert before.looks == 1


def test_how_many_given_up_threads_live_is_counted_by_one_look(busy, gate):
    s = busy(6)
    cancelled(s.run_nowait("gate()"), gate, 6)
    launcher = s._launcher
    launcher._threads = Counted(launcher._threads)
    assert launcher.given_up() == 6
    assert launcher._threads.looks == 1


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
    given_up_comes_back(s, gate)
    assert "in another thread, not in the worker's own" in s["seen"].get(0)[0]


class Scope:
    """A front end that is told who was given up."""

    def __init__(self):
        self.stdout = {}
        self.given_up = []

    def context(self, worker):
        return contextvars.copy_context()

    def render(self, value):
        return {"text/plain": ""}

    def ended(self, worker):
        return None

    def skipped(self, worker):
        pass

    def abandoned(self, worker):
        self.given_up.append(worker)


def test_the_front_end_is_told_whose_thread_was_given_up(busy, gate):
    s, scope = busy(2), Scope()
    pending = s.run_nowait("if worker_id == 1: gate()", scope=scope)
    gate.arrived()
    pending.cancel()
    with pytest.raises(CellError):
        pending.wait()
    assert scope.given_up == [1]


def test_a_front_end_that_fails_then_costs_no_worker_its_thread(busy, gate):
    class Failing(Scope):
        def abandoned(self, worker):
            raise BrokenPipeError("nobody reads")

    s = busy(1)
    pending = s.run_nowait("gate()", scope=Failing())
    gate.arrived()
    pending.cancel()
    with pytest.raises(CellError) as caught:
        pending.wait()
    failure = caught.value.failures[0]
    assert failure.exception.__notes__ == ["what it had printed could not be shown: nobody reads"]
    assert s.run("worker_id").values == [0]


def test_the_error_says_at_which_line_a_thread_was_stuck(busy, gate):
    s = busy(1)
    pending = s.run_nowait("x = 1\ngate()")
    assert "line 2" in str(cancelled(pending, gate)[0].exception)


def test_nothing_that_a_thread_sets_as_it_dies_reaches_its_worker(busy, gate):
    s = busy(1)
    s.run("import builtins, logging\nlogger = logging.getLogger('tests.stuck')\nlogger.setLevel(30)")
    handle = s.run_nowait(
        "try:\n    gate()\nfinally:\n    builtins.print = None\n    logger.setLevel(10)\n"
        "    logger.addFilter(len)\n    del builtins.sorted"
    )
    gate.arrived()
    handle.cancel()
    s.run("builtins.sorted = mine = lambda *_: 'mine'")
    given_up_comes_back(s, gate)
    found = s.run("callable(builtins.print), builtins.sorted is mine, logger.level, list(logger.filters)")
    assert found.values == [(True, True, 30, [])]
