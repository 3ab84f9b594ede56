"""What fails is raised once, at the next wait, the origin first."""

from __future__ import annotations

import copy
import subprocess
import sys
import threading

import pytest

import disco_magic as disco
from disco_magic.errors import WorkerError
from tests.conftest import DEADLINE_S, until
from tests.session.conftest import fail_on, who


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("wait", [lambda s: s.run("1"), lambda s: s["known"].get()], ids=["cell", "name"])
def test_a_failure_is_raised_once_by_the_next_cell_and_by_who_reads_a_name(session, n, wait):
    s = session(n)
    s.run("known = 1")
    good = s.call_packed(who)
    s.call_packed(fail_on, 0)
    with pytest.raises(WorkerError, match="fail_on failed on worker 0") as caught:
        wait(s)
    assert caught.value.origin.summary == "ValueError: boom"
    s.sync_all()
    assert good.get_all() == list(range(n))


def test_a_failure_that_followed_another_one_is_told_with_it(session):
    s = session(1)
    s.call_packed(fail_on, 0)
    s.call_packed(int, "no number")
    with pytest.raises(WorkerError) as caught:
        s.sync_all()
    assert str(caught.value).splitlines()[:3] == [
        "call fail_on failed on worker 0",
        "[0] ValueError: boom",
        "also, call int failed on worker 0: ValueError: invalid literal for int() with base 10: 'no number'",
    ]
    assert [failure.command for failure in caught.value.others] == ["call int"]
    copied = copy.copy(caught.value)
    assert str(copied) == str(caught.value)
    s.sync_all()


def test_set_heals_a_poisoned_register(session):
    s = session(2)
    ref = s.call_packed(fail_on, 1)
    with pytest.raises(WorkerError):
        s.sync_all()
    ref.set(1, "healed")
    assert ref.get_all() == ["fine", "healed"]


def test_a_command_that_fails_on_all_is_raised_once_by_who_waits_for_one(session):
    s = session(3)
    with pytest.raises(WorkerError):
        s.call_packed(int, "no number").get(1)
    assert s.call_packed(who).get_all() == [0, 1, 2]
    s.sync_all()


def test_what_failed_before_a_cell_that_was_stopped_is_raised_by_the_next_wait(session):
    s = session(2)
    s.call_packed(fail_on, 1)
    endless = s.run_nowait("while True:\n    n = 1")
    with pytest.raises(disco.errors.SyncTimeout):
        endless.wait(0.1, stop=True)
    with pytest.raises(WorkerError, match="call fail_on failed on worker 1"):
        s.sync_all()
    s.sync_all()


def test_only_the_first_failure_of_each_worker_is_kept(session):
    s = session(2)
    for text in ("first", "second"):
        s.call_packed(fail_on, 1, RuntimeError)
        s.call_packed(int, text)
    with pytest.raises(WorkerError) as caught:
        s.sync_all()
    assert sorted(caught.value.failures) == [0, 1]
    assert isinstance(caught.value.failures[1].exception, RuntimeError)
    s.sync_all()


def test_a_traceback_shows_the_users_lines_and_none_of_the_runtimes(session):
    s = session(1)
    s.call_packed(fail_on, 0)
    with pytest.raises(WorkerError) as caught:
        s.sync_all()
    text = caught.value.origin.traceback_text
    assert "in fail_on" in text
    assert "worker.py" not in text


def test_a_collectives_error_ends_at_the_line_that_called_it(session):
    s = session(2)
    with pytest.raises(disco.errors.CellError) as caught:
        s.run("def f():\n    allreduce([1.0, 2.0][: worker_id + 1])\nf()")
    text = caught.value.origin.traceback_text
    assert "line 2, in f" in text
    assert "planes" not in text


@pytest.mark.parametrize(
    ("last", "error"), [("barrier()", "PlaneMismatch"), ("recv(1) if worker_id == 2 else 0", "PlaneMismatch")]
)
def test_what_led_to_a_collective_that_nobody_joins_is_told(session, last, error):
    s = session(4)
    with pytest.raises(WorkerError) as caught:
        s.run(
            f"try:\n    if worker_id == 2: raise RuntimeError('boom')\n    allreduce(1)\nfinally:\n    {last}"
        )
    assert caught.value.origin.worker == 2
    assert caught.value.origin.summary.startswith(error)
    assert caught.value.origin.summary.endswith(" - while handling RuntimeError: boom")
    assert "RuntimeError: boom\n\nDuring handling of the above exception" in str(caught.value)


def test_who_comes_later_to_a_command_that_was_raised_says_nothing_new(session):
    s, door = session(2), threading.Event()
    called = s.call_packed(lambda: late(door))
    with pytest.raises(WorkerError, match="nothing for 0"):
        called.get(0)
    door.set()
    s.sync_all()
    assert s.run("1").values == [1, 1]


def late(door):
    number = disco.worker().id
    assert number == 0 or door.wait(60)
    raise KeyError(f"nothing for {number}")


# --- when nothing can raise it any more ------------------------------------------------------------------


def warnings_of(caplog):
    return [record.getMessage() for record in caplog.records if record.name == "disco_magic"]


def test_what_nobody_has_raised_is_logged_when_the_session_ends(caplog):
    s = disco.ThreadedSession(2, devices="cpu")
    s.call_packed(fail_on, 1)
    handle = s.run_nowait("1 / (1 - worker_id)\n{}['key']", workers=[0])
    s.shutdown(timeout=None)
    (said,) = warnings_of(caplog)
    assert said.startswith("session ended with failures that were never raised: ")
    assert "[1] call fail_on: ValueError: boom" in said
    assert "[0] KeyError: 'key'" in said
    with pytest.raises(WorkerError, match="KeyError"):  # who has its handle is told all the same
        handle.wait()
    s.shutdown()
    assert len(warnings_of(caplog)) == 1


