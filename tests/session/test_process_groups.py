"""Programs of `torch.distributed`, as they are written for processes, where PyTorch is installed."""

from __future__ import annotations

import re
import sys
import threading

import pytest

from disco_magic.errors import CellError

torch = pytest.importorskip("torch")
# What PyTorch says of itself from version to version is not the matter here.
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.filterwarnings("error::pytest.PytestWarning")]
if not torch.distributed.is_available():
    pytest.skip("PyTorch was built without torch.distributed", allow_module_level=True)

# A model that is the same everywhere, each worker's data, and what one process would compute of all of it.
TASK = """
import torch
import torch.distributed as dist
from torch import nn

if not dist.is_initialized():
    dist.init_process_group()

def model():
    rng = torch.Generator().manual_seed(0)
    made = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    for p in made.parameters():
        p.data = torch.randn(p.shape, generator=rng) / 4
    return made

data = torch.randn(num_workers, 5, 8, generator=torch.Generator().manual_seed(1))

def trained(net, *batches, steps=3):
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(steps):
        opt.zero_grad()
        torch.stack([net(x).square().mean() for x in batches]).mean().backward()
        opt.step()
    return net

alone = [p.detach() for p in trained(model(), *data).parameters()]

def same(parameters):
    return all(torch.allclose(a, b, atol=1e-6) for a, b in zip(parameters, alone, strict=True))
"""


@pytest.fixture
def s(session):
    """Four workers in a process group."""
    started = session(4)
    started.run(TASK)
    return started


def test_a_compiler_that_asks_other_workers_is_told_that_it_is_its_turn_alone(session):
    # It makes a group of its own for that, since PyTorch 2.15, and failed there: no attribute 'options'.
    config = pytest.importorskip("torch._functorch.config")
    if not hasattr(config, "_sync_decision_cross_ranks"):
        pytest.skip("this PyTorch's compiler asks nobody")
    s = session(2)
    s.run(f"{TASK}import torch.distributed._functional_collectives as fc")
    with pytest.raises(CellError) as caught:
        s.run(
            "def f(x):\n"
            "    y = torch.relu(x @ x)\n"
            "    return torch.sin(fc.all_reduce(y, 'sum', dist.group.WORLD)) * torch.cos(y)\n"
            "x = torch.ones(4, 4, requires_grad=True)\n"
            "from torch._functorch import config\n"
            "with config.patch('_sync_decision_cross_ranks', True):\n"
            "    torch.compile(f, backend='aot_eager_decomp_partition')(x)\n"
        )
    assert "models are compiled by one worker after the other" in str(caught.value)


def all_true(session, line):
    assert session.run(line).values == [True] * session.num_workers


def test_ranks_are_workers_and_the_session_carries_everything(s):
    s.run("ranks = dist.get_process_group_ranks(dist.group.WORLD)")
    told = s.run("dist.get_rank(), dist.get_world_size(), dist.get_backend(), ranks")
    assert told.values == [(worker, 4, "disco", [0, 1, 2, 3]) for worker in range(4)]


def test_how_long_a_collective_would_take_is_refused_as_by_a_backend_that_cannot_tell(s):
    # PyTorch's compiler asks the same on GPUs, by a name that differs from version to version.
    if not hasattr(torch.distributed, "_time_estimator"):
        pytest.skip("this version of PyTorch asks no backend for that")
    s.run("try:\n    with dist._time_estimator(): pass\nexcept NotImplementedError: told = True")
    all_true(s, "told")


@pytest.mark.parametrize("backend", [None, "gloo", "nccl", "cpu:gloo,cuda:nccl", "disco"])
def test_whatever_backend_is_asked_for(session, backend):
    started = session(2)
    started.run(f"import torch\nimport torch.distributed as dist\ndist.init_process_group({backend!r})")
    started.run("t = torch.ones(2) * worker_id\ndist.all_reduce(t)")
    assert started.run("t.tolist(), dist.get_backend()").values == [([1, 1], "disco")] * 2


