"""Hooks for the modules of all, on a stand-in for the tables that PyTorch has of them."""

from __future__ import annotations

from collections import OrderedDict

import pytest

from disco_magic.isolation.pytorch.hooks import _TABLES
from tests.isolation.pytorch.torch_module import install

NAME = "torch.nn.modules.module"
TABLE = "_global_forward_hooks"


@pytest.fixture
def modules(monkeypatch):
    found = install(monkeypatch, NAME, **{name: OrderedDict() for name in _TABLES})
    found.call = lambda: [hook("module", "given", out=1) for hook in getattr(found, TABLE).values()]
    return found


def test_a_worker_s_hook_sees_what_that_worker_calls(session, modules):
    s = session(3, extras=lambda _: {"modules": modules})
    s.run(
        "seen = []\nfor each in range(3):\n    barrier()\n    if each == worker_id:"
        f" modules.{TABLE}[worker_id] = lambda *given, **named: seen.append((given, named)) or worker_id\n"
        "barrier()\n"
        "for _ in range(5): got = modules.call()"
    )
    assert s.run("len(seen), seen[0], got").values == [
        (5, (("module", "given"), {"out": 1}), [worker if each == worker else None for each in range(3)])
        for worker in range(3)
    ]
    assert modules.call() == [None] * 3
    s.run(f"del modules.{TABLE}[worker_id]")
    assert modules.call() == []


@pytest.mark.parametrize("name", sorted(_TABLES))
@pytest.mark.parametrize("way", ["values", "items"])
def test_hooks_may_come_while_pytorch_calls_those_that_are_there(session, modules, name, way):
    s = session(1, extras=lambda _: {"modules": modules})
    s.run(
        f"hooks = modules.{name}\nhooks[0] = hooks[1] = len\n"
        f"for number, _ in enumerate(hooks.{way}(), start=2): hooks[number] = len"
    )
    assert s.run("len(hooks)").values == [4]


def test_threads_of_a_worker_are_the_worker(session, modules):
    s = session(1, extras=lambda _: {"modules": modules})
    s.run(f"modules.{TABLE}[0] = lambda *given, **named: 'seen'")
    s.run(
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(1) as pool: got = pool.submit(modules.call).result()"
    )
    assert s["got"].get(0) == ["seen"]


def test_the_kind_of_backward_hooks_is_what_it_was_in_the_end(session, modules):
    modules._global_is_full_backward_hook = None
    s = session(1, extras=lambda _: {"modules": modules})
    s.run("modules._global_is_full_backward_hook = True\nmodules._global_backward_hooks[0] = len")
    s.shutdown()
    assert modules._global_is_full_backward_hook is None


def test_a_hook_of_the_notebook_is_for_all_and_stays_when_the_session_has_ended(session, modules):
    s = session(2, extras=lambda _: {"modules": modules})
    getattr(modules, TABLE)[7] = lambda *_given, **_named: "seen"
    assert s.run("modules.call()").values == [["seen"]] * 2
    s.run(f"modules.{TABLE}[worker_id] = print")
    s.shutdown()
    assert modules.call() == ["seen"]
    del getattr(modules, TABLE)[7]


def test_a_table_with_hooks_is_left_as_it_is_and_the_others_are_as_before_in_the_end(session, modules):
    before = {name: vars(modules)[name] for name in _TABLES}
    before[TABLE][1] = print
    s = session(1)
    assert vars(modules)[TABLE] is before[TABLE]
    assert vars(modules)["_global_backward_hooks"] is not before["_global_backward_hooks"]
    s.shutdown()
    assert {name: vars(modules)[name] for name in _TABLES} == before
    assert all(vars(modules)[name] is before[name] for name in _TABLES)


def test_hooks_end_with_their_worker(session, modules):
    s, other = (session(2, extras=lambda _: {"modules": modules}) for _ in range(2))
    for each in (s, other):
        each.run(f"modules.{TABLE}[worker.session_id, worker_id] = len")
    s.shutdown()
    assert set(getattr(modules, TABLE)) == {(other.id, 0), (other.id, 1)}
    other.restart()
    assert not getattr(modules, TABLE)


def test_those_of_backward_passes_are_fetched_for_who_calls_the_module(session, modules):
    # PyTorch may call them in a thread of its own, which is no worker's.
    s = session(2, extras=lambda _: {"modules": modules})
    table = vars(modules)["_global_backward_hooks"]
    table["ours"] = len
    s.run("hook = lambda *given: worker_id\nmodules._global_backward_hooks[worker_id] = hook")
    s.run("fetched = list(modules._global_backward_hooks.values())")
    assert s.run("fetched == [len, hook]").values == [True, True]
    assert [hook() for hook in s.call_packed(lambda hooks: hooks[1:], s["fetched"]).get(1)] == [1]
    assert table.values() == [len]
    del table["ours"]


def test_hooks_for_optimizers_are_each_worker_s_too(session, monkeypatch):
    name = "_global_optimizer_post_hooks"
    module = install(monkeypatch, "torch.optim.optimizer", **{name: OrderedDict()})
    module.step = lambda: [hook() for hook in vars(module)[name].values()]
    s = session(3, extras=lambda _: {"optimizers": module})
    s.run(
        "for each in range(3):\n    barrier()\n"
        f"    if each == worker_id: optimizers.{name}[each] = lambda: worker_id"
    )
    assert s.run("optimizers.step()").values == [
        [worker if each == worker else None for each in range(3)] for worker in range(3)
    ]
    s.shutdown()
    assert module.step() == []
