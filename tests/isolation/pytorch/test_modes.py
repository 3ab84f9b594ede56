"""What PyTorch knows of a thread after a cell was stopped, on a stand-in for its functions."""

from __future__ import annotations

import sys
import threading
from types import ModuleType

import pytest

from tests.isolation.pytorch.torch_module import install


class Threads(threading.local):
    """What each has."""

    def __init__(self):
        self.grad, self.depth, self.cleared = True, 0, 0
        self.autocast = {"cpu": (False, "bfloat16"), "cuda": (False, "float16")}
        self.stacks = {"function": [], "dispatch": []}


def _add_stack(made, kind, mine):
    setattr(made, f"_len_torch_{kind}_stack", lambda: len(mine()))
    setattr(made, f"_get_{kind}_stack_at", lambda place: mine()[place])
    setattr(made, f"_push_on_torch_{kind}_stack", lambda mode: mine().append(mode))
    setattr(made, f"_pop_torch_{kind}_stack", lambda *_: mine().pop())


def core(threads):
    """The part of PyTorch's functions that this is about."""
    made = ModuleType("torch._C")
    made.is_grad_enabled = lambda: threads.grad
    made._set_grad_enabled = lambda on: setattr(threads, "grad", on)
    made.is_autocast_enabled = lambda device: threads.autocast[device][0]
    made.get_autocast_dtype = lambda device: threads.autocast[device][1]

    def put(device, **now):
        is_on, dtype = threads.autocast[device]
        threads.autocast[device] = (now.get("on", is_on), now.get("dtype", dtype))

    made.set_autocast_enabled = lambda device, on: put(device, on=on)
    made.set_autocast_dtype = lambda device, dtype: put(device, dtype=dtype)
    made.clear_autocast_cache = lambda: setattr(threads, "cleared", threads.cleared + 1)

    def nest(by):
        threads.depth += by
        return threads.depth

    made.autocast_increment_nesting, made.autocast_decrement_nesting = lambda: nest(1), lambda: nest(-1)
    for kind in ("function", "dispatch"):
        _add_stack(made, kind, lambda kind=kind: threads.stacks[kind])
    return made


@pytest.fixture
def torch(monkeypatch):
    threads = Threads()
    return install(monkeypatch, "torch", _C=core(threads), threads=threads)


def stopped(s, line, gate):
    """A cell that ends half-way, behind `line`."""
    handle = s.run_nowait(f"{line}\ngate()\nwhile True: pass")
    gate.arrived(2)
    gate.open()
    handle.cancel()


NOW = "(of.grad, dict(of.autocast), [list(each) for each in of.stacks.values()], of.depth)"
USUAL = (True, {"cpu": (False, "bfloat16"), "cuda": (False, "float16")}, [[], []], 0)


@pytest.mark.parametrize(
    "line",
    [
        "c._set_grad_enabled(False)",
        "c.set_autocast_dtype('cpu', 'float16'); c.set_autocast_enabled('cpu', True)",
        "c.autocast_increment_nesting()",
        "c._push_on_torch_function_stack('meta')",
        "c._push_on_torch_dispatch_stack('counter'); c._push_on_torch_dispatch_stack('another one')",
    ],
)
def test_what_a_block_has_changed_before_it_could_be_left_is_put_back_by_a_stop(gated, gate, torch, line):
    s = gated(2, torch=torch)
    s.run("c, of = torch._C, torch.threads")
    stopped(s, line, gate)
    assert s.run(NOW).values == [USUAL] * 2


def test_what_a_cell_changes_for_good_stays_and_a_stopped_one_leaves_it(gated, gate, torch):
    s = gated(2, torch=torch)
    s.run(
        "c, of = torch._C, torch.threads\n"
        "c._set_grad_enabled(False)\n"
        "c._push_on_torch_function_stack('outer')\n"
        "c.autocast_increment_nesting()"
    )
    now = s.run(NOW).values
    # One takes all modes out for a moment, to put another one below them.
    stopped(s, "c._pop_torch_function_stack()\nc._set_grad_enabled(True)", gate)
    assert s.run(NOW).values == now
    assert now[0] == (False, USUAL[1], [["outer"], []], 1)


def test_the_cache_of_autocast_is_empty_where_none_is_left(gated, gate, torch):
    s = gated(2, torch=torch)
    s.run("c, of = torch._C, torch.threads")
    stopped(s, "c.autocast_increment_nesting()\nc.autocast_increment_nesting()", gate)
    assert s.run("of.cleared").values == [1, 1]


def test_a_cell_that_imports_it_begins_as_a_thread_does(gated, gate, monkeypatch):
    if "torch" in sys.modules:
        pytest.skip("PyTorch itself has been imported")
    types = {"bfloat16": "bfloat16", "float16": "float16"}
    threads = Threads()

    def put():
        install(monkeypatch, "torch", _C=core(threads), threads=threads, **types)

    s = gated(2, put=put)
    line = (
        "if worker_id == 0: put()\nbarrier()\nimport torch\nc, of = torch._C, torch.threads\n"
        "c._set_grad_enabled(False)\n"
        "c.set_autocast_dtype('cpu', 'float16'); c.set_autocast_enabled('cpu', True)"
    )
    stopped(s, line, gate)
    assert s.run(NOW).values == [USUAL] * 2


def test_a_version_that_lacks_some_of_it_is_put_back_as_far_as_it_goes(gated, gate, torch):
    for name in ("get_autocast_dtype", "autocast_increment_nesting", "_len_torch_dispatch_stack"):
        delattr(torch._C, name)
    s = gated(2, torch=torch)
    stopped(s, "torch._C._set_grad_enabled(False)", gate)
    assert s.run("torch._C.is_grad_enabled()").values == [True] * 2


def test_one_that_is_just_being_imported_is_left_alone(session, monkeypatch):
    install(monkeypatch, "torch")
    assert session(2).run("worker_id").values == [0, 1]


def test_where_it_is_said_not_to_be_there_cells_run(session, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert session(2).run("worker_id").values == [0, 1]