def test_collectives_fill_the_tensors_that_are_given(s):
    s.run(
        """
me = float(worker_id)
x = torch.tensor(me); dist.all_reduce(x, dist.ReduceOp.AVG)
parts = [torch.empty(worker + 1) for worker in range(4)]
dist.all_gather(parts, torch.full((worker_id + 1,), me))
whole = torch.empty(8); dist.all_gather_into_tensor(whole, torch.full((2,), me))
mine = torch.empty(2); dist.reduce_scatter_tensor(mine, torch.arange(8.0))
sent = torch.empty(4, 1); dist.all_to_all_single(sent, torch.full((4, 1), me))
top = torch.full((2,), me); dist.reduce(top, dst=3, op=dist.ReduceOp.MAX)
given = torch.empty(2); dist.scatter(given, list(torch.arange(8.0).chunk(4)) if me == 1 else None, src=1)
halves = torch.full((3,), me, dtype=torch.bfloat16); dist.broadcast(halves, src=2)
strided = torch.zeros(2, 3).T; dist.broadcast(strided.add_(me), src=3)
"""
    )
    shown = "x, [p.tolist() for p in parts], whole, mine, sent, given, halves, strided"
    for worker, (x, parts, whole, mine, sent, given, halves, strided) in enumerate(s.run(shown).values):
        assert x == 1.5
        assert parts == [[0], [1, 1], [2, 2, 2], [3, 3, 3, 3]]
        assert whole.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
        assert mine.tolist() == [8 * worker, 8 * worker + 4]
        assert sent.tolist() == [[0], [1], [2], [3]]
        assert given.tolist() == [2 * worker, 2 * worker + 1]
        assert halves.tolist() == [2, 2, 2]
        assert strided.tolist() == [[3, 3]] * 3
    assert s.run("top.tolist()").values == [[0, 0], [1, 1], [2, 2], [3, 3]]


def test_objects_and_messages(s):
    s.run(
        """
everybody = [None] * 4; dist.all_gather_object(everybody, {"worker": worker_id})
first = [{"a": 1}] if worker_id == 0 else [None]; dist.broadcast_object_list(first, src=0)
y = torch.empty(2)
asks = dist.P2POp(dist.irecv, y, (worker_id - 1) % 4)
gives = dist.P2POp(dist.isend, torch.full((2,), float(worker_id)), (worker_id + 1) % 4)
for work in dist.batch_isend_irecv([asks, gives]):
    work.wait()
if worker_id == 0: dist.send(torch.tensor([7]), 3, tag=1)
if worker_id == 3: z = torch.empty(1, dtype=torch.int64); dist.recv(z, 0, tag=1)
pairs, w = [dist.new_group([1, 2]) for _ in range(2)], torch.empty(2)
if worker_id == 1:
    for number, pair in enumerate(pairs): dist.send(torch.tensor([float(number)]), 2, group=pair)
if worker_id == 2: dist.recv(w[:1], 1, group=pairs[1]), dist.recv(w[1:], 1, group=pairs[0])
"""
    )
    assert s["w"].get(2).tolist() == [1, 0]
    assert s["everybody"].get(2) == [{"worker": worker} for worker in range(4)]
    assert s["first"].get_all() == [[{"a": 1}]] * 4
    assert s.run("y.tolist()").values == [[3, 3], [0, 0], [1, 1], [2, 2]]
    assert s["z"].get(3).tolist() == [7]


def test_replicas_with_ddp_learn_what_one_would(s):
    s.run("net = nn.parallel.DistributedDataParallel(model())\ntrained(net, data[worker_id])")
    all_true(s, "same(net.parameters())")
    s.run("worker.check(net.module)")


def test_compiled_functions_end_a_graph_at_a_collective(s):
    s.run(
        """
@torch.compile(backend="eager")
def step(x):
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    dist.broadcast(x, 1)
    return allreduce(x) + 1

y = step(torch.ones(2) * worker_id)
"""
    )
    assert s.run("y.tolist()").values == [[25, 25]] * 4


def test_collectives_of_functions_and_those_with_gradients(s):
    s.run(
        """
import datetime
import torch.distributed._functional_collectives as functional
import torch.distributed.nn.functional as differentiable

a = functional.all_reduce(torch.ones(2) * worker_id, "sum", dist.group.WORLD) + 0
b = functional.all_reduce(torch.ones(2), "sum", dist.group.WORLD)
in_time = dist.all_reduce(b, async_op=True).wait(datetime.timedelta(seconds=10))
x = torch.ones(2, requires_grad=True)
differentiable.all_reduce(x * worker_id).sum().backward()
"""
    )
    assert s.run("a.tolist(), x.grad.tolist()").values == [([6, 6], [4 * w, 4 * w]) for w in range(4)]
    assert s.run("b.tolist(), in_time").values == [([16, 16], True)] * 4


