"""What the inspector's buttons do to a session."""

from __future__ import annotations

import gc
import sys
import threading
import types
import weakref

import numpy as np
import pytest

from disco_magic import ThreadedSession
from disco_magic.errors import UnknownName, UsageMistake, WorkerError
from disco_magic.functions.execution.cells import compile_cell
from disco_magic.notebook.inspector.acts import Acts

PATIENCE_S = 30


class Shell:
    def __init__(self):
        self.user_ns = {}


class Front:
    """What acts need of the notebook's side."""

    def __init__(self):
        self.shell = Shell()

    def bind(self, values):
        self.shell.user_ns.update(values)


@pytest.fixture
def front():
    return Front()


@pytest.fixture
def acts(front):
    return Acts(front)


@pytest.fixture
def session():
    with ThreadedSession(3) as made:
        yield made


def test_to_notebook_binds_a_copy(session, acts, front):
    session.run("x = np.full(3, worker_id)")
    said = acts.to_notebook(session, "x", 2, "mine")
    assert front.shell.user_ns["mine"].tolist() == [2, 2, 2]
    assert said == "notebook variable mine is a copy of x on [2]"
    front.shell.user_ns["mine"][:] = 7
    assert session["x"].get(2).tolist() == [2, 2, 2]


def test_to_notebook_overwrites_only_what_it_has_bound_itself(session, acts, front):
    session.run("x = np.full(3, worker_id)")
    acts.to_notebook(session, "x", 0, "mine")
    acts.to_notebook(session, "x", 1, "mine")
    assert front.shell.user_ns["mine"].tolist() == [1, 1, 1]
    for precious in ("precious", None):
        front.shell.user_ns["mine"] = front.shell.user_ns["loss"] = precious
        for name in ("mine", "loss"):
            with pytest.raises(UsageMistake, match=f"has a variable '{name}' already"):
                acts.to_notebook(session, "x", 1, name)
            assert front.shell.user_ns[name] == precious


def test_names_of_python_s_own_and_of_collectives_are_not_hidden(session, acts, front):
    session.run("x = worker_id")
    with pytest.raises(UsageMistake, match="'print' is a name of Python's own; write another one"):
        acts.to_notebook(session, "x", 0, "print")
    for name in ("allreduce", "worker_id"):
        with pytest.raises(UsageMistake, match=f"cells find '{name}' without any register"):
            acts.rename(session, "x", name)
    assert session.names() == ("x",)
    assert front.shell.user_ns == {}


def test_a_value_of_none_is_a_value(session, acts, front):
    session.run("x = None if worker_id == 1 else 5")
    acts.to_notebook(session, "x", 1, "mine")
    assert front.shell.user_ns["mine"] is None
    acts.broadcast(session, "x", 1)
    assert session["x"].get_all() == [None] * 3


def test_a_copy_is_the_notebooks_alone(session, acts, front):
    session.run("x = np.full(3, worker_id)")
    acts.to_notebook(session, "x", 2, "mine")
    copy = weakref.ref(front.shell.user_ns.pop("mine"))
    gc.collect()
    assert copy() is None
    acts.to_notebook(session, "x", 2, "mine")


@pytest.mark.parametrize("name", ["", "a b", "1x", "for"])
def test_to_notebook_refuses_what_is_no_name(session, acts, name):
    session.run("x = 1")
    with pytest.raises(UsageMistake, match="is not a variable name"):
        acts.to_notebook(session, "x", 0, name)


def test_a_value_is_copied_out_of_a_worker_that_is_busy(session, acts, front):
    gate = threading.Event()
    session.run("x = np.full(3, worker_id)")
    busy = session.call_packed(gate.wait, PATIENCE_S, workers=(1,))
    try:
        acts.to_notebook(session, "x", 1, "mine")
        assert front.shell.user_ns["mine"].tolist() == [1, 1, 1]
    finally:
        gate.set()
    assert busy.get(1) is True


