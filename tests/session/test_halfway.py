"""What a stop says of models that it may have left in the midst of a step."""

from __future__ import annotations

import re
import sys
from types import ModuleType

import pytest

from disco_magic.session import halfway

STOPPED = "if worker_id == 0: interrupt_main()\nwhile True: pass"


@pytest.fixture
def fsdp(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.distributed.fsdp", ModuleType("torch.distributed.fsdp"))


def stopped(s):
    with pytest.raises(KeyboardInterrupt) as caught:
        s.run(STOPPED)
    return str(caught.value)


@pytest.mark.parametrize("how", ["except KeyboardInterrupt", "finally"])
def test_collectives_in_cleaning_up_are_refused_and_named(busy, how):
    s = busy(2)
    s.run("saved = 0")
    with pytest.raises(KeyboardInterrupt) as caught:
        s.run(
            "try:\n    barrier()\n    if worker_id == 0: interrupt_main()\n    while True: pass\n"
            f"{how}:\n    allreduce(1)\n    saved = 1"
        )
    assert re.search(
        r"A collective at Cell \d+, line 6 on workers \[0-1\] was refused, in cleaning up after the stop:"
        " each worker is stopped by itself. `for batch in worker.steps",
        str(caught.value),
    )
    assert s["saved"].get_all() == [0, 0]


def test_collectives_in_a_finally_around_steps_are_not(busy):
    s = busy(2)
    with pytest.raises(KeyboardInterrupt, match="between two steps"):
        s.run(
            "try:\n    for step in worker.steps(range(10**9)):\n        barrier()\n"
            "        if step == 3 and worker_id == 0: interrupt_main()\n"
            "finally:\n    saved = allgather(worker_id).tolist()"
        )
    assert s["saved"].get_all() == [[0, 1]] * 2


def test_nothing_is_said_of_who_is_stopped_before_a_collective_or_in_one(busy, here):
    s = busy(2)
    with pytest.raises(KeyboardInterrupt) as caught:
        s.run("here()\nif worker_id == 0: here.arrived(2), interrupt_main()\nwhile True: allreduce(1)")
    assert "refused" not in str(caught.value)


def test_models_that_are_sharded_are_named_with_what_helps(busy, fsdp):
    s = busy(2)
    s.run("class FSDPNet: __module__ = 'torch.distributed.fsdp'\nnet, other = FSDPNet(), 1")
    s.run("class FSDPConfig: pass\nconfig = FSDPConfig()")
    said = stopped(s)
    assert (
        "net is sharded (FSDP) and may be in the midst of a step: make it anew and load its state_dict(),"
        " after reshard(), or a checkpoint. `for batch in worker.steps(batches):` is stopped between two"
    ) in said
    s.run("class FullyShardedDataParallel(FSDPNet): pass\nif worker_id: old = FullyShardedDataParallel()")
    assert "net, old are sharded (FSDP) and may be in the midst of a step: make them anew" in stopped(s)


def test_nothing_is_said_where_there_are_none(busy, fsdp, monkeypatch):
    s = busy(1)
    s.run("fsdp = 'FSDP'\nclass FSDPNet: __module__ = 'torch.distributed.fsdp'")
    assert "FSDP" not in stopped(s)
    s.run("net = FSDPNet()")
    monkeypatch.delitem(sys.modules, "torch.distributed.fsdp")
    assert not halfway.may_be_sharded()
    assert "FSDP" not in stopped(s)


def test_nothing_is_said_of_a_loop_that_has_ended_between_two_steps(busy, fsdp):
    s = busy(2)
    s.run("class FSDPNet: __module__ = 'torch.distributed.fsdp'\nnet = FSDPNet()")
    with pytest.raises(KeyboardInterrupt, match="between two steps: workers") as caught:
        s.run(
            "for step in worker.steps(range(10**9)):\n    barrier()\n"
            "    if step == 3 and worker_id == 0: interrupt_main()"
        )
    assert "FSDP" not in str(caught.value)


def test_a_sharded_model_goes_on_when_it_was_made_anew(busy):
    pytest.importorskip("torch")
    s = busy(2)
    s.run(
        "import torch, torch.distributed as dist, torch.nn as nn\n"
        "from torch.distributed.fsdp import fully_shard\n"
        "torch.set_num_threads(1)\ndist.init_process_group()\n"
        "def make():\n    made = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))\n"
        "    fully_shard(made)\n    return made, torch.optim.SGD(made.parameters(), lr=1e-3)\n"
        "def step():\n    opt.zero_grad(); net(torch.randn(8, 64)).square().mean().backward(); opt.step()\n"
        "net, opt = make()\n"
    )
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt, match=r"net is sharded \(FSDP\)"):
            s.run(
                "for number in range(10**9):\n    step()\n"
                "    if number == 9 and worker_id == 0: interrupt_main()"
            )
        s.run("net.reshard()\nstate = net.state_dict()\nnet, opt = make()\nnet.load_state_dict(state)")
        s.run("for _ in range(5): step()")
