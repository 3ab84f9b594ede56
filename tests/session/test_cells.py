"""Cells through a session: values, output, errors, groups, subsets."""

from __future__ import annotations

import contextvars
import pickle

import numpy as np
import pytest

import disco_magic as disco
from disco_magic.errors import CellError, PlaneAborted, PlaneMismatch, SessionClosed, UsageMistake
from disco_magic.functions.cells import compile_cell

sizes = pytest.mark.parametrize("n", [1, 2, 3, 4])
WORDS = contextvars.ContextVar("words")


class Scope:
    """A front end that keeps per worker what a cell prints through `say`."""

    def __init__(self):
        self.stdout = {}
        self.log = []
        self.given_up = []

    def context(self, worker):
        context = contextvars.copy_context()
        context.run(WORDS.set, [])
        return context

    def render(self, value):
        return {"text/plain": f"<{value}>", "text/html": f"<b>{value}</b>"}

    def ended(self, worker):
        self.stdout[worker] = "".join(WORDS.get())

    def abandoned(self, worker):
        self.given_up.append(worker)


def say(text):
    WORDS.get().append(text)


# --- running ---------------------------------------------------------------------------------------


@sizes
def test_a_cell_runs_on_every_worker_in_its_own_namespace(session, n):
    s = session(n)
    result = s.run("x = worker_id\nx += num_workers\nx")
    assert result.values == [n + i for i in range(n)]


def test_names_stay_from_cell_to_cell(session):
    s = session(2)
    s.run("x = worker_id")
    s.run("x += 10")
    assert s.run("x").values == [10, 11]


@pytest.mark.parametrize("workers", [[0], [2, 1], [0, 2]], ids=str)
def test_a_cell_can_run_on_some_workers(session, workers):
    s = session(3)
    result = s.run("x = worker_id\nx", workers=workers)
    assert result.workers == tuple(sorted(workers))
    assert result.values == sorted(workers)
    assert [("x" in s._launcher.workers[w].registers.names) for w in range(3)] == [w in workers for w in range(3)]


def test_bad_syntax_sends_nothing(session):
    s = session(2)
    before = (s.ledger.seq, s.ledger.live_registers)
    with pytest.raises(SyntaxError):
        s.run("x = = 1")
    assert (s.ledger.seq, s.ledger.live_registers) == before


def test_a_compiled_cell_can_be_run(session):
    cell = compile_cell("worker_id", label="Cell In[7]")
    assert session(2).run(cell).label == "Cell In[7]"


def test_top_level_await_works_and_workers_await_apart(session):
    source = "import asyncio\nawait asyncio.sleep(0)\nawait asyncio.gather(*(asyncio.sleep(0, i) for i in range(2)))"
    assert session(2).run(source).values == [[0, 1], [0, 1]]


def test_classes_of_a_cell_can_be_pickled_and_the_source_of_functions_shown(session):
    s = session(2)
    s.run(
        "import dataclasses, inspect, pickle\n"
        "@dataclasses.dataclass\n"
        "class Point:\n"
        "    x: int\n"
        "copy = pickle.loads(pickle.dumps(Point(worker_id)))\n"
        "def double(point):\n"
        "    return point.x * 2\n"
        "source = inspect.getsource(double)\n"
    )
    assert s.run("(copy == Point(worker_id), copy.x)").values == [(True, 0), (True, 1)]
    assert s["source"].get(0) == "def double(point):\n    return point.x * 2\n"
    assert pickle.loads(pickle.dumps(s["copy"].get(1))).x == 1  # noqa: S301 - our own bytes


def test_a_cell_sees_its_worker_with_all_attributes(session):
    result = session(4, 2).run("(worker.id, worker.group, worker.group_rank, worker.group_size, worker.num_groups)")
    assert result.values == [(0, 0, 0, 2, 2), (1, 0, 1, 2, 2), (2, 1, 0, 2, 2), (3, 1, 1, 2, 2)]


def test_names_a_front_end_adds_are_behind_the_namespace(session):
    s = session(2, extras=lambda context: {"greeting": f"hello {context.id}"})
    assert s.run("greeting").values == ["hello 0", "hello 1"]
    assert s.names() == ()


def test_extras_that_fail_start_nothing():
    def extras(context):
        if context.id == 1:
            raise RuntimeError("no facade")
        return {}

    with pytest.raises(disco.errors.LaunchError, match="2 worker threads could not be started: no facade"):
        disco.ThreadedSession(2, extras=extras)


# --- results ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("36.0", "[0-3] 36.0"),
        ("worker_id // 2", "[0-1] 0\n[2-3] 1"),
        ("worker_id % 2", "[0,2] 0\n[1,3] 1"),
        ("None", "<Cell on workers [0-3]: no value>"),
        ("x = 1", "<Cell on workers [0-3]: no value>"),
        ("None if worker_id else 5", "[0] 5\n[1-3] None"),
        ("np.eye(2)", "[0-3] array([[1., 0.],\n             [0., 1.]])"),
    ],
)
def test_a_result_shows_equal_values_together(session, source, text):
    assert repr(session(4).run(compile_cell(source, label="Cell"))) == text


def test_values_that_look_alike_but_differ_are_kept_apart(session):
    result = session(2).run("np.zeros(2000) if worker_id else np.arange(2000) // 1500 * 0.0 + np.eye(1, 2000, 1000)[0]")
    assert [workers for workers, _ in result.groups()] == [(0,), (1,)]


def test_groups_can_be_asked_for_some_workers(session):
    result = session(3).run("1")
    assert result.groups((0, 2)) == [((0, 2), {"text/plain": "1"})]