def test_to_worker_0_changes_worker_0_alone(session, acts):
    session.run("x = np.full(2, worker_id)")
    acts.to_worker_0(session, "x", 2)
    assert [value.tolist() for value in session["x"].get_all()] == [[2, 2], [1, 1], [2, 2]]
    session.run("x[:] = 9", workers=(2,))
    assert session["x"].get(0).tolist() == [2, 2]


def test_to_all_workers_gives_each_a_copy_of_its_own(session, acts):
    session.run("x = np.full(2, worker_id)")
    acts.broadcast(session, "x", 1)
    session.run("x += worker_id")
    assert [value.tolist() for value in session["x"].get_all()] == [[1, 1], [2, 2], [3, 3]]


def test_numbered_registers_can_be_copied_too(session, acts):
    reference = session.call_packed(lambda: np.zeros(1))
    for worker in range(3):
        reference.set(worker, np.full(1, worker))
    label = f"#{reference.register}"
    session.sync_all()
    acts.to_worker_0(session, label, 2)
    assert [int(value[0]) for value in reference.get_all()] == [2, 1, 2]
    acts.broadcast(session, label, 1)
    assert [int(value[0]) for value in reference.get_all()] == [1, 1, 1]


def test_rename_moves_a_name_and_names_a_number(session, acts):
    session.run("x = worker_id")
    assert acts.rename(session, "x", "y") == "x is called y now"
    assert session.names() == ("y",)
    reference = session.store(5)
    session.sync_all()  # a person renames what the table shows, which some worker has then
    assert acts.rename(session, f"#{reference.register}", "five") == f"#{reference.register} is named five"
    assert session["five"].get_all() == [5, 5, 5]


@pytest.mark.parametrize(
    ("name", "reason"), [("x", "there is a register 'x' already"), ("1x", "not a variable")]
)
def test_rename_refuses_names_that_are_taken_or_impossible(session, acts, name, reason):
    session.run("x = 1; y = 2")
    with pytest.raises(UsageMistake, match=reason):
        acts.rename(session, "y", name)
    assert set(session.names()) == {"x", "y"}


def test_delete_unbinds_a_name_but_no_number(session, acts):
    session.run("x = 1")
    acts.delete(session, "x")
    assert session.names() == ()
    reference = session.store(5)
    with pytest.raises(UsageMistake, match="lives as long as something in the notebook"):
        acts.delete(session, f"#{reference.register}")


def test_a_name_that_only_a_running_cell_knows_is_not_waited_for(session, acts, monkeypatch):
    gates = types.ModuleType("disco_test_gates")
    gates.bound, gates.go = threading.Event(), threading.Event()
    monkeypatch.setitem(sys.modules, gates.__name__, gates)
    source = f"import disco_test_gates as gates\nnew = 1\ngates.bound.set()\ngates.go.wait({PATIENCE_S})"
    cell = session.run_nowait(compile_cell(source))
    gates.bound.wait(PATIENCE_S)
    try:
        with pytest.raises(UsageMistake, match="was bound by a cell that still runs, or is gone"):
            acts.delete(session, "new")
    finally:
        gates.go.set()
    cell.wait()
    acts.delete(session, "new")
    assert "new" not in session


def test_interrupt_stops_what_runs(session, acts):
    started = threading.Barrier(4)

    def spin():
        started.wait(PATIENCE_S)
        while True:
            threading.Event().wait(0.001)

    reference = session.call_packed(spin)
    started.wait(PATIENCE_S)
    assert acts.interrupt(session, None) == "stopped [0-2]"
    with pytest.raises(WorkerError) as raised:
        session.sync_all()
    assert set(raised.value.failures) == {0, 1, 2}
    del reference
    assert acts.interrupt(session, (1,)) == "stopped [1]"


def test_a_register_that_nobody_has_is_an_error(session, acts):
    with pytest.raises(UnknownName):
        acts.to_notebook(session, "nothing", 0, "mine")
