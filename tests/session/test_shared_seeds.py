"""Cells that seed a random state which all workers have in common, when they are sent."""

from __future__ import annotations

import warnings

import pytest

from disco_magic.functions.cells import compile_cell


def test_a_cell_of_several_workers_gets_a_warning_every_time(busy):
    s = busy(2)
    cell = compile_cell("x = 1\nnp.random.seed(x)")
    for _ in range(2):
        with pytest.warns(UserWarning, match="give each its own") as caught:
            s.run(cell)
        assert [(each.filename, each.lineno) for each in caught] == [(cell.filename, 2)]


def test_a_worker_that_is_alone_with_the_state_gets_none(busy):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert busy(2).run("np.random.seed(1)", workers=(1,)).errors == {}
        assert busy(1).run("np.random.seed(1)").errors == {}


def test_where_warnings_are_errors_nothing_is_sent(busy):
    s = busy(2)
    sent = s.ledger.seq
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match=r"np\.random\.seed"):
            s.run("np.random.seed(1)")
    assert s.ledger.seq == sent
    assert s.run("1").values == [1, 1]
