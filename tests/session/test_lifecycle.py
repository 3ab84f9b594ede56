"""Beginning, ending and beginning again; presets; the current session."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import threading

import pytest

import disco_magic as disco
from disco_magic.callers.namespaces import in_use
from disco_magic.errors import SessionClosed, UsageMistake, WorkerLost
from disco_magic.session import current
from disco_magic.session.config import check_plane
from disco_magic.session.sigint import sigint_to
from tests.session.conftest import until

sizes = pytest.mark.parametrize("n", [1, 2, 3, 4])


def workers_of(session):
    prefix = f"disco-{session.id}-"
    return [thread for thread in threading.enumerate() if thread.name.startswith(prefix)]


# --- beginning -------------------------------------------------------------------------------------


@sizes
def test_a_session_has_a_daemon_thread_per_worker(session, n):
    s = session(n)
    assert [t.daemon for t in workers_of(s)] == [True] * n


@pytest.mark.parametrize(("n", "groups", "size"), [(4, 1, 4), (4, 2, 2), (6, 3, 2)])
def test_a_session_knows_its_topology(session, n, groups, size):
    s = session(n, groups)
    assert (s.num_workers, s.num_groups, s.group_size) == (n, groups, size)
    assert (s.kind, s.device, s.plane_name, s.closed) == ("threads", "cpu", "threads", False)


def test_a_session_says_what_it_is(session):
    s, t = session(4), session(4, 2)
    assert repr(s) == f"Disco session {s.id}: 4 workers · threads · cpu · plane threads"
    assert "4 workers in 2 groups" in repr(t)
    s.shutdown()
    assert repr(s).endswith(" · closed")


@pytest.mark.parametrize("ccl", ["auto", "threads"])
def test_sessions_of_threads_have_the_thread_plane(session, ccl):
    assert session(1, ccl=ccl).plane_name == "threads"


@pytest.mark.parametrize(
    ("kind", "ccl", "text"),
    [
        ("thread", "auto", "kind is 'thread', expected one of threads"),
        ("threads", "mpi", "ccl is 'mpi'; sessions of kind threads can have auto, threads, device, nccl"),
    ],
)
def test_an_impossible_combination_is_refused_with_the_possible_ones(kind, ccl, text):
    with pytest.raises(UsageMistake) as caught:
        check_plane(kind, ccl)
    assert str(caught.value) == text


def test_a_thread_that_cannot_be_started_takes_the_others_down(monkeypatch):
    original = threading.Thread.start
    started = []

    def start(thread):
        if len(started) == 1:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        original(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(disco.errors.LaunchError, match="3 worker threads could not be started: can't start"):
        disco.ThreadedSession(3)
    assert not started[0].is_alive()


def test_a_python_without_its_lock_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    with pytest.raises(disco.errors.LaunchError, match=r"has switched off; start it with `python -X gil=1`"):
        disco.ThreadedSession(1)
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: True, raising=False)
    disco.ThreadedSession(1).shutdown()


# --- ending ----------------------------------------------------------------------------------------


@sizes
def test_after_shutdown_no_thread_is_left(session, n):
    s = session(n)
    s.run("x = 1")
    s.shutdown()
    s.shutdown()
    assert s.closed
    assert workers_of(s) == []
    assert not [worker for session_id, worker in in_use() if session_id == s.id]


def test_shutdown_at_once_interrupts_what_runs(gated, gate):
    s = gated(2)
    gate.open()
    pending = s.run_nowait("gate()\nn = 0\nwhile True:\n    n += 1\n")
    gate.arrived(2)
    s.shutdown(timeout=0)
    with pytest.raises(disco.errors.CellError):
        pending.wait()
    assert workers_of(s) == []


def test_shutdown_leaves_nobody_waiting_for_a_stuck_worker(gated, gate):
    s = gated(2)
    pending = s.run_nowait("if worker_id == 1: gate()")
    gate.arrived()
    s.shutdown(timeout=0)
    with pytest.raises(disco.errors.CellError, match="did not end and was given up"):
        pending.wait()


def test_the_end_waits_for_two_interrupts_of_a_stuck_worker_and_no_longer(gated, gate, monkeypatch):
    s = gated(2)
    s.run_nowait("if worker_id == 1: gate()")
    gate.arrived()
    interrupt, told = s._launcher.interrupt, []

    def noted(through, workers):
        told.append(list(workers))
        interrupt(through, workers)
        until(lambda: len(workers_of(s)) == 1)  # the other one's thread may take its time to end

    monkeypatch.setattr(s._launcher, "interrupt", noted)
    s.shutdown(timeout=0)
    assert len(told) == 2
    assert told[-1] == [1]


def test_leaving_the_context_with_an_exception_raises_that_one():
    def fail():
        with s:
            s.call_packed(int, "no number")
            raise KeyError("mine")

    s = disco.ThreadedSession(2)
    with pytest.raises(KeyError, match="mine"):
        fail()
    assert s.closed


def test_a_session_can_be_closed_inside_its_context():
    with disco.ThreadedSession(2) as s:
        s.shutdown()
    assert s.closed


def test_a_dropped_session_ends_its_threads(session):
    s = disco.ThreadedSession(3)
    threads = workers_of(s)
    del s
    gc.collect()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)


def test_a_session_that_never_began_can_be_dropped():
    disco.Session.__new__(disco.Session).__del__()


def test_the_interpreter_shuts_sessions_down_that_are_left_open():
    code = (
        "import sys\nimport disco_magic as disco\n"
        "class Loud:\n"
        "    def __del__(self): sys.stdout.write('freed\\n')\n"
        "s = disco.ThreadedSession(2)\n"
        "kept = s.call_packed(Loud)\n"
        "s.sync_all()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603 - our own code
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "freed\nfreed\n"


def test_at_exit_all_open_sessions_are_shut_down(session):
    first, second = session(1), session(2)
    current.end_all()
    assert first.closed
    assert second.closed


def test_ctrl_c_at_the_end_of_one_session_leaves_none_of_the_others_open(session, monkeypatch):
    s = [session(1) for _ in range(3)]
    for each in s:
        end = each.end_with_program

        def struck(timeout, end=end):
            end(timeout)
            raise KeyboardInterrupt

        monkeypatch.setattr(each, "end_with_program", struck)
    current.end_all()
    assert [each.closed for each in s] == [True] * 3


def test_a_stuck_worker_that_cannot_be_replaced_any_more_does_not_spoil_the_end(gated, gate, monkeypatch):
    # An interpreter that is ending starts no thread.
    s = gated(1)
    s.run_nowait("gate()")
    gate.arrived()
    stuck = workers_of(s)

    def refuse(thread):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    s.shutdown(timeout=0)
    assert s.closed
    gate.open()
    for thread in stuck:
        thread.join(60)
    assert not any(thread.is_alive() for thread in stuck)
    s._launcher.workers[0].dispose()


# --- again -----------------------------------------------------------------------------------------


def test_a_restarted_session_is_the_same_with_empty_registers(session):
    s = session(3)
    number = s.id
    s.run("x = 1")
    threads = workers_of(s)
    s.restart()
    assert (s.id, s.names(), s.closed) == (number, (), False)
    assert s.run("worker_id").values == [0, 1, 2]
    assert not set(threads) & set(workers_of(s))
    assert disco.session() is s


def test_a_closed_session_can_be_restarted(session):
    s = session(2)
    s.shutdown()
    with pytest.raises(SessionClosed):
        s.sync_all()
    s.restart()
    s.sync_all()


def test_restart_ends_a_busy_cell(gated, gate):
    s = gated(2)
    gate.open()
    pending = s.run_nowait("gate()\nn = 0\nwhile True:\n    n += 1\n")
    gate.arrived(2)
    s.restart()
    assert s.run("worker_id").values == [0, 1]
    with pytest.raises(disco.errors.CellError):
        pending.wait()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_broken_worker_is_lost_and_a_restart_helps(session):
    s = session(2)
    s._sends[1]("no command")  # a bug of ours: nothing a user does gets here
    with pytest.raises(WorkerLost, match="worker 1 is gone: AttributeError"):
        s.sync_all()
    with pytest.raises(WorkerLost, match="restart the session to go on"):
        s.run("1")
    s.restart()
    assert s.run("worker_id").values == [0, 1]


# --- signals ---------------------------------------------------------------------------------------


def test_a_handler_that_c_code_installed_is_left_alone(monkeypatch):
    monkeypatch.setattr(signal, "getsignal", lambda number: None)
    changed = []
    monkeypatch.setattr(signal, "signal", lambda *args: changed.append(args))
    with sigint_to(lambda: None):
        pass
    assert changed == []


@pytest.mark.parametrize("timeout", ["x", -1, float("nan")])
def test_an_impossible_patience_of_shutdown_is_refused_and_ends_nothing(session, timeout):
    s = session(1)
    with pytest.raises(UsageMistake, match="expected a number of seconds"):
        s.shutdown(timeout=timeout)
    assert s.run("1").values == [1]


@pytest.mark.parametrize("timeout", [None, 1e300, float("inf")])
def test_shutdown_may_wait_as_long_as_it_takes(session, timeout):
    s = session(1)
    kept = s.call_packed(int)
    s.shutdown(timeout=timeout)
    assert s.closed
    assert kept.register


def test_ctrl_c_while_shutdown_waits_stops_what_still_works(session):
    s = session(1)
    begun = threading.Semaphore(0)
    s["begun"] = s.call_packed(lambda: begun.release)
    pending = s.run_nowait("begun()\nwhile True:\n    pass")
    begun.acquire()
    stop, asked = s._launcher.stop, []

    def interrupted_once(timeout_s, through):
        asked.append(timeout_s)
        if len(asked) == 1:
            raise KeyboardInterrupt
        return stop(timeout_s, through)

    s._launcher.stop = interrupted_once
    with pytest.raises(KeyboardInterrupt):
        s.shutdown(timeout=None)
    assert asked[1] == 0.0
    assert pending.done()
    assert not any(thread.is_alive() for thread in workers_of(s))
