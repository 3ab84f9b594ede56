"""A restart in another thread, between two steps of a call: it touches nothing of the next life."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from functools import partial

import numpy as np
import pytest

from disco_magic.errors import CellError, SessionClosed, UsageMistake, WorkerError
from disco_magic.launchers.threads import ThreadLauncher
from tests.conftest import until
from tests.unfinished import apart


def old():
    return "of the old life"


def new():
    return "of the new life"


class Restarting:
    """An argument whose copy is made in the moment in which another thread restarts the session."""

    def __init__(self, session):
        self.session = session
        self.ref = None

    def __deepcopy__(self, memo):
        self.session.restart()
        self.ref = self.session.call_packed(new)
        return 1

    def __iter__(self):
        self.__deepcopy__({})
        return iter([0])


WAYS = {
    "call": lambda s, x, now: s.call_packed(lambda a, b: a, x, now),
    "call on one worker": lambda s, x, now: s.call_packed(lambda a, b: a, x, now, workers=[0]),
    "get": lambda s, x, now: s.fetch(x, now),
    "set": lambda s, x, now: s.set_register(x, 0, now),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_reference_of_the_old_life_never_reaches_a_register_of_the_new_one(session, way):
    # Whether it is the session's own was checked before the restart, the command was sent after it.
    s = session(2)
    x = s.call_packed(old)
    s.sync_all()
    now = Restarting(s)
    with pytest.raises(SessionClosed, match="was restarted meanwhile; nothing was sent"):
        WAYS[way](s, x, now)
    assert now.ref.get_all() == ["of the new life"] * 2


class Late:
    """A ledger that another thread's restart overtakes after its number was read."""

    def __init__(self, session):
        self.session, self.ledger = session, session.ledger

    @property
    def seq(self):
        seq = self.ledger.seq
        self.session.ledger = self.ledger
        self.session.restart()
        return seq


def test_an_interrupt_that_a_restart_overtakes_skips_nothing_of_the_new_life(session):
    s = session(1)
    for _ in range(100):
        s.call_packed(int)
    s.sync_all()
    s.ledger = Late(s)
    s.interrupt()
    assert [s.call_packed(int, 7).get(0) for _ in range(3)] == [7] * 3


def test_stopping_a_cell_of_the_old_life_asks_nothing_of_the_new_launcher(session):
    s = session(1)
    pending = s.run_nowait("1")
    pending.wait()
    s.restart()
    asked = []
    s._launcher.interrupt = s._launcher.replace_stuck = lambda *args: asked.append(args) or []
    s.interrupt_through(pending.seq, (0,), pending._verdict.cell.life)
    assert s.replace_stuck((0,), pending._verdict.cell.life) == []
    assert asked == []
    del s._launcher.interrupt, s._launcher.replace_stuck


# --- whose failure it is ------------------------------------------------------------------------------


def boom():
    raise ValueError("boom")


@pytest.mark.parametrize("way", ["from", "to"])
def test_a_copy_that_cannot_be_made_raises_although_the_failure_was_raised_before(session, way):
    # It waited with a sync, which raises what was not raised before: the caller went on with zeros.
    s = session(2)
    bad = s.call_packed(boom)
    with pytest.raises(Exception, match="boom"):
        s.sync_all()
    host = np.zeros(3)
    copy = {"from": s.copy_from_worker_0, "to": s.copy_to_worker_0}[way]
    with pytest.raises(Exception, match="boom"):
        copy(host, bad)


def test_an_import_that_fails_raises_although_another_thread_raised_the_failure(session):
    # It waited with a sync: the other thread's wait had taken the failure.
    s = session(2)
    take = s.take_failures
    s.take_failures = lambda further=(): take() and take(further)  # as if another thread had been there
    with pytest.raises(WorkerError, match="no_such_module_anywhere"):
        s.import_python_module("no_such_module_anywhere")
    del s.take_failures


# --- ends and beginnings in several threads -----------------------------------------------------------


