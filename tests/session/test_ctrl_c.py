"""Ctrl-C, timeouts, and processes that end while a cell runs."""

from __future__ import annotations

import contextvars
import copy
import pickle
import signal
import subprocess
import sys
import threading

import pytest

from disco_magic.errors import SyncTimeout
from disco_magic.launchers.threads import ThreadLauncher
from disco_magic.session import pump
from disco_magic.session.config import Preset
from disco_magic.session.sigint import import_whole
from tests.conftest import until
from tests.session.conftest import interrupt_main
from tests.unfinished import apart

# --- Ctrl-C and time -------------------------------------------------------------------------------


def test_ctrl_c_stops_the_cell_on_all_workers(busy):
    s = busy(2)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(
        KeyboardInterrupt,
        match=r"was stopped on workers \[0-1\]; registers may differ between them\. Where they were: "
        r"workers \[0-1\] are executing Cell \d+\n  worker  doing ",
    ) as caught:
        s.run("n = 0\nif worker_id: send(1, 0)\nelse: recv(1), interrupt_main()\nwhile True:\n    n += 1\n")
    assert sorted(caught.value.result.errors) == [0, 1]
    assert signal.getsignal(signal.SIGINT) is before
    assert s.run("worker_id").values == [0, 1]


def test_ctrl_c_is_not_said_to_have_stopped_who_had_ended_the_cell(busy, here):
    s = busy(3)
    pending = s.run_nowait("while worker_id == 1:\n    here()\n    while True: pass")
    here.arrived(1)
    until(lambda: sorted(s.ledger._expected[pending.seq].missing) == [1])
    pending.stop_soon()
    with pytest.raises(
        KeyboardInterrupt, match=r"was stopped on worker 1, done on workers \[0,2\]; registers"
    ):
        pending.wait()


@pytest.mark.parametrize(
    "kept",
    [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))],  # noqa: S301 - our own bytes
    ids=["copy", "deepcopy", "pickle"],
)
def test_the_error_of_a_cell_that_was_stopped_can_be_copied_without_its_result(busy, kept):
    # Python's own code takes all attributes along, and a result refuses to be copied.
    with pytest.raises(KeyboardInterrupt) as caught:
        busy(2).run("barrier()\nif worker_id == 0: interrupt_main()\nwhile True: pass")
    again = kept(caught.value)
    assert (type(again), str(again)) == (KeyboardInterrupt, str(caught.value))
    assert str(again.diagnosis) == str(caught.value.diagnosis)
    assert not hasattr(again, "result")


CLEANS_UP = """
cleaned = 0
try:
    here()  # who is struck before its `try` has nothing to clean up
    {1}
    while True: pass
{0}:
    for n in range(120):
        time.sleep(0.01)
        cleaned += 1
"""


@pytest.mark.parametrize("how", ["finally", "except KeyboardInterrupt"])
@pytest.mark.parametrize("end", ["ctrl-c", "cancel", "timeout"])
def test_who_cleans_up_is_left_alone(busy, here, how, end):
    # A second strike after 0.35 s cut a checkpoint off that was just being written.
    s = busy(2)
    s.run("import time")
    if end == "ctrl-c":
        with pytest.raises(KeyboardInterrupt, match="was stopped on workers"):
            s.run(CLEANS_UP.format(how, "if worker_id == 0: here.arrived(2), interrupt_main()"))
    else:
        pending = s.run_nowait(CLEANS_UP.format(how, ""))
        here.arrived(2)
        if end == "timeout":
            with pytest.raises(SyncTimeout):
                pending.wait(0, stop=True)
        else:
            pending.cancel()
    assert s.run("cleaned").values == [120, 120]


def test_ctrl_c_pressed_again_ends_cleaning_up(busy):
    s = busy(2)
    with pytest.raises(KeyboardInterrupt, match="was stopped on workers"):
        s.run(
            "import _thread\n"
            "try:\n    barrier()\n    if worker_id == 0: interrupt_main()\n    while True: pass\n"
            "finally:\n    if worker_id == 1: _thread.interrupt_main()\n    while True: pass\n"
        )
    assert s.run("worker_id").values == [0, 1]


def test_ctrl_c_says_which_threads_were_replaced(busy, gate):
    s = busy(2)

    def press():
        gate.arrived()  # from here on it is in C code, where nothing can strike
        interrupt_main()

    pressing = threading.Thread(target=press)
    pressing.start()
    with pytest.raises(
        KeyboardInterrupt,
        match=r"The thread of worker 1 did not end and was replaced by a new one: it is in a call",
    ):
        s.run("if worker_id == 1: gate()")
    pressing.join()
    assert s.run("worker_id").values == [0, 1]


def test_ctrl_c_is_reported_although_the_cell_ends_well_meanwhile(busy):
    s = busy(1)
    with pytest.raises(KeyboardInterrupt):
        s.run(
            "try:\n  interrupt_main()\n  n = 0\n  while True:\n    n += 1\nexcept KeyboardInterrupt:\n  pass"
        )


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


