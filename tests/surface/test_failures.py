"""How Disco fails, row by row, and that none of it happens here: sessions of threads."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest

import disco_magic as disco
from tests.surface.conftest import fail_on, give, usable, who

# --- a function raises -----------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize(
    "error", [ValueError, KeyError, SystemExit, KeyboardInterrupt, StopIteration, MemoryError]
)
def test_a_function_that_raises_gives_a_traceback_and_a_usable_session(session, n, error):
    s = session(n)

    def broken():
        raise error("in the user's function")

    s.call_packed(broken)
    with pytest.raises(disco.WorkerError) as caught:
        s.sync_all()
    failures = caught.value.failures
    assert sorted(failures) == list(range(n))
    for failure in failures.values():
        assert isinstance(failure.exception, error)
        assert "call " in failure.command
        assert "broken" in failure.command
        assert 'raise error("in the user\'s function")' in failure.traceback_text
        assert __file__ in failure.traceback_text
    assert usable(s)


def test_a_cell_that_raises_gives_a_traceback_and_a_usable_session(session):
    s = session(3)
    with pytest.raises(disco.CellError, match=r"\[1-2\] ZeroDivisionError") as caught:
        s.run("x = worker_id\nif worker_id:\n    y = 1 / 0\n")
    assert sorted(caught.value.failures) == [1, 2]
    assert "y = 1 / 0" in caught.value.failures[1].traceback_text
    assert s["x"].get_all() == [0, 1, 2]
    assert usable(s)


# --- what cannot be executed -----------------------------------------------------------------------

IMPOSSIBLE = {  # what is wrong -> (request, who says so, command, what was expected and what came)
    "size": (
        lambda s: s.copy_to_worker_0(np.zeros(4), s.empty((3,), "float64")),
        [0],
        "copy_array",
        r"float64 \(3,\).*float64 \(4,\).*must be equal",
    ),
    "size of a scatter": (
        lambda s: s.scatter(np.zeros(5), s.empty((3,), "float64")),
        [0],
        "scatter_from_worker0",
        r"5 elements do not fill a destination of shape \(3,\) on each of 2 workers",
    ),
    "type of a register": (
        lambda s: s.copy_from_worker_0(np.zeros(2), s.call_packed(dict)),
        [0],
        "copy_array",
        "the source is dict, expected an array of NumPy",
    ),
    "type of a collective's register": (
        lambda s: s.allreduce(s.call_packed(dict)),
        [0, 1],
        "allreduce",
        "allreduce: NumPy can only hold this dict as objects, .* - in cells allreduce_tree",
    ),
    "type of a source": (
        lambda s: s.scatter_from_worker0(s.call_packed(list)),
        [0],
        "scatter_from_worker0",
        "scatter_from_worker0: the first worker's register holds list, expected an array",
    ),
    "type of a destination": (
        lambda s: s.gather_to_worker0(s.call_packed(np.zeros, 2), s.call_packed(dict)),
        [0],
        "gather_to_worker0",
        "gather_to_worker0: the destination's register holds dict, expected an array",
    ),
    "no destination on some workers": (
        lambda s: s.scatter(np.zeros((2, 3)), s.empty((3,), "float64", worker0_only=True)),
        [1],
        "scatter_from_worker0",
        "scatter_from_worker0: the destination's register holds None, expected an array",
    ),
    "sizes of a gather": (
        lambda s: s.gather_to_worker0(
            s.call_packed(lambda: np.zeros(6 - 2 * who())), s.empty((12,), "float64")
        ),
        [0],
        "gather_to_worker0",
        r"10 elements do not fill a destination of shape \(12,\)",
    ),
    "no function in a register": (
        lambda s: s.call_packed(s.call_packed(who)),
        [0, 1],
        "",
        "'int' object is not callable",
    ),
    "no value in a register": (
        lambda s: s.call_packed(give, s.call_packed(who, workers=[1])),
        [0],
        "give",
        r"register '#\d+' is not defined on worker 0",
    ),
}


@pytest.mark.parametrize("what", IMPOSSIBLE)
def test_what_a_worker_cannot_do_is_an_error_that_says_who_what_and_why(session, what):
    s = session(2)
    request, workers, command, text = IMPOSSIBLE[what]

    def ask():
        request(s)
        s.sync_all()

    with pytest.raises(disco.WorkerError, match=text) as caught:
        ask()
    failure = caught.value.origin
    assert failure.worker == workers[0]
    assert set(caught.value.failures) >= set(workers)
    assert f"call {command}" in failure.command
    s.take_failures()
    assert usable(s)


# --- collectives that cannot complete --------------------------------------------------------------


def reduce_unless(absent):
    if who() != absent:
        disco.worker().allreduce(np.zeros((2, 3), "float32"))


def line_of(function, text):
    lines, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(lines) if text in line)


@pytest.mark.parametrize("n", [2, 3])
def test_a_missed_collective_releases_everybody_and_says_who_is_where(session, n):
    s = session(n)
    s.call_packed(reduce_unless, n - 1)
    with pytest.raises(disco.WorkerError) as caught:
        s.sync_all()
    assert sorted(caught.value.failures) == list(range(n - 1))
    line = line_of(reduce_unless, "allreduce")
    for failure in caught.value.failures.values():
        assert isinstance(failure.exception, disco.PlaneAborted)
        words = str(failure.exception)
        assert f"worker {n - 1} finished without joining allreduce(float32 (2, 3)" in words
        assert re.search(rf"waits? in at .*test_failures\.py\"?, line {line}\b", words)
    assert usable(s)


def test_a_missed_collective_of_a_cell_is_told_by_the_cells_own_line(session):
    s = session(3)
    with pytest.raises(disco.CellError, match=r"finished without joining .*float64 \(2,\)") as caught:
        s.run("x = np.zeros(2)\nif worker_id != 1:\n    allreduce(x)\n")
    assert "line 3" in caught.value.failures[0].traceback_text
    assert usable(s)


def test_a_failure_before_a_collective_releases_the_others_and_comes_first(session):
    s = session(3)

    def fail_then_reduce():
        fail_on(2)
        disco.worker().allreduce(1.0)

    s.call_packed(fail_then_reduce)
    with pytest.raises(disco.WorkerError) as caught:
        s.sync_all()
    assert caught.value.origin.worker == 2
    assert caught.value.origin.summary == "ValueError: boom"
    assert {type(caught.value.failures[worker].exception) for worker in (0, 1)} == {disco.PlaneAborted}
    assert "worker 2 failed: ValueError: boom" in str(caught.value.failures[0].exception)
    assert usable(s)


def test_different_collectives_are_an_error_of_all(session):
    s = session(2)
    with pytest.raises(
        disco.CellError, match=r"worker 0 called barrier .* while worker 1 called allreduce"
    ) as caught:
        s.run("barrier() if worker_id == 0 else allreduce(1.0)")
    assert {type(f.exception) for f in caught.value.failures.values()} == {disco.PlaneMismatch}
    assert usable(s)
