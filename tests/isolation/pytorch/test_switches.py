"""Switches of PyTorch's that workers turn, on a stand-in for their functions."""

from __future__ import annotations

import sys
import threading
from types import ModuleType

import pytest

from disco_magic.callers.current import calling_worker
from disco_magic.errors import CellError
from disco_magic.isolation.pytorch import switches as torch_switches
from tests.conftest import until
from tests.isolation.pytorch.torch_module import install

FLASH = """
def flash(on):
    before = torch._C._get_flash_sdp_enabled()
    torch._C._set_sdp_use_flash(on)
    return before
def back(before):
    torch._C._set_sdp_use_flash(before)
def is_on():
    return torch._C._get_flash_sdp_enabled()
"""


class ContextProp:
    """PyTorch's: a setting that is an attribute of a module."""

    def __init__(self, getter, setter):
        self.getter, self.setter = getter, setter

    def __get__(self, module, kind=None):
        return self.getter()

    def __set__(self, module, value):
        self.setter(value)


@pytest.fixture
def torch(monkeypatch):
    """The package, with one switch of one value and one of two, which is in two modules."""
    state = {"flash": True, "anomaly": (False, True)}
    core = ModuleType("torch._C")
    core._get_flash_sdp_enabled = lambda: state["flash"]
    core._set_sdp_use_flash = lambda on: state.update(flash=on)
    core.is_anomaly_enabled = lambda: state["anomaly"][0]
    core.is_anomaly_check_nan_enabled = lambda: state["anomaly"][1]
    core.set_anomaly_enabled = lambda on, check_nan=True: state.update(anomaly=(on, check_nan))
    names = ("is_anomaly_enabled", "is_anomaly_check_nan_enabled", "set_anomaly_enabled")
    shown = {name: getattr(core, name) for name in names}
    setting = ContextProp(core._get_flash_sdp_enabled, core._set_sdp_use_flash)
    backends = ModuleType("torch.backends")
    backends.attention = type("AttentionModule", (ModuleType,), {"enabled": setting})("attention")
    return install(monkeypatch, "torch", _C=core, state=state, setting=setting, backends=backends, **shown)


@pytest.fixture
def s(session, torch):
    started = session(3, extras=lambda _: {"torch": torch})
    started.run(FLASH)
    return started


def test_the_last_one_who_leaves_puts_back_what_the_process_had(s, torch):
    s.run("before = flash(False)", workers=[0])
    s.run("before = flash(False)", workers=[1])
    assert s.run("before", workers=[0, 1]).values == [True, True]
    assert torch.state["flash"] is False
    s.run("back(before)", workers=[0])
    assert torch.state["flash"] is False
    s.run("back(before)", workers=[1])
    assert torch.state["flash"] is True


def test_each_sees_what_it_has_set_or_what_the_process_has(s, torch):
    s.run("flash(False)", workers=[1])
    assert s.run("is_on()").values == [True, False, True]
    assert torch.state["flash"] is False
    assert torch._C._get_flash_sdp_enabled() is True  # else a block of the notebook's would put that back
    s.run("flash(True)", workers=[1])
    assert s.run("is_on()").values == [True] * 3
    assert torch.state["flash"] is True


class _LaterThanOthers:
    """A lock that worker 0 is given when the others have done theirs."""

    def __init__(self):
        self.open, self._lock = threading.Event(), threading.RLock()

    def __enter__(self):
        if calling_worker() is not None and calling_worker().id == 0:
            assert self.open.wait(20.0)
        self._lock.acquire()

    def __exit__(self, *_):
        self._lock.release()


def test_who_looks_while_another_one_turns_it_sees_what_was_there(s, torch, monkeypatch):
    lock = _LaterThanOthers()
    monkeypatch.setattr(torch_switches, "_lock", lock)
    looking = s.run_nowait("seen = is_on()", workers=[0])
    s.run("flash(False)", workers=[1])
    lock.open.set()
    looking.wait()
    assert s["seen"].get(0) is True


def test_of_several_values_the_one_that_was_set_last_and_is_still_wanted_holds(s, torch):
    for worker, value in enumerate(("first", "second", "third")):
        s.run(f"flash({value!r})", workers=[worker])
    assert torch.state["flash"] == "third"
    s.run("flash('again')", workers=[0])
    assert torch.state["flash"] == "again"
    s.run("flash(True)", workers=[0])
    assert torch.state["flash"] == "third"
    assert s.run("is_on()").values == [True, "second", "third"]