def test_a_cell_that_takes_too_long_is_stopped_and_says_where_it_was(busy, here):
    s = busy(2)
    pending = s.run_nowait("here()\nn = 0\nwhile True:\n    n += 1\n")
    here.arrived(2)
    with pytest.raises(SyncTimeout, match="took longer than 0 s and was stopped; ") as caught:
        pending.wait(0, stop=True)
    assert sorted(caught.value.result.errors) == [0, 1]
    assert [each.worker for each in caught.value.diagnosis.positions] == [0, 1]
    assert s.run("worker_id").values == [0, 1]


def test_a_cell_that_is_quick_enough_is_not_stopped(busy):
    assert busy(2).run("worker_id", timeout=60).values == [0, 1]


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
CELLS = {
    "loop": "begun.release()\nn = 0\nwhile True:\n    n += 1",
    "stuck": "begun.release()\nimport threading\nthreading.Lock().acquire() and threading.Event().wait()",
    "collective": "begun.release()\nif worker_id: allreduce(1.0)\nwhile True: pass",
    "swallowing": "begun.release()\nwhile True:\n    try: n = 1\n    except BaseException: pass",
}


# What calls do, and the other ends, is in tests/surface/test_ends.py: a process takes a second to begin.
@pytest.mark.parametrize(
    ("cell", "end"),
    [
        ("loop", "raise SystemExit(0)"),
        ("stuck", "del session"),
        ("collective", ""),
        ("swallowing", ""),
        ("swallowing", "session.shutdown(timeout=0)"),
    ],
)
def test_a_process_with_a_busy_session_ends_cleanly(cell, end):
    code = BUSY.format(cell=CELLS[cell], end=end)
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - our own code
    said, besides = apart(done.stderr)
    assert (done.returncode, besides) == (0, "")
    assert len(said) == (end in ("", "raise SystemExit(0)"))


class Interrupting:
    """A scope during whose making Ctrl-C comes: after the user's line began, before the cell is sent."""

    stdout: dict[int, str] = {}  # noqa: RUF012 - nothing is written to it

    def context(self, worker):
        if worker == 1:
            signal.raise_signal(signal.SIGINT)
        return contextvars.copy_context()

    def render(self, value):
        return {"text/plain": repr(value)}

    def ended(self, worker):
        pass

    def skipped(self, worker):
        pass

    def abandoned(self, worker):
        pass


def test_ctrl_c_before_the_cell_was_sent_stops_it_on_all_workers(busy):
    # Between sending and waiting a KeyboardInterrupt once left the cell running.
    s = busy(3)
    with pytest.raises(KeyboardInterrupt, match="was stopped on workers"):
        s.run("n = 0\nwhile True:\n    n += 1\n", scope=Interrupting())
    assert s.run("allreduce(1)").values == [3, 3, 3]


def test_looking_whether_a_cell_is_done_does_not_swallow_ctrl_c(busy, here):
    s = busy(1)
    with pump.attentive() as inbox:
        pending = s.run_nowait("here()\nn = 0\nwhile True:\n    n += 1\n", inbox=inbox)
        here.arrived()
        signal.raise_signal(signal.SIGINT)
        assert not pending.done()
        with pytest.raises(KeyboardInterrupt):
            pending.wait()


def test_ctrl_c_is_raised_in_the_main_thread_whichever_thread_took_it_out_of_the_inbox(session, background):
    # Both wait for one handle: the other thread dealt with it, the main one was told of failed workers.
    s = session(2)
    pending = s.run_nowait("n = 0\nwhile True:\n    n += 1")
    other = background(pending.wait)
    pending._verdict.inbox.put(pump.INTERRUPT)
    with pytest.raises(KeyboardInterrupt):
        other()
    with pytest.raises(KeyboardInterrupt):
        pending.wait()


@pytest.mark.parametrize(("owner", "name"), [(ThreadLauncher, "stop"), (Preset, "launcher")])
def test_an_interrupted_restart_leaves_the_session_with_new_workers(session, monkeypatch, owner, name):
    s = session(3)
    s.run("x = 1")
    whole = getattr(owner, name)

    def struck(*args):
        monkeypatch.undo()
        signal.raise_signal(signal.SIGINT)
        return whole(*args)

    monkeypatch.setattr(owner, name, struck)
    with pytest.raises(KeyboardInterrupt):
        s.restart()
    assert not s.closed
    assert s.names() == ()
    assert s.run("worker_id, num_workers").values == [(worker, 3) for worker in range(3)]


def test_a_module_that_must_be_imported_whole_is_and_ctrl_c_comes_after_it(tmp_path, monkeypatch):
    (tmp_path / "imported_once.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nfor _ in range(1000): pass\ndone = True"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(KeyboardInterrupt, match="stopped before anything was sent"):
        import_whole("imported_once")
    assert sys.modules.pop("imported_once").done