@pytest.mark.leaves_threads("the first life's threads end when their gate opens")
def test_two_threads_that_restart_at_once_leave_one_life(gated, gate, background):
    # Both shut the old life down, then both began a new one: the channels of one, the ledger of the other.
    s = gated(2)
    s.run_nowait("gate()")
    gate.arrived(2)
    restarts = [background(s.restart) for _ in range(3)]
    for done in restarts:
        done()
    gate.open()
    assert s.run("allreduce(1)", timeout=60).values == [2, 2]
    alive = [t for t in threading.enumerate() if t.name.startswith(f"disco-{s.id}-") and t.is_alive()]
    assert set(s._launcher._threads) <= set(alive)


def test_a_shutdown_that_a_restart_overtakes_ends_nothing_of_the_new_life(session, background, gate):
    s = session(2)
    old = s._launcher
    stop = old.stop
    old.stop = lambda *args: (gate("stopping"), stop(*args))[1]
    ending = background(s.shutdown)
    gate.arrived()
    old.stop = stop
    s.restart()
    gate.open()
    ending()
    assert not s.closed
    assert s.run("allreduce(1)", timeout=60).values == [2, 2]


def test_a_shutdown_that_is_struck_twice_can_be_asked_for_again(session):
    s = session(2)
    stop = s._launcher.stop

    def struck(*args):
        raise KeyboardInterrupt

    s._launcher.stop = struck
    with pytest.raises(KeyboardInterrupt):
        s.shutdown()
    s._launcher.stop = stop
    s.shutdown()
    assert not any(thread.is_alive() for thread in s._launcher._threads)


def test_a_timeline_meanwhile_has_all_workers(session, monkeypatch):
    s = session(3)
    seen = []

    def start(self, deliver):
        seen.append(s.timeline().num_workers)
        made = first(self, deliver)
        seen.append(s.timeline().num_workers)
        return made

    first = ThreadLauncher.start
    monkeypatch.setattr(ThreadLauncher, "start", start)
    s.restart()
    assert seen == [3, 3]


def test_ctrl_c_while_workers_are_started_leaves_none_of_them(session, monkeypatch):
    # "All workers or none": a KeyboardInterrupt left those that had been started, and nobody could end them.
    spawn = ThreadLauncher._spawn
    made = []

    def struck(self, worker, lane):
        made.append(spawn(self, worker, lane))
        if len(made) == 2:
            signal.raise_signal(signal.SIGINT)
        return made[-1]

    monkeypatch.setattr(ThreadLauncher, "_spawn", struck)
    with pytest.raises(KeyboardInterrupt, match="while the workers were started"):
        session(3)
    for thread in made:
        thread.join(60)
    assert len(made) == 3
    assert not any(thread.is_alive() for thread in made)


