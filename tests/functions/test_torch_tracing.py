"""Symbolic tracing on workers, on a stand-in for PyTorch's tracer that does what its one does to modules."""

from __future__ import annotations

import sys

import pytest

from tests.functions.torch_module import install

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


def test_all_is_as_before_when_the_session_has_ended(session, fx):
    before = dict(vars(fx.Tracer)), dict(vars(fx._Patcher))
    session(1).shutdown()
    assert (dict(vars(fx.Tracer)), dict(vars(fx._Patcher))) == before


def test_a_version_of_it_that_is_not_known_is_left_as_it_is(session, monkeypatch):
    install(monkeypatch, NAME, Tracer=object)
    session(1)
    assert sys.modules[NAME].Tracer is object
