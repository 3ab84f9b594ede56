"""`session.check`: registers compared between workers, through the workers' ordered lanes."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import disco_magic as disco
from disco_magic.errors import (
    CellError,
    Divergence,
    SessionClosed,
    SyncTimeout,
    UnknownName,
    UsageMistake,
    WorkerError,
    WorkerInterrupt,
)
from disco_magic.loader.plan import Shard
from disco_magic.session import comparing
from tests.loader.files import write_safetensors
from tests.session.conftest import interrupt_main, time_begins_when_only, who


def differing(report):
    return {row.name: row.aspects for row in report.differing}


# --- what is compared ------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3])
def test_registers_that_agree_make_a_true_report(session, n):
    s = session(n)
    s.run("x = np.full((2, 3), worker_id, 'float32'); n = 3; names = ['a', 'b']; import math")
    report = s.check()
    assert report
    assert [row.name for row in report] == ["x", "n", "names", "math"]
    assert report.workers == tuple(range(n))


def test_registers_that_differ_are_told_with_who_holds_what(session):
    s = session(4)
    s.run(
        "w = np.zeros((3, 4), 'float64' if worker_id == 3 else 'float32')\n"
        "x = np.zeros(1 + worker_id // 2)\n"
        "if worker_id: y = 1\n"
        "z = 1 if worker_id else None\n"
        "p = {'w': np.zeros(2), 'b': [np.zeros(worker_id)]}"
    )
    report = s.check()
    assert differing(report) == {
        "w": ("dtype",),
        "x": ("shape",),
        "y": ("missing",),
        "z": ("type",),
        "p['b'][0]": ("shape",),
    }
    with pytest.raises(Divergence, match=r"'w' differs: float32 \(3, 4\) on workers \[0-2\], float64"):
        report.raise_if_differing()


def test_instances_of_a_class_that_every_worker_defined_agree(session):
    s = session(3)
    s.run("class Net:\n    pass\nnet = Net()")
    assert s.check()
    s.run("class Other:\n    pass\nif worker_id: net = Other()")
    assert s.check()["net"].lines()[0] == ("type", "[0]", "Net")


def test_only_registers_that_are_named_are_compared(session):
    s = session(2)
    s.run("x = np.zeros(worker_id); y = 1")
    assert [row.name for row in s.check("y", "y")] == ["y"]
    assert differing(s.check("y", "x", values=False)) == {"x": ("shape",)}


def test_values_are_compared_of_registers_that_are_named_unless_that_is_declined(session):
    s = session(2)
    s.run("x = worker_id; y = 1")
    assert differing(s.check("y", "x")) == {"x": ("value",)}
    assert s.check("y", "x", values=False)
    assert s.check()


def test_private_names_are_no_registers_and_not_compared(session):
    s = session(2)
    s.run("_mine = np.zeros(worker_id); x = 1")
    assert [row.name for row in s.check()] == ["x"]


def test_a_part_of_the_workers_can_be_compared(session):
    s = session(3)
    s.run("x = np.zeros(worker_id // 2)")
    assert s.check(workers=[1, 0])
    assert not s.check(workers=[0, 2])


def test_groups_can_be_compared_each_for_itself(session):
    s = session(4, 2)
    s.run("x = np.zeros(worker.group); y = np.zeros(worker.group_rank)")
    assert differing(s.check()) == {"x": ("shape",), "y": ("shape",)}
    assert differing(s.check(in_group=True)) == {"y": ("shape",)}
    assert s.check("y", in_group=True, workers=[0, 2, 3])["y"].splits()[0][0] == "group 1"


def test_what_agrees_only_within_each_group_is_not_said_to_agree_on_all_workers(session):
    s = session(4, num_groups=2)
    s.run("x = worker_id // 2")
    report = s.check("x", in_group=True)
    assert report.summary == "[0-3] agree within each group on: x"
    assert report["x"].lines() == [("equal within each group", "[0-3]", "int")]


def test_an_agreement_is_said_of_the_workers_not_of_the_registers_among_each_other(session):
    s = session(2)
    s.run("full, ref = 1, 2")
    assert s.check("full", "ref").summary == "[0-1] agree on: full, ref"


def test_a_session_without_registers_agrees(session):
    assert "no registers to compare" in repr(session(2).check())


# --- values ----------------------------------------------------------------------------------------


def test_values_of_registers_that_are_named_are_compared(session):
    s = session(3)
    s.run("x = np.zeros(8); n = worker_id")
    assert s.check(values=True), "nothing is marked"
    assert s.check("x", values=True)
    report = s.check("x", "n", values=True)
    assert report["n"].lines() == [("value", "[0]", "int 0"), ("", "[1]", "int 1"), ("", "[2]", "int 2")]


def test_without_names_the_values_of_marked_registers_are_compared(session):
    s = session(3)
    s.run("w = worker.replicated(np.zeros(8)); mine = worker_id")
    assert s.check(values=True).summary == "[0-2] agree on: w; agree on type and shape of: mine"
    s.run("w = w + (worker_id == 2)")
    assert differing(s.check(values=True)) == {"w": ("value",)}


def test_a_mark_that_only_some_workers_made_is_a_difference(session):
    s = session(3)
    s.run("w = np.zeros(2)\nif worker_id: w = worker.replicated(w)")
    report = s.check(values=True)
    assert differing(report) == {"w": ("mark",)}
    assert "'w' is marked replicated on workers [1-2] only" in report.message
    assert s.check(), "types are asked for, no marks"
    assert s.check("w", values=True), "names say what is compared, no marks"


def test_what_is_in_objects_is_said_not_to_be_compared(session):
    s = session(2)
    s.run("class Net: __slots__ = ('w',)")
    s.run("net = Net(); deep = [[__import__('threading').Lock()]]; net.w = np.zeros(worker_id)")
    report = s.check()
    assert report
    words = "not compared: net (what is in Net), deep (what is in _thread.lock)"
    assert report.summary.endswith(words)
    assert report.rows[0].name == "Net"


def test_fields_of_dataclasses_and_named_tuples_are_compared_on_every_worker(session):
    s = session(3)
    s.run(
        "from dataclasses import dataclass\nfrom collections import OrderedDict\n"
        "from typing import NamedTuple\n"
        "@dataclass\nclass State:\n    w: object\n    step: int\n"
        "class Pair(NamedTuple):\n    a: object\n    b: object\n"
        "x = State(np.zeros(2 + (worker_id == 1)), 3)\n"
        "y = OrderedDict(w=Pair(np.zeros(3), [np.zeros(worker_id)]))\n"
        "z = State(np.full(3, worker_id), worker_id)"
    )
    assert differing(s.check()) == {"x.w": ("shape",), "y['w'].b[0]": ("shape",)}
    report = s.check("z", values=True)
    assert differing(report) == {"z": ("value",), "z.w": ("value",)}
    assert "by up to 2" in report["z.w"].gap


def test_a_report_is_not_true_if_a_value_that_was_asked_for_was_not_compared(session):
    s = session(2)
    s.run("class Net: __slots__ = ('w',)\nnet = worker.replicated(Net()); w = worker.replicated(np.ones(2))")
    report = s.check(values=True)
    assert not report
    assert report.ok, "nothing is known to differ"
    assert "values of type Net cannot be compared" in report.summary
    assert [row.name for row in report.uncompared] == ["net"]
    report.raise_if_differing()
    assert s.check("w", values=True)
    assert s.check(), "no values were asked for"


def test_the_reads_of_a_check_run_no_code_of_the_values(session):
    s = session(2)
    s.run(
        "class Odd:\n"
        "    def __getattribute__(self, name): raise ValueError(name)\n"
        "    def __eq__(self, other): raise ValueError('==')\n"
        "    def __hash__(self): raise ValueError('hash')\n"
        "    def __reduce__(self): raise ValueError('reduce')\n"
        "odd = worker.replicated(Odd()); some = worker.replicated([Odd(), 1])"
    )
    assert s.check(values=True).ok


# --- marks and how names come about ----------------------------------------------------------------


@pytest.fixture
def weights(tmp_path):
    path = tmp_path / "m.safetensors"
    write_safetensors(path, {"a.weight": np.arange(24.0).reshape(6, 4), "a.bias": np.arange(4.0)})
    return path


def test_parameters_that_a_plan_replicates_are_marked_when_they_get_a_name(session, weights):
    s = session(3)
    loaded = s.load_safetensors(weights, {"*.weight": Shard(axis=0)})
    s["b"], s["w"] = loaded["a.bias"], loaded["a.weight"]
    assert s.check(values=True).summary == "[0-2] agree on: b; agree on type and shape of: w"
    s.run("b = b * 2")
    assert s.check(values=True)["b"].by_value
    s.run("if worker_id == 1: b[2] += 1")
    assert differing(s.check(values=True)) == {"b": ("value",)}


def test_a_parameter_that_a_cell_binds_anew_at_once_is_marked_too(session, weights):
    s = session(2)
    s["b"] = s.load_safetensors(weights)["a.bias"]
    s.run("b = b + worker_id")
    assert differing(s.check(values=True)) == {"b": ("value",)}


def test_a_dropped_register_has_no_mark_when_it_comes_back(session):
    s = session(2)
    s.run("w = worker.replicated(np.zeros(2))")
    del s["w"]
    s.run("w = np.full(2, worker_id)")
    assert s.check(values=True)


def test_a_restart_drops_all_marks(session):
    s = session(2)
    s.run("w = worker.replicated(np.zeros(2))")
    s.restart()
    s.run("w = np.full(2, worker_id)")
    assert s.check(values=True)


def test_a_function_that_workers_call_can_mark_what_it_returns(session):
    s = session(2)
    s["w"] = s.call_packed(lambda: disco.worker().replicated(np.full(3, who())))
    assert differing(s.check(values=True)) == {"w": ("value",)}


# --- when it is compared ---------------------------------------------------------------------------


def test_a_check_sees_everything_that_was_sent_before_it(gated, gate, background):
    s = gated(2)
    pending = s.run_nowait("gate(worker_id)\nx = np.zeros(worker_id)")
    gate.arrived(2)
    report = background(s.check, "x", values=False)
    gate.open()
    assert differing(report()) == {"x": ("shape",)}
    pending.wait()


def test_a_check_that_takes_too_long_says_who_is_where(gated, gate, monkeypatch):
    s = gated(2)
    pending = s.run_nowait("if worker_id: gate()")
    gate.arrived()
    time_begins_when_only(monkeypatch, s, 1)
    with pytest.raises(SyncTimeout, match="check: worker 1 did not answer"):
        s.check(timeout=0.05)
    gate.open()
    pending.wait()
    assert s.check(timeout=60)


def test_ctrl_c_ends_a_check(gated, gate):
    s = gated(1)
    pending = s.run_nowait("gate()")
    gate.arrived()
    striker = threading.Thread(target=interrupt_main, daemon=True)
    striker.start()
    with pytest.raises(KeyboardInterrupt, match=r"^Disco session \d+: the check was interrupted") as caught:
        s.check()
    assert caught.value.__context__ is None
    files = [entry.path.name for entry in caught.traceback]  # no frame of the wait
    assert files == ["test_checking.py", "checking.py", "comparing.py", "comparing.py"]
    striker.join()
    gate.open()
    pending.wait()


def test_a_worker_that_checks_another_session_is_interrupted_as_such(session, monkeypatch):
    # A WorkerInterrupt is a KeyboardInterrupt too; whoever ends the command looks for its class.
    s = session(1)

    def struck(*_):
        raise WorkerInterrupt

    monkeypatch.setattr(comparing, "_asked", struck)
    with pytest.raises(WorkerInterrupt):
        s.check()


def test_a_check_raises_what_failed_before_it(session):
    s = session(2)
    kept = s.call_packed(len, 3)
    with pytest.raises(WorkerError, match="TypeError"):
        s.check()
    assert s.check(), kept


# --- what is refused -------------------------------------------------------------------------------


def test_unknown_names_are_refused_with_near_misses(session):
    s = session(2)
    with pytest.raises(UnknownName, match="'weights' is not defined on any worker; there are none"):
        s.check("weights")
    s.run("weight = 1")
    with pytest.raises(UnknownName, match="did you mean 'weight'"):
        s.check("weight", "weights")
    s.run("net = {'w': np.ones(2), 'layers': [np.ones(3)]}")
    with pytest.raises(UnknownName, match=r"check: register 'net' has no part \"\['v'\]\".*did you mean"):
        s.check("net['v']")
    with pytest.raises(
        UnknownName, match="check: register 'nett' is not defined on any worker; did you mean 'net'"
    ):
        s.check("nett['w']")
    with pytest.raises(UnknownName, match=r"has no part '\[0\]'.*it has no parts"):
        s.check("weight[0]")


@pytest.mark.parametrize(
    ("names", "options", "reason"),
    [
        ((3,), {}, "takes names of registers, got int"),
        ((), {"workers": [7]}, "there is no worker 7"),
        ((), {"timeout": -1}, "timeout is -1"),
    ],
)
def test_impossible_checks_are_refused(session, names, options, reason):
    with pytest.raises(UsageMistake, match=reason):
        session(2).check(*names, **options)


def test_a_worker_cannot_check_its_own_session(session):
    s = session(1)
    s._launcher.workers[0].registers.names.update(s=s)
    with pytest.raises(CellError, match="check was called on worker 0 of the same session"):
        s.run("s.check()")
    s._launcher.workers[0].registers.names.clear()


def test_a_closed_session_cannot_be_checked(session):
    s = session(1)
    s.shutdown()
    with pytest.raises(SessionClosed):
        s.check()