def test_a_pipeline_in_stages(s):
    s.run(
        """
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

rng = torch.Generator().manual_seed(0)
layers = [nn.Linear(4, 4) for _ in range(4)]
for p in nn.Sequential(*layers).parameters():
    p.data = torch.randn(p.shape, generator=rng)
stage = PipelineStage(layers[worker_id], worker_id, 4, torch.device("cpu"))
schedule = Schedule1F1B(stage, n_microbatches=4, loss_fn=lambda y, t: (y - t).square().mean())
x, out = torch.ones(4, 4), None
if worker_id == 0:
    schedule.step(x)
elif worker_id == 3:
    out = schedule.step(target=torch.zeros(4, 4), losses=[])
else:
    schedule.step()
"""
    )
    all_true(s, "worker_id < 3 or torch.allclose(out, nn.Sequential(*layers)(x))")


def test_groups_of_some_and_a_checkpoint_of_all(s, tmp_path):
    s.run("pair = dist.new_group([1, 3])\nt = torch.ones(1) * worker_id")
    s.run("if worker_id in (1, 3): dist.all_reduce(t, group=pair)")
    assert s.run("t.item()").values == [0, 4, 2, 4]
    s.put("path", str(tmp_path / "saved"))
    s.run(
        """
import torch.distributed.checkpoint as checkpoint
net = trained(nn.parallel.DistributedDataParallel(model()), data[worker_id])
checkpoint.save(net.module.state_dict(), checkpoint_id=path)
state = model().state_dict()
checkpoint.load(state, checkpoint_id=path)
"""
    )
    all_true(s, "same(list(state.values()))")


def test_what_fails_on_one_worker_releases_the_others_and_the_group_goes_on(s):
    with pytest.raises(CellError) as caught:
        s.run("if worker_id == 2: 1 / 0\ndist.all_reduce(torch.ones(2))")
    assert caught.value.failures[2].summary == "ZeroDivisionError: division by zero"
    with pytest.raises(CellError) as caught:
        s.run("t = torch.ones(2 + worker_id % 2)\ndist.all_reduce(t)")
    told = str(caught.value)
    assert "the members disagree on shape: workers [0,2] gave (2,), workers [1,3] gave (3,)" in told
    assert "site-packages" not in told
    s.run("t = torch.ones(2)\ndist.all_reduce(t)")
    assert s.run("t.tolist()").values == [[4, 4]] * 4


@pytest.mark.parametrize("call", ["reduce_scatter_tensor(x[:1], x)", "all_gather_into_tensor(x, x[:1])"])
def test_calls_that_pytorch_wraps_are_told_by_the_user_s_line(s, call):
    cell = f"x = torch.ones(3)\nif worker_id == 2: dist.barrier()\nelse:\n    dist.{call}"
    with pytest.raises(CellError, match=r"worker 2 called barrier at Cell \d+, line 2") as caught:
        s.run(cell)
    assert re.search(r"workers \[0-1,3\] called \w+ at Cell \d+, line 4", str(caught.value))
    assert "typing_extensions" not in str(caught.value)


def test_parts_of_any_lengths_are_exchanged_whichever_workers_pass_sizes(s):
    s.run(
        """
n = torch.tensor([[1, 1, 1, 1], [1, 2, 1, 1], [1, 1, 1, 1], [1, 1, 1, 2]])
ins, outs = n[worker_id].tolist(), n[:, worker_id].tolist()
some, x = torch.empty(sum(outs)), torch.full((sum(ins),), float(worker_id))
dist.all_to_all_single(some, x, *((outs, ins) if worker_id % 2 else ()))
lengths = torch.empty(10)
dist.all_to_all_single(lengths, torch.ones(4 * (worker_id + 1)), output_split_sizes=[1, 2, 3, 4])
line = torch.empty(8)
dist.all_to_all_single(line, torch.arange(8.0).reshape(4, 2))
"""
    )
    even = [0, 1, 2, 3]
    assert s.run("some.tolist()").values == [even, [0, 1, 1, 2, 3], even, [0, 1, 2, 3, 3]]
    assert s.run("lengths.tolist(), line.tolist()").values == [
        ([1] * 10, [2 * w, 2 * w + 1] * 4) for w in range(4)
    ]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("all_to_all_single(x, x, [2, 1, 1, 1], [2, 1, 1, 1])", r"all_to_all_single\(float32 \(5,\)\)"),
        ("all_to_all([*x[:4].chunk(4)], [*x[:4].chunk(4)])", r"all_to_all\(float32 \(1,\), parts=4\)"),
    ],
)
def test_what_exchanges_lengths_is_told_of_as_the_call_that_the_user_made(s, call, told):
    with pytest.raises(
        CellError, match=rf"without it, {told} that workers \[0,2-3\] wait in at Cell \d+, line 3"
    ):
        s.run(f"x = torch.ones(5)\nif worker_id == 1: 1 / 0\ndist.{call}")


