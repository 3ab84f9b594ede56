"""Cells that fail, alone or in a collective."""

from __future__ import annotations

import linecache
import os
import re
import subprocess
import sys
from collections import deque
from pathlib import Path

import pytest

import disco_magic as disco
from disco_magic.core.history import history_of
from disco_magic.errors import CellError, PlaneMismatch
from disco_magic.functions.execution import cells
from disco_magic.functions.execution.cells import compile_cell

# --- errors ----------------------------------------------------------------------------------------


def test_an_exception_names_cell_line_and_worker(session):
    with pytest.raises(CellError) as caught:
        session(3).run(compile_cell("x = 1\nif worker_id == 1:\n    1 / 0\nx", label="Cell In[7]"))
    error = caught.value
    assert list(error.failures) == [1]
    assert str(error).startswith("Cell In[7] failed on worker 1\n[1] ZeroDivisionError: division by zero\n")
    assert "line 3, in <module>\n    1 / 0" in error.origin.traceback_text


def test_a_worker_that_receives_from_itself_what_it_has_not_sent_is_told(session):
    s = session(2)
    with pytest.raises(CellError, match=r"worker 0 waits for itself in recv from worker 0 at .* line 1"):
        s.run("if worker_id == 0: recv(0)")


@pytest.mark.parametrize("end", ["", "\n", "\n# more"])
def test_what_went_wrong_in_a_line_is_pointed_at(session, end):
    s = session(1)
    with pytest.raises(CellError) as caught:
        s.run(f"a = 1\nb = a + unknown(3){end}")
    assert "    b = a + unknown(3)\n            ^^^^^^^\n" in str(caught.value)


def test_an_errors_result_has_what_there_is(session):
    with pytest.raises(CellError) as caught:
        session(3).run("if worker_id == 1: 1 / 0\nworker_id")
    result = caught.value.result
    assert list(result.errors) == [1]
    assert (result[0], result[2]) == (0, 2)
    assert repr(result) == "[0] 0\n[2] 2\n[1] ZeroDivisionError: division by zero"
    assert [workers for workers, _ in result.groups()] == [(0,), (2,)]
    with pytest.raises(disco.errors.WorkerError, match="division by zero"):
        result[1]


def test_a_failure_before_the_cell_is_raised_by_it_with_its_result(session):
    s = session(2)
    s.call_packed(int, "no number", workers=[1])
    with pytest.raises(disco.errors.WorkerError, match="call int failed on worker 1") as caught:
        s.run("worker_id")
    assert not isinstance(caught.value, CellError)
    assert caught.value.result.values == [0, 1]


def test_a_failing_cell_after_a_failing_call_raises_both_per_worker(session):
    s = session(2)
    s.call_packed(int, "no number", workers=[1])
    with pytest.raises(CellError) as caught:
        s.run("if worker_id == 0: 1 / 0")
    assert {w: f.summary.split(":")[0] for w, f in caught.value.failures.items()} == {
        0: "ZeroDivisionError",
        1: "ValueError",
    }


def test_how_long_a_failed_cell_took_is_known(session):
    with pytest.raises(CellError) as caught:
        session(1).run("1 / 0")
    assert caught.value.result.elapsed[0] > 0


