"""What a stop says of models that it may have left in the midst of a step."""

from __future__ import annotations

import builtins
import re
import sys
import threading
from types import ModuleType

import pytest

from disco_magic.errors import CellError, SyncTimeout
from disco_magic.session import halfway
from tests.session.written import write

IMPORT = "from tests.values.sharded import ShardedNet"
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


@pytest.mark.parametrize("name", ["slow_library", "mine"])
@pytest.mark.parametrize("is_library", [True, False])
def test_a_library_whose_import_was_stopped_is_named(busy, folder, monkeypatch, is_library, name):
    monkeypatch.setattr(halfway, "is_of_library", lambda origin: is_library and "slow" in origin)
    monkeypatch.setattr(builtins, "disco_begun", threading.Event(), raising=False)
    begun = "import builtins\nbuiltins.disco_begun.set()\nwhile True: pass"
    write(folder, {"slow_library/__init__.py": "from . import part", "slow_library/part.py": begun})
    write(folder, {"mine.py": "import slow_library"})
    s = busy(2)
    with pytest.raises(KeyboardInterrupt) as caught:
        s.run(
            f"import builtins\nif worker_id == 1: import {name}\n"
            "builtins.disco_begun.wait()\ninterrupt_main()\nwhile True: pass"
        )
    said = "The import of slow_library was stopped half-way: the next one may fail until the process ends"
    assert (said in str(caught.value)) == is_library


def test_an_import_that_fails_later_on_is_said_to_have_been_stopped(busy, folder, monkeypatch):
    monkeypatch.setattr(halfway, "is_of_library", lambda origin: "library" in origin)
    monkeypatch.setattr(halfway, "_STOPPED", {})
    monkeypatch.setattr(builtins, "disco_begun", threading.Event(), raising=False)
    fails = "import builtins\nif builtins.disco_begun.is_set(): 1 / 0\nbuiltins.disco_begun.set()\n"
    write(folder, {"cut_library.py": f"{fails}while True: pass", "whole_library.py": "1 / 0"})
    s = busy(2)
    with pytest.raises(KeyboardInterrupt, match="The import of cut_library was stopped") as caught:
        s.run(
            "import builtins\nif worker_id: import cut_library\n"
            "builtins.disco_begun.wait()\ninterrupt_main()\nwhile True: pass"
        )
    stop = caught.value.result.errors[1].exception
    found = [halfway.imported_again(stop)]
    for name in ("cut_library", "whole_library"):
        with pytest.raises(CellError) as caught:
            s.run(f"import {name}", workers=[0])
        found.append(halfway.imported_again(caught.value.origin.exception))
    said = "an import of cut_library was stopped half-way earlier: it may fail until the process ends"
    assert found == ["", said, ""]


def test_models_in_the_midst_of_a_step_are_named_with_what_helps(busy, fsdp):
    s = busy(2)
    s.run(f"{IMPORT}\nnet, other, idle = ShardedNet('PRE_BACKWARD'), 1, ShardedNet()")
    assert (
        "net is in the midst of a step, where a sharded model (FSDP) leaves out collectives from then on: "
        "make it anew and load its state_dict(), after reshard(), or a checkpoint. "
        "`for batch in worker.steps(batches):` is stopped between two steps"
    ) in stopped(s)
    s.run("class Trainer: pass\ntrainer = Trainer()\nif worker_id: trainer.net = ShardedNet('POST_BACKWARD')")
    assert "net, trainer.net are in the midst of a step" in stopped(s)
    s.run("net = trainer = None\nother = ShardedNet(1)")
    assert "other may be in the midst of a step" in stopped(s)


def test_models_that_can_be_reset_or_keep_gradients_say_so(busy, fsdp):
    s = busy(2)
    s.run("from tests.values.sharded import ResettableNet\nnet = ResettableNet('PRE_BACKWARD')")
    assert (
        "from then on: call its reset_iter_state() on all workers, then a backward pass that reduces, and "
        "zero_grad(), which drops what the step has left; or make it anew and load its state_dict(), after"
    ) in stopped(s)
    s.run(
        "from tests.values.sharded import FullyShardedDataParallel\nnet = FullyShardedDataParallel(queued=1)"
    )
    assert "make it anew and load a checkpoint" in stopped(s)
    s.run("net = [ResettableNet(kept='whole')]")
    assert (
        "net[0] keeps gradients of micro-steps (FSDP), which the next reduction adds and zero_grad() leaves: "
        "to drop them, a backward pass after set_requires_gradient_sync(True), then zero_grad()"
    ) in stopped(s)


def test_an_error_names_them_too(busy, fsdp):
    s = busy(2)
    s.run(f"{IMPORT}\nnet = ShardedNet('PRE_BACKWARD')")
    for cell in "1/0", "if worker_id: 1/0":
        with pytest.raises(CellError) as caught:
            s.run(cell)
        [note] = caught.value.__notes__
        assert note.startswith("net is in the midst of a step")
        assert "worker.steps" not in note
    late = s.run_nowait("1/0")
    for _ in range(2):
        with pytest.raises(CellError) as caught:
            late.wait()
    assert len(caught.value.__notes__) == 1
    with pytest.raises(SyncTimeout) as too_late:
        s.run("while True: pass", timeout=0.01)
    assert too_late.value.__notes__ == [note]


def test_a_forward_pass_that_all_have_cut_at_the_same_place_is_fine(busy, fsdp):
    s = busy(2)
    s.run(f"{IMPORT}\nnet = ShardedNet('FORWARD')")
    with pytest.raises(CellError) as caught:
        s.run("1/0")
    assert not hasattr(caught.value, "__notes__")
    s.run("if worker_id: net = ShardedNet()")
    with pytest.raises(CellError) as caught:
        s.run("1/0")
    assert caught.value.__notes__[0].startswith("net may be in the midst of a step")