def test_an_interrupt_ends_a_wait(s):
    pending = s.run_nowait("if worker_id: dist.barrier()\nwhile True: pass")
    while [each.state for each in s._launcher.positions()].count("waiting") < 3:
        threading.Event().wait(0.001)
    pending.cancel()
    with pytest.raises(CellError):
        pending.wait()
    s.run("dist.barrier()")


def test_groups_end_with_their_worker_and_by_themselves(s):
    s.run("dist.destroy_process_group()")
    assert s.run("dist.is_initialized()").values == [False] * 4
    s.run("dist.init_process_group()\nt = torch.ones(1)\ndist.all_reduce(t)")
    s.restart()
    s.run("import torch\nimport torch.distributed as dist")
    assert s.run("dist.is_initialized()").values == [False] * 4
    s.run("dist.init_process_group()\nt = torch.ones(1)\ndist.all_reduce(t)")
    assert s.run("t.item()").values == [4] * 4


def test_the_process_itself_may_have_a_group_beside_them(s):
    import torch.distributed as dist

    before = sys.excepthook
    assert not dist.is_initialized()
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    try:
        t = torch.ones(1)
        dist.all_reduce(t)
        assert (t.item(), dist.get_backend(), dist.get_world_size()) == (1, "gloo", 1)
        assert s.run("dist.get_world_size()").values == [4] * 4
    finally:
        dist.destroy_process_group()
        sys.excepthook = before
    s.run("dist.barrier()")


def test_a_script_of_torchrun_runs_as_it_is(s, tmp_path):
    path = tmp_path / "train.py"
    path.write_text(
        """
import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
t = torch.ones(1) * rank
dist.all_reduce(t)
print(rank, world, os.environ["LOCAL_RANK"], t.item())
dist.destroy_process_group()
"""
    )
    assert s.run_file(path).stdout == {worker: f"{worker} 4 {worker} 6.0\n" for worker in range(4)}


TENSOR_PARALLEL = """
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

dist.init_process_group()
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
columns = distribute_tensor(torch.arange(16.0).reshape(4, 4), mesh["tp"], [Shard(1)])
rows = distribute_tensor(torch.ones(4, 4), mesh["tp"], [Shard(0)])
total = (columns @ rows).full_tensor().sum().item()
dist.destroy_process_group()
"""


def test_a_script_that_destroys_its_groups_runs_a_second_time(session, tmp_path):
    """The second run met meshes of the first one in what DTensors keep for the process, without groups."""
    s = session(4)
    (tmp_path / "train.py").write_text(TENSOR_PARALLEL)
    for _ in range(2):
        s.run_file(tmp_path / "train.py")
        assert s.run("total").values == [480.0] * 4
    s.restart()
    s.run(TENSOR_PARALLEL)
    assert s.run("total").values == [480.0] * 4


def test_who_receives_from_anybody_is_told_of_as_receiving(s):
    line = "x = torch.zeros(1)\nif worker_id == 1: dist.recv(x)"
    with pytest.raises(CellError, match=r"a send for recv from any of workers \[0,2-3\] that worker 1"):
        s.run(line)
    s.run(f"{line}\nif worker_id == 2: dist.send(x, 1)")
    labels = [span.label for span in s.timeline().of_cell().spans if span.kind == "collective"]
    assert sorted(label.partition("(")[0] for label in labels) == ["probe", "recv", "send"]
