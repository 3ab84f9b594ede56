"""Forward-mode gradients on workers, on stand-ins for PyTorch's levels: a process has one at a time."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from disco_magic.errors import CellError
from disco_magic.isolation.pytorch import forward as torch_forward
from tests.conftest import given_up_comes_back
from tests.isolation.pytorch.torch_module import install

LEVELS = """
_current_level = -1
struck = []

def enter_dual_level():
    global _current_level
    new = core.enter()
    if struck: raise struck.pop()
    if new != _current_level + 1: raise RuntimeError("the current level is not valid")
    _current_level = new
    return new

def exit_dual_level(*, level=None):
    global _current_level
    level = _current_level if level is None else level
    if level != _current_level: raise RuntimeError("not the last one")
    core._exit_dual_level(level=level)
    _current_level = level - 1

class dual_level:
    def __enter__(self): return enter_dual_level()
    def __exit__(self, *_): exit_dual_level()
"""
NESTING = """
JVP_NESTING = 0

def enter_jvp_nesting():
    global JVP_NESTING
    JVP_NESTING += 1
    return JVP_NESTING

def exit_jvp_nesting():
    global JVP_NESTING
    JVP_NESTING -= 1

def jvp(function):
    enter_jvp_nesting()
    try:
        if JVP_NESTING > 1: return function()
        with forward.dual_level(): return function()
    finally:
        exit_jvp_nesting()
"""


class Core:
    """Where the levels are: one, for all threads."""

    def __init__(self):
        self.levels = []

    def enter(self):
        if self.levels:
            raise RuntimeError("Nested forward mode AD is not supported at the moment")
        self.levels.append(len(self.levels))
        return self.levels[-1]

    def _exit_dual_level(self, level):
        if self.levels != [level]:
            raise RuntimeError("no such level")
        self.levels.pop()


@pytest.fixture
def forward(monkeypatch):
    core = Core()
    made = install(monkeypatch, "torch.autograd.forward_ad", core=core, torch=SimpleNamespace(_C=core))
    exec(LEVELS, vars(made))
    return made


@pytest.fixture
def func(monkeypatch, forward):
    made = install(monkeypatch, "torch._functorch.eager_transforms", forward=forward)
    exec(NESTING, vars(made))
    monkeypatch.setitem(sys.modules, "torch.autograd.forward_ad", forward)
    return made


@pytest.fixture
def start(gated, forward, func):
    return lambda workers: gated(workers, forward=forward, func=func)


def test_several_workers_compute_them_one_after_the_other(start, func, forward):
    s = start(4)
    s.run("def inner(): return len(forward.core.levels), func.JVP_NESTING")
    cell = "{func.jvp(inner) for _ in range(50)}, {func.jvp(lambda: func.jvp(inner)) for _ in range(50)}"
    assert s.run(cell).values == [({(1, 1)}, {(1, 2)})] * 4
    assert (forward.core.levels, func.JVP_NESTING, torch_forward._entered) == ([], 0, [])


def test_the_next_one_waits(start, gate, forward):
    s = start(2)
    first = s.run_nowait("with forward.dual_level(): gate()", workers=[0])
    gate.arrived()
    second = s.run_nowait("with forward.dual_level() as level: pass\nlevel", workers=[1])
    assert not second.done()
    gate.open()
    first.wait()
    assert second.wait()[1] == 0


@pytest.mark.parametrize("left", ["forward.enter_dual_level()", "func.enter_jvp_nesting()"])
def test_what_a_stop_has_kept_from_being_left_is_left(start, gate, forward, func, left):
    s = start(3)
    handle = s.run_nowait(f"{left}\ngate()\nwhile True: pass", workers=[1])
    gate.arrived()
    gate.open()
    handle.cancel()
    cell = "func.jvp(lambda: (len(forward.core.levels), func.JVP_NESTING))"
    assert s.run(cell).values == [(1, 1)] * 3
    assert (forward.core.levels, func.JVP_NESTING) == ([], 0)


def test_a_thread_that_was_given_up_leaves_the_level_of_another_worker_alone(start, gate, forward):
    s = start(2)
    handle = s.run_nowait("with forward.dual_level(): gate()", workers=[0])
    gate.arrived()
    handle.cancel()

    def meanwhile():
        given_up_comes_back(s, gate)
        return list(forward.core.levels), forward._current_level

    forward.meanwhile = meanwhile
    cell = "with forward.dual_level(): found = forward.meanwhile()\nfound"
    assert s.run(cell, workers=[1])[1] == ([0], 0)
    assert (forward.core.levels, forward._current_level, torch_forward._entered) == ([], -1, [])


def test_a_stop_that_strikes_before_the_level_is_noted_leaves_none(start, forward):
    s = start(2)
    forward.struck.append(ZeroDivisionError())
    with pytest.raises(CellError, match="ZeroDivisionError"):
        s.run("with forward.dual_level(): pass", workers=[0])
    assert forward.core.levels == []
    assert s.run("with forward.dual_level() as level: pass\nlevel").values == [0, 0]


def test_a_stop_that_strikes_before_it_is_noted_that_the_level_was_left_leaves_it_left(start, forward):
    s = start(2)
    s.run("forward.enter_dual_level()\nforward.core._exit_dual_level(level=0)  # and no further", workers=[0])
    assert s.run("with forward.dual_level() as level: pass\nlevel").values == [0, 0]


def test_a_stop_that_strikes_within_another_one_leaves_none(start, func, forward):
    s = start(2)
    forward.struck.append(ZeroDivisionError())
    with pytest.raises(CellError, match="ZeroDivisionError"):
        s.run("func.jvp(lambda: None)", workers=[0])
    assert (forward.core.levels, func.JVP_NESTING) == ([], 0)
    assert s.run("func.jvp(lambda: len(forward.core.levels))").values == [1, 1]


def test_one_that_cannot_be_left_yet_is_there_still(start, forward):
    s = start(2)
    s.run(
        "with forward.dual_level():\n"
        "    try: forward.exit_dual_level(level=3)\n"
        "    except RuntimeError: pass\n"
        "    assert forward.core.levels == [0]"
    )
    assert forward.core.levels == []


def test_a_collective_among_all_within_one_is_refused(start):
    s = start(2)
    with pytest.raises(CellError, match="forward-mode gradients are computed by one worker after the other"):
        s.run("with forward.dual_level(): barrier()")
    assert s.run("with forward.dual_level() as level: pass\nlevel").values == [0, 0]


def test_the_functions_are_pytorch_s_again_when_nobody_works(session, forward, func):
    names = ("enter_dual_level", "exit_dual_level")
    before = [vars(forward)[name] for name in names]
    s = session(2)
    assert vars(forward)["enter_dual_level"] is not before[0]
    assert vars(forward)["enter_dual_level"].__name__ == "enter_dual_level"
    s.shutdown()
    assert [vars(forward)[name] for name in names] == before
    assert torch_forward._forgetting == []
