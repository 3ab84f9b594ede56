"""Symbolic tracing on workers, on a stand-in for PyTorch's tracer that does what its one does to modules."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace

import pytest

from disco_magic.errors import CellError
from disco_magic.isolation.pytorch import tracing as torch_tracing
from disco_magic.isolation.pytorch.tracing import fit_scripts
from disco_magic.isolation.worker_mutex import WORKER_MUTEX
from tests.isolation.pytorch.torch_module import install

NAME = "torch.fx._symbolic_trace"
SOURCE = """
class Module:
    def __call__(self):
        return "called"

class _Patcher:
    def __init__(self):
        self.made = []
    def patch_method(self, cls, name, new_fn, deduplicate=True):
        self.made.append((cls, name, getattr(cls, name)))
        setattr(cls, name, new_fn)

class Tracer:
    def trace(self, root, gate=None):
        seen, patcher = [], _Patcher()
        patcher.patch_method(Module, "__call__", lambda module: seen.append(module) or "traced")
        if gate is not None:
            gate()
        root()
        for cls, name, before in patcher.made:
            setattr(cls, name, before)
        return seen
"""


@pytest.fixture
def fx(monkeypatch):
    contents = {}
    exec(SOURCE, contents)
    return install(monkeypatch, NAME, **contents)


def test_models_that_others_call_meanwhile_are_not_traced(gated, gate, fx):
    s = gated(2, fx=fx)
    s.run("m, n = fx.Module(), fx.Module()")
    tracing = s.run_nowait("fx.Tracer().trace(m, gate) == [m]", workers=[0])
    gate.arrived()
    assert s.run("n()", workers=[1])[1] == "called"
    gate.open()
    assert tracing.wait()[0] is True


def test_several_that_trace_leave_nothing_behind(session, fx):
    before = vars(fx.Module)["__call__"]
    s = session(4, extras=lambda _: {"fx": fx})
    cell = "m = fx.Module()\nall(fx.Tracer().trace(m) == [m] for _ in range(50))"
    assert s.run(cell).values == [True] * 4
    assert vars(fx.Module)["__call__"] is before
    assert s.run("m()").values == ["called"] * 4


def test_a_trace_that_is_cut_off_leaves_nothing_behind(session, fx):
    # Where PyTorch takes out what it has put there, a stop may strike.
    before = vars(fx.Module)["__call__"]
    s = session(2, extras=lambda _: {"fx": fx})
    s.run("def fail(): 1 / 0\nm = fx.Module()")
    with pytest.raises(CellError):
        s.run("fx.Tracer().trace(m, fail)")
    assert vars(fx.Module)["__call__"] is before
    assert s.run("m()").values == ["called"] * 2


def test_what_a_stop_has_kept_from_being_taken_out_is_taken_out_by_the_next_one(session, fx, monkeypatch):
    before = vars(fx.Module)["__call__"]
    s = session(2, extras=lambda _: {"fx": fx})
    s.run("m = fx.Module()")
    monkeypatch.setattr(torch_tracing._Tracing, "end", lambda tracing: setattr(tracing, "goes_on", False))
    with pytest.raises(CellError):
        s.run("def fail(): 1 / 0\nfx.Tracer().trace(m, fail)", workers=[1])
    assert vars(fx.Module)["__call__"] is not before
    assert s.run("m()").values == ["called"] * 2  # nobody traces


def test_only_who_traces_is_told_that_it_is_traced(gated, gate, fx):
    fx.is_fx_tracing = lambda: True
    s = gated(2, fx=fx)
    s.run("m = fx.Module()")
    tracing = s.run_nowait(
        "told = []\nfx.Tracer().trace(m, lambda: (gate(), told.append(fx.is_fx_tracing())))", workers=[0]
    )
    gate.arrived()
    assert s.run("fx.is_fx_tracing()", workers=[1])[1] is False
    gate.open()
    tracing.wait()
    assert s["told"].get(0) == [True]


def test_all_is_as_before_when_the_session_has_ended(session, fx):
    before = dict(vars(fx.Tracer)), dict(vars(fx._Patcher))
    session(1).shutdown()
    assert (dict(vars(fx.Tracer)), dict(vars(fx._Patcher))) == before


def test_a_version_of_it_that_is_not_known_is_left_as_it_is(session, monkeypatch):
    install(monkeypatch, NAME, Tracer=object)
    session(1)
    assert sys.modules[NAME].Tracer is object


def test_scripts_are_made_with_the_mutex_for_traces():
    def compile_model(x):
        (entry,) = WORKER_MUTEX._inside
        return entry.thread is threading.current_thread(), x

    module = SimpleNamespace(compile_model=compile_model)
    undo = fit_scripts("compile_model", "not_in_this_version")(module)
    assert module.compile_model(5) == (True, 5)
    assert not WORKER_MUTEX._inside
    undo()
    assert module.compile_model is compile_model