# --- collectives in cells --------------------------------------------------------------------------


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_collectives_stay_in_the_group_unless_told(session, groups):
    s = session(6, groups)
    size = 6 // groups
    result = s.run("(int(allreduce(worker_id)), int(allreduce(worker_id, in_group=False)))")
    sums = [sum(range(w // size * size, w // size * size + size)) for w in range(6)]
    assert result.values == [(total, 15) for total in sums]


def test_a_collective_on_a_subset_of_the_workers_is_refused(session):
    s = session(3)
    with pytest.raises(CellError) as caught:
        s.run("allreduce(1.0)", workers=[0, 1])
    assert all("sent to workers [0-1] only" in str(f.exception) for f in caught.value.failures.values())
    assert s.run("allreduce(1)").values == [3, 3, 3]


def test_a_whole_group_is_a_subset_that_can_call_collectives(session):
    assert session(4, 2).run("allreduce(worker_id)", workers=[2, 3]).values == [5, 5]


@pytest.mark.parametrize("n", [2, 3, 4])
def test_a_mismatch_raises_everywhere_with_the_lines_of_the_cell(session, n):
    s = session(n)
    with pytest.raises(CellError) as caught:
        s.run(compile_cell("if worker_id:\n    allreduce(1.0)\nelse:\n    barrier()", label="Cell In[7]"))
    assert sorted(caught.value.failures) == list(range(n))
    for failure in caught.value.failures.values():
        assert isinstance(failure.exception, PlaneMismatch)
        assert "Cell In[7], line 2" in str(failure.exception)
        assert "Cell In[7], line 4" in str(failure.exception)


def test_an_unread_message_is_the_receivers_error(session):
    s = session(2)
    with pytest.raises(CellError, match="worker 1 finished without receiving") as caught:
        s.run("if worker_id == 0: send(np.ones(3), 1)\nbarrier()")
    assert list(caught.value.failures) == [1]
    assert "each send needs a recv on worker 1 in the same command" in str(caught.value)
    assert s.run("if worker_id == 0: send(5, 1)\nint(recv(0)) if worker_id else None").values == [None, 5]


def test_an_unread_message_is_told_with_the_number_of_those_that_were_received_before(session):
    # In a loop, the line of the send is the same at every step.
    s = session(3)
    sends = "if worker_id < 2:\n    for i in range(5): send(i, 2)\n"
    code = f"{sends}else:\n    for i in range(3): recv(0)\n    recv(1)"
    with pytest.raises(CellError, match="worker 2 finished without receiving") as caught:
        s.run(code)
    assert "; received before: 3 from worker 0, 1 from worker 1 - each send needs a recv" in str(caught.value)
    with pytest.raises(CellError, match="worker 2 finished without receiving") as caught:
        s.run("if worker_id == 0: send(np.ones(3), 2)\nbarrier()")
    assert "received before" not in str(caught.value)


def test_messages_received_from_workers_of_which_none_is_unread_are_told_after_the_others(session):
    code = "if worker_id < 2:\n    for i in range(2 + worker_id): send(i, 2)\nelse:\n    "
    with pytest.raises(CellError, match="worker 2 finished without receiving") as caught:
        session(3).run(f"{code}for source in 0, 1, 0, 1: recv(source)")
    assert "; received before: 2 from worker 1, 2 from worker 0 - " in str(caught.value)


ODD = """
class Odd(Exception):
    @property
    def __class__(self):
        raise ValueError("asked for its class")
class OddText(str):
    def splitlines(self, *_): return []
    def strip(self, *_): return self
class OddWords(Exception):
    def __str__(self): return OddText("boom")
"""


@pytest.mark.parametrize("kind", ["Odd", "OddWords"])
def test_an_exception_that_answers_oddly_is_told_and_costs_no_worker(session, kind):
    s = session(3)
    s.run(ODD)
    with pytest.raises(CellError, match=kind):
        s.run(f"raise {kind}()")
    with pytest.raises(CellError, match=kind) as caught:
        s.run(f"if worker_id == 1: raise {kind}()\nallreduce(1)")
    assert caught.value.origin.worker == 1
    assert s.run("int(allreduce(1))").values == [3] * 3


# --- in a user's own tests -----------------------------------------------------------------------------

USERS_TESTS = """
import disco_magic as disco
import pytest

def fail(x):
    raise ValueError("boom")

@pytest.fixture
def s():
    with disco.ThreadedSession(2, devices="cpu") as session:
        yield session

def test_a_cell(s):
    s.run("1 / 0")

def test_a_handle(s):
    s.run_nowait("1 / 0").wait()

def test_a_value(s):
    s.call_packed(fail, 1).get_all()

def test_a_wait(s):
    s.call_packed(fail, 1)
    s.sync_all()
"""


def test_frames_of_ours_do_not_stand_in_the_report_of_a_user_s_failing_test(tmp_path):
    (tmp_path / "test_mine.py").write_text(USERS_TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", "test_mine.py"]
    command += ["-c", os.devnull, "--rootdir", str(tmp_path)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    ran = subprocess.run(  # noqa: S603 - our own
        command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment
    )
    assert "4 failed" in ran.stdout, ran.stdout + ran.stderr
    frames = re.findall(r"^(\S+\.py):\d+", ran.stdout, re.MULTILINE)
    assert set(frames) == {"test_mine.py"}
    assert "ZeroDivisionError: division by zero" in ran.stdout


@pytest.mark.parametrize(
    "awaited", ["asyncio.gather(fail(), fail())", "asyncio.create_task(fail())", "fail()"]
)
def test_a_task_that_fails_is_told_by_the_user_s_lines_alone(session, awaited):
    cell = f"import asyncio\nasync def fail():\n    await asyncio.sleep(0)\n    1 / 0\nawait {awaited}"
    with pytest.raises(CellError) as caught:
        session(1).run(cell)
    lines = re.findall(r'File "(.*)", line (\d+)', caught.value.origin.traceback_text)
    assert [number for _, number in lines] == ["5", "4"], lines
    assert len({name for name, _ in lines}) == 1


EXTRA = "if worker_id == 0:\n    allreduce(1)\nfor step in range(3):\n    allreduce(1)\n"


def test_a_call_too_much_is_told_by_where_calls_met_at_different_lines(session):
    s = session(3)
    with pytest.raises(CellError) as caught:
        s.run(EXTRA)
    cell = caught.value.origin.command
    (note,) = caught.value.__notes__
    lines = f"worker 0 at {cell}, line 2, workers [1-2] at {cell}, line 4"
    told = "collective calls: worker 0 made 4, workers [1-2] made 3; call 1 met at different lines"
    assert note == f"{told}: {lines}"


def test_a_mismatch_that_comes_of_an_earlier_call_says_where_that_was(session):
    s = session(2)
    with pytest.raises(CellError) as caught:
        s.run("if worker_id:\n    allreduce(1)\nallreduce(1)\nallreduce(1)\nallgather(1)")
    cell = caught.value.origin.command
    (note,) = caught.value.__notes__
    lines = f"worker 0 at {cell}, line 3, worker 1 at {cell}, line 2"
    assert note == f"collective calls: call 1 met at different lines: {lines}"


@pytest.mark.parametrize(
    "cell",
    [
        "if worker_id: barrier()",
        "if worker_id == 0:\n    broadcast(1)\nelse:\n    broadcast(None)\nallreduce(np.ones(2 + worker_id))",
        "allreduce(1)\nallreduce(np.ones(2 + worker_id))",
        "if worker_id:\n    allreduce(1)\nelse:\n    allreduce(1)\n1 / 0 if worker_id else barrier()",
        "1 / 0",
    ],
)
def test_other_errors_have_no_such_note(session, cell):
    with pytest.raises(CellError) as caught:
        session(2).run(cell)
    assert not hasattr(caught.value, "__notes__")


SWALLOWS = """
for step in range(3):
    try:
        if worker_id == 1 and step == 2:
            raise ValueError("bad shard")
        allreduce(1)
    except Exception:
        pass
"""


def test_who_catches_that_a_collective_could_not_be_carried_out_is_told(session):
    s = session(3)
    result = s.run(SWALLOWS)
    assert sorted(result.caught) == [0, 2]
    ((line, workers),) = result.caught_by().items()
    assert workers == [0, 2]
    assert line.startswith("PlaneAborted at Cell ")
    assert ", line 6, and went on: worker 1 finished without joining allreduce(int64 (), op=sum) that" in line
    assert s.run("allreduce(1)").caught == {}


@pytest.mark.parametrize(
    "cell",
    [
        "try:\n    allreduce('text')\nexcept ValueError:\n    pass\n5",  # nobody else has to know
        "try:\n    1 / 0\nexcept ZeroDivisionError:\n    pass",
        "allreduce(1)",
    ],
)
def test_other_errors_that_are_caught_are_the_program_s_own(session, cell):
    assert session(2).run(cell).caught == {}


def test_the_log_says_it_too(session):
    s = session(3)
    s.run(SWALLOWS)
    ended = {entry.workers: entry.ended for entry in history_of(s.timeline()).entries}
    assert ended == {(0, 2): "ok: caught PlaneAborted", (1,): "ok"}


def test_waiting_again_does_not_repeat_the_note(session):
    pending = session(3).run_nowait(EXTRA)
    for _ in range(2):
        with pytest.raises(CellError) as caught:
            pending.wait()
    assert len(caught.value.__notes__) == 1


def test_of_a_chain_of_receivers_the_one_is_told_first_to_whom_nobody_sends(session):
    s = session(4)
    with pytest.raises(CellError) as caught:
        s.run("recv((worker_id + 1) % 4) if worker_id else None")
    assert list(caught.value.failures) == [3, 1, 2]
    assert str(caught.value.failures[3].exception).startswith("worker 0 finished without a send")


def test_functions_of_cells_keep_their_source_however_many_cells_call_them(session, monkeypatch):
    s = session(2)
    monkeypatch.setattr(cells, "_recent", deque(maxlen=2))
    s.run("def step(i): return 1 / i")
    for _ in range(5):
        s.run("step(1)")
    with pytest.raises(CellError) as caught:
        s.run("step(0)")
    assert "def step(i): return 1 / i" in str(caught.value)
    assert "<disco cell" not in str(caught.value)
    assert not [name for name in cells._recent if name not in linecache.cache]