def test_nothing_is_said_while_workers_go_on(busy, fsdp, here):
    s = busy(2)
    s.run(f"{IMPORT}\nnet = ShardedNet('PRE_BACKWARD')")
    failed = s.run_nowait("1/0")
    s.run_nowait("here()\nwhile True: pass")
    here.arrived(2)
    with pytest.raises(CellError) as caught:
        failed.wait()
    assert not hasattr(caught.value, "__notes__")
    s.shutdown(timeout=0)  # else it waits for the loop


def test_nothing_is_said_where_there_are_none(busy, fsdp, monkeypatch):
    s = busy(1)
    s.run("fsdp = 'FSDP'\nclass FSDPNet: __module__ = 'torch.distributed.fsdp.net'")
    assert "FSDP" not in stopped(s)
    s.run(f"{IMPORT}\nnet = ShardedNet('PRE_BACKWARD')")
    monkeypatch.delitem(sys.modules, "torch.distributed.fsdp")
    assert "FSDP" not in stopped(s)


def test_nothing_is_said_of_a_loop_that_has_ended_between_two_steps(busy, fsdp):
    s = busy(2)
    s.run(f"{IMPORT}\nnet = ShardedNet('PRE_BACKWARD')")
    with pytest.raises(KeyboardInterrupt, match="between two steps: workers") as caught:
        s.run(
            "for step in worker.steps(range(10**9)):\n    barrier()\n"
            "    if step == 3 and worker_id == 0: interrupt_main()"
        )
    assert "FSDP" not in str(caught.value)


SHARDED = """
import torch, torch.distributed as dist, torch.nn as nn
from torch.distributed.fsdp import fully_shard
torch.set_num_threads(1)
dist.init_process_group()
def make():
    torch.manual_seed(0)
    made = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))
    for layer in made[::2]: fully_shard(layer)
    fully_shard(made)
    return made, torch.optim.SGD(made.parameters(), lr=1e-2)
def step(net, opt, number=0):
    torch.manual_seed(10 * number + worker_id)
    opt.zero_grad()
    loss = net(torch.randn(8, 16)).square().mean()
    loss.backward()
    opt.step()
    return loss.item()
def boom(*_): 1 / 0
net, opt = make()
right = make()
"""
ANEW = "net.reshard(); state = net.state_dict(); net, opt = make(); net.load_state_dict(state)"
AGREE = "assert [step(net, opt, n) for n in range(3)] == [step(*right, n) for n in range(3)]"


def test_a_sharded_model_goes_on_when_it_was_made_anew(busy):
    pytest.importorskip("torch")
    s = busy(2)
    s.run(SHARDED)
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            s.run(
                "for number in range(10**9):\n    step(net, opt)\n"
                "    if number == 9 and worker_id == 0: interrupt_main()"
            )
        s.run(f"{ANEW}\nfor _ in range(5): step(net, opt)")


RESET = """
net.reset_iter_state()
net.set_requires_gradient_sync(True)
net(torch.randn(8, 16)).square().mean().backward()
opt.zero_grad()
"""
COPIED = "net.reshard()\nright = make()\nright[0].load_state_dict(net.state_dict())"


@pytest.mark.parametrize("part", ["[:]", '["dp"]'])
@pytest.mark.parametrize("where", ["register_forward_hook", "register_full_backward_hook"])
@pytest.mark.parametrize("who", ["True", "worker_id == 0"])
def test_a_sharded_model_goes_on_when_it_was_reset(busy, part, where, who):
    pytest.importorskip("torch")
    s = busy(4)
    mesh = f'mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp")){part}'.removesuffix("[:]")
    imported = "from torch.distributed.device_mesh import init_device_mesh"
    source = SHARDED.replace("def make", f"{imported}\n{mesh}\ndef make")
    s.run(re.sub(r"fully_shard\((\w+)\)", r"fully_shard(\1, mesh=mesh)", source))
    if not s.run("hasattr(net, 'reset_iter_state')").values[0]:
        pytest.skip("from PyTorch 2.14 on")
    s.run(f"net.set_requires_gradient_sync(False)\nstep(net, opt)\nif {who}: hook = net[2].{where}(boom)")
    with pytest.raises(CellError) as caught:
        s.run("step(net, opt)")
    assert re.match("net (is|may be|keeps)", caught.value.__notes__[0])
    s.run(f"if {who}: hook.remove()")
    s.run(RESET)
    s.run(COPIED)
    s.run(AGREE)


@pytest.mark.parametrize("where", ["register_forward_hook", "register_full_backward_hook"])
@pytest.mark.parametrize("who", ["True", "worker_id == 0"])
def test_a_sharded_model_after_an_error(busy, where, who):
    pytest.importorskip("torch")
    s = busy(2)
    s.run(f"{SHARDED}\n{AGREE}\nif {who}: hook = net[2].{where}(boom)")
    with pytest.raises(CellError) as caught:
        s.run("step(net, opt)")
    s.run(f"if {who}: hook.remove()")
    if where == "register_forward_hook" and who == "True":  # it can go on
        assert not hasattr(caught.value, "__notes__")
    else:
        assert re.match("net (is|may be) in the midst of a step", caught.value.__notes__[0])
        with pytest.raises(CellError):
            s.run(AGREE)
        s.run(ANEW + "\nright = make()\nright[0].load_state_dict(state)")
    s.run(AGREE)