@pytest.mark.parametrize("end", ["told", "stopped"])
def test_nothing_is_logged_of_what_was_raised_or_stopped(caplog, end):
    s = disco.ThreadedSession(2, devices="cpu")
    if end == "stopped":
        s.run_nowait("while True: pass")
    else:
        s.call_packed(fail_on, 1)
    if end == "told":
        with pytest.raises(WorkerError):
            s.sync_all()
    s.shutdown(timeout=0.0)
    assert warnings_of(caplog) == []


def test_a_block_that_an_error_leaves_logs_what_may_have_led_to_it(caplog):
    def work():
        with disco.ThreadedSession(2, devices="cpu") as s:
            s.call_packed(fail_on, 1)
            s.run_nowait("while True: pass", workers=[0])
            until(lambda: s.ledger.has_failures)
            raise KeyError

    with pytest.raises(KeyError):
        work()
    (said,) = warnings_of(caplog)
    assert "ValueError: boom" in said
    assert "while True" not in said


def test_nothing_is_logged_of_those_who_were_let_go_because_another_one_was_stopped(caplog, gate):
    s = disco.ThreadedSession(2, devices="cpu", extras=lambda _: {"gate": gate})
    handle = s.run_nowait("if worker_id: allreduce(1)\nelse:\n    gate()\n    while True: pass")
    gate.arrived()
    s.interrupt([0])
    gate.open()
    until(handle.done)
    s.shutdown()
    assert warnings_of(caplog) == []


def test_what_failed_after_a_call_that_was_stopped_is_logged_alone(caplog, gate):
    def spin():
        gate()
        while True:
            pass

    s = disco.ThreadedSession(1, devices="cpu")
    s.call_packed(spin)
    gate.arrived()
    s.interrupt()
    gate.open()
    s.call_packed(fail_on, 0)
    until(lambda: len(s.ledger._others) == 1)
    s.shutdown()
    (said,) = warnings_of(caplog)
    assert "never raised: call fail_on failed on worker 0\n" in said
    assert "ValueError: boom" in said
    assert "WorkerInterrupt" not in said


def program(tmp_path, *lines):
    """Run a program of its own; what it printed, and what it wrote to stderr."""
    script = tmp_path / "script.py"
    script.write_text(
        "\n".join(("import disco_magic as disco", "s = disco.ThreadedSession(2, devices='cpu')", *lines))
    )
    command = [sys.executable, script]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=DEADLINE_S)  # noqa: S603 - our own
    return ran.stdout, ran.stderr


def test_a_program_that_ends_without_a_wait_says_on_stderr_what_has_failed(tmp_path):
    _, said = program(tmp_path, "done = s.run_nowait('1 / worker_id')", "while not done.done(): pass")
    assert "never raised: Cell 1 failed on worker 0\n[0] ZeroDivisionError: " in said


def test_what_was_sent_a_moment_before_the_end_of_the_program_is_executed(tmp_path):
    # A worker of a busy machine may not run within the tenth of a second that the end waits.
    patient = "from disco_magic.session import current\ncurrent._AT_EXIT_S = 60"
    printed, said = program(tmp_path, patient, "s.call_packed(print, 'last words')")
    assert printed.count("last words") == 2
    assert said == ""


def test_a_program_that_ends_does_not_wait_for_what_workers_have_given_to_a_pool(tmp_path):
    lines = (
        "s.run('from concurrent.futures import ThreadPoolExecutor as P\\nimport time')",
        "s.run('p = P(1); p.submit(time.sleep, 300)')",
        "s.run('def f(): P(1).submit(time.sleep, 300)\\nf()')",
    )
    assert program(tmp_path, *lines) == ("", "")


def test_a_program_that_ends_in_the_middle_of_a_cell_says_what_it_stops(tmp_path):
    lines = (
        "h = s.run_nowait('while worker_id:\\n    pass')",
        "s.call_packed(print, 'late', workers=[1])",
        "while [each.state for each in s.doctor().positions] != ['idle', 'executing']: pass",
    )
    printed, said = program(tmp_path, *lines)
    assert printed == ""
    begin, _, first, second, advice, _ = said.split("\n")
    assert begin == (
        "the program has ended, and what was not done by then is stopped: "
        "worker 1 is executing Cell 1, the others are idle"
    ), said
    assert first.split() == ["[0]", "idle"], said
    assert second.split()[:6] == ["[1]", "executing", "Cell", "1", "Cell", "1,"], said
    assert "sync_all() waits for it" in advice


def test_a_shutdown_that_has_waited_long_enough_says_what_it_stops(caplog):
    s = disco.ThreadedSession(2, devices="cpu")
    s.run_nowait("while True: pass")
    until(lambda: [each.state for each in s.doctor().positions] == ["executing"] * 2)
    s.shutdown(timeout=0.05)
    (said,) = warnings_of(caplog)
    assert said.startswith(
        "shutdown has waited for 0.05 s, and what was not done by then is stopped: workers [0-1]"
    )


def test_workers_that_have_done_everything_but_end_slowly_are_no_unfinished_work(caplog, gate):
    class Slow:
        def __del__(self):
            gate()

    s = disco.ThreadedSession(2, devices="cpu", extras=lambda _: {"Slow": Slow})
    s.run("if worker_id: kept = Slow()")
    s.shutdown(timeout=0.05)
    gate.open()
    assert warnings_of(caplog) == []
