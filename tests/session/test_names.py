"""Named registers: a session as a mapping."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import disco_magic as disco
from disco_magic.errors import SessionClosed, UnknownName, UsageMistake, WorkerError

sizes = pytest.mark.parametrize("n", [1, 2, 3, 4])


def who():
    return disco.worker().id


@sizes
def test_what_a_cell_binds_can_be_read_by_name(session, n):
    s = session(n)
    s.run("x = worker_id * 10\ny = 'y'")
    assert s["x"].get_all() == [10 * i for i in range(n)]
    assert s.names() == ("x", "y")
    assert list(s) == ["x", "y"]
    assert len(s) == 2
    assert "x" in s
    assert "z" not in s


def test_a_session_without_registers_is_true(session):
    assert session(1)


def test_looking_at_names_sends_nothing(session):
    s = session(1)
    s.run("x = 1").release()
    before = s.ledger.seq
    assert (s.names(), list(s), "x" in s, len(s)) == (("x",), ["x"], True, 1)
    assert s.ledger.seq == before


def test_a_session_is_a_mapping(session):
    s = session(2)
    names = s.keys()
    assert list(names) == []
    s.run("x = worker_id\ny = 'y'").release()
    before = s.ledger.seq
    assert (list(names), "x" in names, len(names), names & {"y", "z"}) == (["x", "y"], True, 2, {"y"})
    assert s.ledger.seq == before
    assert [ref.get_all() for ref in s.values()] == [[0, 1], ["y", "y"]]
    assert {name: ref.get(1) for name, ref in s.items()} == {"x": 1, "y": "y"}
    assert {name: ref.get(0) for name, ref in dict(s).items()} == {"x": 0, "y": "y"}
    s.shutdown()
    with pytest.raises(SessionClosed):
        list(names)


@pytest.mark.parametrize("way", ["items", "values"])
def test_a_name_that_is_dropped_while_names_are_gone_through_is_passed_over(session, way):
    s = session(2)
    s.run("x = 1\ny = 2\nz = 3")
    found = iter(getattr(s, way)())
    first = next(found)
    del s["y"]  # as another thread may
    references = [each if way == "values" else each[1] for each in (first, *found)]
    assert [each.get(0) for each in references] == [1, 3]


def test_a_reference_keeps_the_value_the_name_had(session):
    s = session(1)
    s.run("x = 1")
    old = s["x"]
    s.run("x = 2")
    assert (old.get(0), s["x"].get(0)) == (1, 2)


def test_a_reference_can_be_given_a_name(session):
    s = session(2)
    s["x"] = s.call_packed(who)
    assert s.run("x + 1").values == [1, 2]
    assert s.names() == ("x",)


def test_a_value_can_be_put_under_a_name(session):
    s = session(2)
    mine = [1]
    s.put("x", mine)
    mine.append(2)
    s.run("if worker_id == 0: x.append('zero')")
    assert s["x"].get_all() == [[1, "zero"], [1]]


def test_a_value_can_be_put_on_some_workers_and_the_others_keep_what_they_have(session):
    s = session(4)
    s.put("x", "v", workers=[1, 3])
    s.put("x", "w", workers=[2, 3])
    assert s.run("x", workers=[1, 2, 3]).values == ["v", "w", "w"]
    with pytest.raises(disco.errors.CellError, match="name 'x' is not defined") as failed:
        s.run("x")
    assert list(failed.value.failures) == [0]


def test_a_mapping_of_references_becomes_a_dict_of_their_values(session):
    s = session(3)
    refs = {"a.b": s.call_packed(lambda: disco.worker().id), "c": s.call_packed(np.ones, 2)}
    s["both"] = refs
    s["c"] = refs["c"]
    del refs
    assert s.run("both['a.b'], list(both), type(both) is dict, both['c'] is c").values == [
        (worker, ["a.b", "c"], True, True) for worker in range(3)
    ]


@pytest.mark.parametrize("make", [lambda ref: ref, lambda ref: {"x": ref}])
def test_what_refers_to_values_is_bound_and_not_put(session, make):
    s = session(2)
    with pytest.raises(UsageMistake, match=r"session\['x'\] = \.\.\. binds the name to them"):
        s.put("x", make(s.call_packed(np.ones, 2)))
    assert s.names() == ()


def test_what_cannot_be_copied_is_put_nowhere(session):
    s = session(2)
    before = (s.ledger.seq, s.ledger.live_registers, s.names())
    with pytest.raises(UsageMistake, match="cannot be copied between controller and worker"):
        s.put("x", threading.Lock())
    assert (s.ledger.seq, s.ledger.live_registers, s.names()) == before


@pytest.mark.parametrize("wrong", [{}, {"x": 1}, {1: None}, [1]])
def test_what_refers_to_nothing_is_put_and_not_bound(session, wrong):
    s = session(2)
    with pytest.raises(UsageMistake, match=r"session.put\('x', value\) takes values"):
        s["x"] = wrong


def test_a_name_can_be_dropped(session):
    s = session(2)
    s.run("x = y = 1")
    del s["x"]
    assert s.names() == ("y",)
    with pytest.raises(disco.errors.CellError, match="name 'x' is not defined"):
        s.run("x")


def test_a_name_that_a_cell_deletes_is_gone(session):
    s = session(2)
    s.run("x = 1")
    s.run("del x")
    assert s.names() == ()


@pytest.mark.parametrize("name", ["zzz", "weigth"])
def test_dropping_an_unknown_name_is_refused(session, name):
    s = session(1)
    with pytest.raises(UnknownName, match=f"register '{name}' is not defined on any worker"):
        del s[name]


def test_an_unknown_name_mentions_near_misses(session):
    s = session(1)
    s.run("weight = 1\nbias = 2")
    with pytest.raises(
        UnknownName, match="register 'weigth' is not defined on any worker; did you mean 'weight"
    ):
        s["weigth"]
    with pytest.raises(UnknownName, match="there are: weight, bias"):
        s["zzz"]


@pytest.mark.parametrize("bind", [lambda s: s.run("weight = 2"), lambda s: s.put("weight", 2)])
def test_a_name_that_was_bound_and_deleted_after_a_restart_is_not_said_to_be_lost_in_it(session, bind):
    # The error said so of what the restart had found, whatever had become of it since.
    s = session(1)
    s.run("weight = 1")
    s.restart()
    bind(s)
    s.run("del weight")
    with pytest.raises(UnknownName, match="there are none"):
        s["weight"]


def test_a_name_that_a_restart_took_is_said_to_be_lost(session):
    s = session(1)
    s.run("weight = 1")
    s.restart()
    s.restart()  # which finds no names: what the first one took is still lost
    lost = "'weight' is not defined on any worker; weight was lost when the workers were restarted"
    with pytest.raises(UnknownName, match=lost):
        s["weight"]
    with pytest.raises(UnknownName, match=lost):
        s.check("weight")
    with pytest.raises(UnknownName, match="there are none"):
        s["bias"]


def test_an_unknown_name_in_an_empty_session_says_so(session):
    with pytest.raises(UnknownName, match="there are none"):
        session(1)["x"]


def test_an_unknown_name_waits_for_cells_that_may_still_bind_it(gated, gate, background):
    s = gated(1)
    pending = s.run_nowait("gate()\nx = 5")
    gate.arrived()
    value = background(lambda: s["x"].get(0))
    gate.open()
    assert value() == 5
    pending.wait()


def test_a_name_that_only_some_workers_have_can_be_read_from_those(session):
    s = session(3)
    s.run("x = worker_id", workers=[1])
    ref = s["x"]
    assert ref.get(1) == 1
    s.sync_all()
    with pytest.raises(WorkerError, match="register 'x' is not defined on worker 2"):
        ref.get(2)


def test_a_name_bound_while_a_cell_runs_stays_known(gated, gate):
    # The cell tells its names when it ends, and does not know of the binding that is executed after it.
    s = gated(1)
    pending = s.run_nowait("gate()\na = 1")
    gate.arrived()
    s.put("x", 5)
    gate.open()
    pending.wait()
    assert s.names() == ("a", "x")
    assert s["x"].get(0) == 5


def test_a_name_dropped_while_a_cell_runs_stays_dropped(gated, gate):
    s = gated(1)
    s.run("x = 1")
    pending = s.run_nowait("gate()")
    gate.arrived()
    del s["x"]
    gate.open()
    pending.wait()
    assert s.names() == ()


@pytest.mark.parametrize("name", ["", "a b", "1x", "class", 5, None])
def test_what_is_no_variable_name_is_refused(session, name):
    s = session(1)
    with pytest.raises(UsageMistake, match="is not a variable name"):
        s.put(name, 1)


def test_a_name_that_code_spells_otherwise_is_refused_with_that_spelling(session):
    s = session(1)
    with pytest.raises(UsageMistake, match="'\ufb01t' is 'fit' wherever code names it"):
        s.put("\ufb01t", 1)


def test_names_have_no_order_to_be_reversed(session):
    with pytest.raises(TypeError, match="not reversible"):
        reversed(session(1))


def test_private_names_are_refused(session):
    s = session(1)
    with pytest.raises(UsageMistake, match="begins with an underscore"):
        s.put("_x", 1)


def test_a_name_takes_a_reference_only(session):
    s = session(1)
    with pytest.raises(UsageMistake, match=r"takes a DRef, got int; session.put\('x', value\) takes values"):
        s["x"] = 5


def test_naming_a_poisoned_register_leaves_the_name_unbound_there(session):
    s = session(1)
    s["x"] = s.call_packed(int, "no number")
    with pytest.raises(WorkerError, match="invalid literal"):
        s.sync_all()
    assert "x" not in s
    with pytest.raises(disco.errors.CellError, match="'x' is not defined"):
        s.run("x")
    s.put("x", 1)
    s["x"] = s.call_packed(int, "no number")
    with pytest.raises(WorkerError, match="invalid literal"):
        s.sync_all()
    assert s["x"].get(0) == 1  # as before


def test_a_closed_session_has_no_names_to_ask_for(session):
    s = session(1)
    s.run("x = 1")
    s.shutdown()
    for ask in (lambda: "x" in s, lambda: list(s), lambda: len(s)):
        with pytest.raises(SessionClosed, match="was shut down"):
            ask()
    assert s


def test_to_set_the_reference_of_a_name_is_to_bind_it_on_that_worker(session):
    s = session(3)
    s.put("q", 1)
    s["q"].set(1, [5])
    assert s["q"].get_all() == [1, [5], 1]
    assert s.run("q").values == [1, [5], 1]


def test_to_set_the_reference_of_a_name_binds_it_where_it_was_not_bound(session):
    s = session(2)
    s.run("if worker_id:\n    q = 1")
    ref = s["q"]
    ref.set(0, 2)
    assert ref.get_all() == [2, 1]
    assert s.ledger.names.holders("q") == [0, 1]
    assert s.run("q").values == [2, 1]


def test_to_set_another_reference_binds_no_name(session):
    s = session(2)
    s.put("q", 1)
    ref = s.call_packed(int)
    s["r"] = ref
    ref.set(1, 7)
    assert (ref.get_all(), s["r"].get_all(), s["q"].get_all()) == ([0, 7], [0, 0], [1, 1])