def test_a_reference_of_the_old_life_cannot_become_a_function_of_the_new_one(session):
    s = session(1)
    d = s.call_packed(lambda: old)
    s.sync_all()
    s.restart()
    mine = s.call_packed(lambda: new)
    with pytest.raises(SessionClosed, match="is from before the restart"):
        d.as_function("f")
    assert mine.as_function("g")().get(0) == "of the new life"
    with pytest.raises(UsageMistake, match="has given its register to another reference"):
        mine.get(0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("ask", ["wait", "cancel", "interrupt"])
def test_in_a_forked_child_a_cell_of_the_parent_is_not_waited_for(gated, gate, ask):
    s = gated(2)
    pending = s.run_nowait("gate()")
    gate.arrived(2)
    child = os.fork()
    if child == 0:
        try:
            (s.interrupt if ask == "interrupt" else getattr(pending, ask))()
        except SessionClosed as error:
            os._exit(0 if "fork" in str(error) else 2)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    gate.open()
    pending.wait()


WAITS_AT_EXIT = """
import threading
from concurrent.futures import ThreadPoolExecutor
import disco_magic as disco
session = disco.ThreadedSession(2)
pending = session.run_nowait("n = 0\\nwhile True:\\n    n += 1")
while [each.state for each in session.doctor().positions] != ["executing"] * 2:
    pass
def wait():
    try:
        {wait}
    except Exception as error:
        print(type(error).__name__)
{start}
"""


@pytest.mark.parametrize(
    ("start", "wait"),
    [
        ("threading.Thread(target=wait).start()", "pending.wait()"),
        ("ThreadPoolExecutor(1).submit(wait)", "session.sync_all()"),
    ],
    ids=["thread", "pool"],
)
def test_a_thread_that_waits_for_an_endless_cell_does_not_keep_the_process_alive(wait, start):
    # Python joins the threads that are no daemons before it calls what `atexit` knows.
    ended = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-c", WAITS_AT_EXIT.format(wait=wait, start=start)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    (said,), besides = apart(ended.stderr)
    assert (ended.returncode, besides) == (0, "")
    assert said.startswith("workers [0-1] are executing Cell 1\n")
    assert ended.stdout.strip() in ("CellError", "WorkerError", "SessionClosed", "")


def test_an_interrupt_while_the_workers_are_being_made_concerns_those_that_are_there(session, monkeypatch):
    s, asked = session(3), []
    start = ThreadLauncher.start

    def slowly(launcher, deliver):
        s.interrupt()  # as another thread would: the session knows its new launcher already
        asked.append(len(launcher.workers))
        return start(launcher, deliver)

    monkeypatch.setattr(ThreadLauncher, "start", slowly)
    s.restart()
    assert asked == [0]
    assert s.run("allreduce(1)").values == [3, 3, 3]


def fail():
    raise ZeroDivisionError


def test_a_handle_of_the_old_life_takes_no_failure_of_the_new_one(session):
    s = session(2)
    bad, good = s.run_nowait("1/0"), s.run_nowait("7")
    s.sync_all()  # they have ended, and nobody has looked
    s.restart()
    sent = [s.call_packed(fail), s.call_packed(fail)]  # with the same numbers
    until(lambda: s.ledger.has_failures)
    with pytest.raises(CellError, match="ZeroDivisionError: division") as caught:
        bad.wait()
    assert not getattr(caught.value, "__notes__", [])
    assert good.wait().errors == {}
    with pytest.raises(WorkerError, match="call fail failed"):
        s.sync_all()
    assert len(sent) == 2


@pytest.mark.parametrize("end", ["restart", "shutdown"])
@pytest.mark.parametrize("way", ["sync_all", "sync_worker_0", "await_all"])
def test_a_wait_is_told_that_what_it_waits_for_was_cut_off(gated, gate, background, end, way):
    s = gated(2)
    s.call_packed(gate, 0)
    s.call_packed(gate, 1)
    wait = partial(s.await_all, None) if way == "await_all" else getattr(s, way)
    waiting = background(wait)
    until(lambda: s.ledger.expecting)
    ending = background(partial(s.shutdown, 0.0) if end == "shutdown" else s.restart)
    until(lambda: s.closed)
    gate.open()
    ending()
    with pytest.raises((WorkerError, SessionClosed)):
        waiting()


def test_a_wait_for_what_is_done_in_spite_of_the_end_returns(gated, gate, background):
    s = gated(2)
    done = s.run_nowait("gate(worker_id); done = True")
    waiting = background(s.sync_all)
    until(lambda: len(s.ledger._expected) == 2)  # the cell is waited for from the beginning
    ending = background(s.shutdown)
    until(lambda: s.closed)
    gate.open()
    ending()
    waiting()
    assert done.wait().errors == {}


def test_a_restart_logs_what_nobody_has_raised_as_the_end_does(session, caplog):
    s = session(2)
    s.call_packed(fail)
    until(lambda: len(s.ledger.unraised) == 2)
    s.restart()
    assert "never raised: call fail failed on worker 0 (and 1 other)" in caplog.text
    s.sync_all()
