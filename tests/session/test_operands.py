"""What the expression that failed had read on each worker is kept in its failure, and in the error's text."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.errors import CellError, WorkerError


def scaled(x, by):
    return x @ by


def failed(wait):
    with pytest.raises(WorkerError) as caught:
        wait()
    return caught.value


def test_a_cell_and_a_call_tell_what_each_worker_had(session):
    s = session(3)
    error = failed(lambda: s.run("x = np.ones(2 + worker_id % 2)\nx + np.ones(9)"))
    values = {worker: each.operands.values for worker, each in error.failures.items()}
    assert values == {
        0: {"x": "float64 2 [1. 1.]"},
        1: {"x": "float64 3 [1. 1. 1.]"},
        2: {"x": "float64 2 [1. 1.]"},
    }
    assert str(error).endswith("line 2:\n  x  [0,2] float64 2 [1. 1.]\n     [1]   float64 3 [1. 1. 1.]"), (
        f"{error}"
    )
    s.call_packed(scaled, np.ones((2, 3)), np.ones(4))
    error = failed(s.sync_all)
    assert error.origin.operands.expression == "x @ by"
    assert "  by  [0-2] float64 4 [1. 1. 1. 1.]" in str(error)


def test_values_are_those_at_the_moment_of_the_failure(session):
    s = session(2)
    cell = s.run_nowait("n = 3\nn / (n - 3)")
    s.run_nowait("n = 7")
    assert failed(cell.wait).origin.operands.values == {"n": "3"}


def test_workers_that_were_only_released_have_none(session):
    s = session(2)
    error = failed(lambda: s.run("k = worker_id\nallreduce(k) if k else k / 0"))
    assert isinstance(error, CellError)
    assert (error.failures[0].operands.values, error.failures[1].operands) == ({"k": "0"}, None)


@pytest.mark.parametrize(
    ("cell", "others"),
    [
        ("x = 3 - worker_id\nif worker_id: x / (x - 2)", {0: {"x": "3"}, 2: {"x": "1"}}),
        ("d = {'ab'[worker_id % 2]: 1}\nd['a']", {0: {"d": "dict {'a': 1}"}, 2: {"d": "dict {'a': 1}"}}),
        ("x = worker_id\nif x == 1: x / 0\nx = 5", {}),
        ("for x in range(3):\n    if worker_id == 1: x / 0", {}),
        ("x = worker_id\nfor i in range(3):\n    if x == 1: x / 0", {0: {"x": "0"}, 2: {"x": "2"}}),
        ("x = worker_id\nif x == 1: x / 0\ndef f():\n    global x\n    x = 7\nf()", {}),
        ("x = worker_id\ndef f(y):\n    1 / (y - 1)\nf(x)", {}),
        ("if worker_id == 1:\n    mine = 3\n    mine / 0", {}),
    ],
)
def test_workers_where_it_did_not_fail_have_what_it_reads_there(session, cell, others):
    s = session(3)
    error = failed(lambda: s.run(cell))
    assert error.origin.worker == 1
    assert error.origin.operands.others == others


def test_workers_that_the_cell_was_not_for_are_left_out(session):
    s = session(3)
    s.run("x = worker_id")
    error = failed(lambda: s.run("x / (x - 1)", workers=[0, 1]))
    assert error.origin.operands.others == {0: {"x": "0"}}