def test_a_result_is_read_by_worker_and_in_order(session):
    result = session(3).run("worker_id * 2", workers=[0, 2])
    assert (result[2], list(result), len(result)) == (4, [0, 4], 2)
    with pytest.raises(UsageMistake, match=r"ran on workers \[0,2\], not on 1"):
        result[1]


def test_a_results_values_are_copies(session):
    result = session(1).run("x = [1]\nx")
    result[0].append("mine")
    assert result[0] == [1]


def test_a_result_keeps_its_value_when_the_name_is_bound_again(session):
    s = session(1)
    result = s.run("x = 1\nx")
    s.run("x = 2")
    assert result[0] == 1


def test_a_released_result_frees_its_register_and_keeps_what_was_shown(session):
    s = session(2)
    result = s.run("np.ones(3)")
    assert s.ledger.live_registers == 1
    result.release()
    s.sync_all()
    assert s.ledger.live_registers == 0
    assert repr(result) == "[0-1] array([1., 1., 1.])"
    with pytest.raises(UsageMistake, match="were released; what was shown is still here"):
        result[0]


@pytest.mark.parametrize("end", ["shutdown", "restart"])
def test_values_of_a_session_that_ended_say_so(session, end):
    s = session(1)
    result = s.run(compile_cell("5", label="Cell In[7]"))
    getattr(s, end)()
    with pytest.raises(SessionClosed, match=r"the values of Cell In\[7\] went with their session"):
        result.values  # noqa: B018 - looking is the test
    assert repr(result) == "[0] 5"


def test_elapsed_seconds_are_measured_on_the_worker(session):
    result = session(2).run("import time\nstart = time.perf_counter()\nx = sum(range(1000))\ntime.perf_counter() - start")
    assert all(result.elapsed[w] >= result[w] for w in (0, 1))


# --- a front end's scope ---------------------------------------------------------------------------


def test_a_cell_runs_in_the_contexts_of_its_scope(session):
    s = session(2, extras=lambda context: {"say": say})
    result = s.run("say(f'I am {worker_id}')\nworker_id", scope=Scope())
    assert result.stdout == {0: "I am 0", 1: "I am 1"}
    assert result.shown[1] == {"text/plain": "<1>", "text/html": "<b>1</b>"}


def test_output_of_a_failed_cell_is_in_the_errors_result(session):
    s = session(1, extras=lambda context: {"say": say})
    with pytest.raises(CellError) as caught:
        s.run("say('so far')\n1 / 0", scope=Scope())
    assert caught.value.result.stdout == {0: "so far"}


def test_a_scope_that_cannot_be_entered_sends_nothing(session):
    class Broken(Scope):
        def context(self, worker):
            raise RuntimeError("no stream")

    s = session(2)
    before = (s.ledger.seq, s.ledger.live_registers)
    with pytest.raises(RuntimeError, match="no stream"):
        s.run("1", scope=Broken())
    assert (s.ledger.seq, s.ledger.live_registers) == before


def test_scopes_are_forgotten_when_their_cell_has_ended(session):
    s = session(2)
    s.run("1", scope=Scope())
    with pytest.raises(CellError):
        s.run("1 / 0", scope=Scope())
    assert [worker.scopes for worker in s._launcher.workers] == [{}, {}]


def test_without_a_scope_print_goes_to_stdout(session, capsys):
    session(1).run("print('hello')")
    assert capsys.readouterr().out == "hello\n"


# --- errors ----------------------------------------------------------------------------------------


def test_an_exception_names_cell_line_and_worker(session):
    with pytest.raises(CellError) as caught:
        session(3).run(compile_cell("x = 1\nif worker_id == 1:\n    1 / 0\nx", label="Cell In[7]"))
    error = caught.value
    assert list(error.failures) == [1]
    assert str(error).startswith("Cell In[7] failed on worker 1\n[1] ZeroDivisionError: division by zero\n")
    assert "line 3, in <module>\n    1 / 0" in error.origin.traceback_text


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


def test_the_next_cell_works(session):
    s = session(2)
    with pytest.raises(CellError):
        s.run("1 / 0")
    assert s.run("worker_id").values == [0, 1]


def test_names_bound_before_the_exception_stay(session):
    s = session(1)
    with pytest.raises(CellError):
        s.run("x = 5\n1 / 0")
    assert s["x"].get(0) == 5


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


@sizes
def test_collectives_are_plain_functions(session, n):
    result = session(n).run("x = np.full((2, 3), worker_id, dtype='float32')\ny = allreduce(x)\ny.sum()")
    assert result.values == [6.0 * sum(range(n))] * n


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
def test_a_worker_that_does_not_join_releases_the_others(session, n):
    s = session(n)
    with pytest.raises(CellError) as caught:
        s.run(f"if worker_id != {n - 1}: allreduce(1.0)")
    assert sorted(caught.value.failures) == list(range(n - 1))
    assert all(isinstance(f.exception, PlaneAborted) for f in caught.value.failures.values())
    assert s.run("allreduce(1)").values == [n] * n


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
    assert s.run("if worker_id == 0: send(5, 1)\nint(recv(0)) if worker_id else None").values == [None, 5]


def test_functions_find_their_worker_and_its_collectives(session):
    def mean(x):
        return disco.worker().allreduce(x, "avg")

    s = session(4)
    assert s.call_packed(mean, s.call_packed(lambda: float(disco.worker().id))).get_all() == [1.5] * 4
    assert np.isclose(s.run("mean_of = float(worker_id)\nworker.allreduce(mean_of, 'avg')")[3], 1.5)