def test_the_process_can_turn_it_too_and_that_is_what_is_put_back(s, torch):
    s.run("before = flash('mine')", workers=[0])
    torch._C._set_sdp_use_flash("ours")
    assert torch.state["flash"] == "ours"
    assert s.run("is_on()").values == ["mine", "ours", "ours"]
    s.run("flash('ours')", workers=[0])
    assert torch.state["flash"] == "ours"
    torch._C._set_sdp_use_flash(True)
    assert s.run("is_on()").values == [True] * 3


def test_settings_that_are_attributes_are_the_same_switch(s, torch):
    s.run("torch.backends.attention.enabled = False", workers=[1])
    assert s.run("torch.backends.attention.enabled").values == [True, False, True]
    assert s.run("is_on()").values == [True, False, True]
    s.run("flash(True)", workers=[1])
    assert torch.backends.attention.enabled is True


BLOCK = """
from contextlib import contextmanager
@contextmanager
def without():
    before = flash(False)
    try:
        yield
    finally:
        back(before)
"""


def test_a_stop_that_strikes_where_a_block_begins_leaves_nothing(s, torch):
    s.run(BLOCK)
    s.run("flash('mine')", workers=[1])
    handle = s.run_nowait("entered = without()\nentered.__enter__()\nwhile True: pass")
    # Worker 1 wanted something before: how many want anything does not tell that it has begun.
    until(lambda: any([*each._wanted.values()] == [(False,)] * 3 for each in torch_switches._switches))
    handle.cancel()
    assert s.run("is_on()").values == [True, "mine", True]
    assert torch.state["flash"] == "mine"
    s.run("entered.gen.close()")
    assert s.run("is_on()").values == [True, "mine", True]


def test_what_is_set_for_good_stays_when_its_cell_is_stopped(s, torch, monkeypatch):
    monkeypatch.setattr(torch_switches._switches[0], "lasting", True)
    handle = s.run_nowait("torch.set_anomaly_enabled(True)\nwhile True: pass")
    until(lambda: len(torch_switches._switches[0]._wanted) == 3)
    handle.cancel()
    assert s.run("torch.is_anomaly_enabled()").values == [True] * 3


def test_a_block_that_the_notebook_forgets_does_not_set_it_for_the_process(s, torch):
    s.run(BLOCK)
    s.run("flash(False)")
    left = s.call_packed(lambda make: [make()], s["without"])
    s.call_packed(lambda blocks: blocks[0].gen.send(None), left)
    s.run("back(True)")
    assert torch.state["flash"] is True
    for (block,) in s.examine(left, list):
        block.gen.close()  # what the garbage collector does, in whichever thread
    assert torch.state["flash"] is True


def test_what_a_worker_wants_ends_with_its_session(s, torch):
    s.run("flash(False)")
    s.restart()
    assert torch.state["flash"] is True
    assert s.run("torch._C._get_flash_sdp_enabled()").values == [True] * 3


def test_switches_of_two_values_have_them_by_place_by_name_or_as_they_are_unless_said(s, torch):
    s.run("torch.set_anomaly_enabled(True, check_nan=False)", workers=[0])
    assert torch.state["anomaly"] == (True, False)
    s.run("torch._C.set_anomaly_enabled(True)", workers=[1])
    seen = "torch.is_anomaly_enabled(), torch._C.is_anomaly_check_nan_enabled()"
    assert s.run(seen).values == [(True, False), (True, True), (False, True)]
    s.run("torch.set_anomaly_enabled(False, True)")
    assert torch.state["anomaly"] == (False, True)


@pytest.mark.parametrize(
    "call", ["set_anomaly_enabled()", "set_anomaly_enabled(1, 2, 3)", "set_anomaly_enabled(1, x=2)"]
)
def test_what_cannot_be_set_is_refused_as_ever(s, call, torch):
    with pytest.raises(CellError, match="TypeError"):
        s.run(f"torch.{call}")
    assert torch.state["anomaly"] == (False, True)


def test_all_is_as_before_when_the_session_has_ended(session, torch):
    before, first = (dict(vars(torch)), dict(vars(torch._C))), torch.setting.getter
    started = session(1)
    assert vars(torch._C) != before[1]
    assert torch.setting.getter is not first
    started.shutdown()
    assert (dict(vars(torch)), dict(vars(torch._C))) == before
    assert torch.setting.getter is first
    assert sys.modules["torch"] is torch
