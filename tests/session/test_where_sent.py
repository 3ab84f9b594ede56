"""Errors of calls that nobody has waited for say at which line of the program these were sent."""

from __future__ import annotations

import operator
import sys

import numpy as np
import pytest

from disco_magic.callers.sites import Site
from disco_magic.errors import CellError, WorkerError
from disco_magic.session.queues import KEPT
from tests.conftest import until


def notes(wait):
    with pytest.raises(WorkerError) as caught:
        wait()
    return getattr(caught.value, "__notes__", [])


def line():
    return sys._getframe(1).f_lineno


def test_a_call_a_verb_and_one_with_keywords_are_told(session):
    s = session(2)
    s.call_packed(operator.add, np.ones(2), np.ones(3))
    first = line() - 1
    assert notes(s.sync_all) == [f"call add was sent at {Site(__file__, first)}"]
    x = s.call_packed(np.ones, 2)
    s.allreduce(x, dst=s.call_packed(np.ones, shape=3))
    assert notes(s.sync_all) == [f"call allreduce was sent at {Site(__file__, line() - 1)}"]
    s.call_packed(np.ones, shape="x", workers=[1])
    assert notes(s.sync_all) == [f"call ones was sent at {Site(__file__, line() - 1)}"]
    held = s.call_packed(lambda: lambda x: 1 / x)
    assert notes(lambda: s.call_packed(held, 0).get(1))[0].endswith(f"line {line()}")


def test_a_cell_that_raises_it_tells_it_and_its_own_failure_has_none(session):
    s = session(2)
    assert notes(lambda: s.run("1 / 0")) == []
    s.call_packed(np.ones, "x")
    sent = line() - 1
    where, itself = notes(lambda: s.run("1"))
    assert where == f"call ones was sent at {Site(__file__, sent)}"
    assert itself.startswith("Cell ")
    assert itself.endswith(" itself has ended without an error")
    s.call_packed(np.ones, "x")
    with pytest.raises(CellError) as caught:
        s.run("if worker_id: allreduce(1)\nelse: [allreduce(1) for _ in range(2)]", workers=[0, 1])
    told = caught.value.__notes__
    assert any("was sent at" in each for each in told)


def test_of_several_the_first_three_are_told(session):
    s = session(1)
    for kind in (int, float, complex, bytes, range):
        s.call_packed(kind, object)
    assert len(notes(s.sync_all)) == 3


def test_one_that_was_sent_too_long_ago_is_not_told(session):
    s = session(1)
    s.call_packed(np.ones, "x")
    for _ in range(KEPT + 2):
        s.call_packed(len, "")
    assert notes(s.sync_all) == []


def test_a_restart_forgets_where_calls_were_sent(session):
    s = session(1)
    for _ in range(5):
        s.call_packed(len, "")
    s.restart()
    assert s.sent_from == [None] * (KEPT + 1)


def test_verbs_that_fill_registers_are_told_where_the_program_has_called_them(session):
    s = session(2)
    wrong = s.call_packed(np.ones, 3)
    s.sync_all()
    calls = (
        ("scatter_from_worker0", lambda: s.scatter(np.ones((2, 2)), dst=wrong)),
        ("broadcast_from_worker0", lambda: s.broadcast(np.ones(5), dst=wrong)),
        ("reduce", lambda: s.reduce(s.call_packed(np.ones, 2), dst=wrong)),
    )
    for name, call in calls:
        call()
        assert notes(s.sync_all) == [f"call {name} was sent at {Site(__file__, line_of(call))}"]


def line_of(call):
    return call.__code__.co_firstlineno


def test_a_value_that_is_there_is_said_to_be_there_by_the_error_of_another_call(session):
    s = session(2)
    good = s.call_packed(lambda: 7)
    bad = s.call_packed(lambda: 1 / 0)
    until(lambda: s.ledger.has_failures)
    assert (
        notes(lambda: good.get(0))[-1] == "the value that was asked for is there, and the next get returns it"
    )
    assert good.get(0) == 7
    assert not any("is there" in note for note in notes(lambda: bad.get(0)))
