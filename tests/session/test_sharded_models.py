"""PyTorch's FSDP, meshes and tensors that are split, on workers, where PyTorch is installed."""

from __future__ import annotations

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


def train_and_look(session, look):
    """Train `net` while somebody looks, once at least."""
    pending = session.run_nowait("trained(net, data[worker_id], steps=20)\nNone")
    looks = 0
    while not pending.done() or not looks:
        look()
        looks += 1
    pending.wait()


def all_true(session, line):
    assert session.run(line).values == [True] * session.num_workers


@pytest.mark.skipif(torch.__version__ < "2.7", reason="there it needs a GPU")
def test_sharded_with_fsdp_it_learns_the_same_and_may_be_looked_at_meanwhile(s):
    s.run(
        "from torch.distributed.fsdp import fully_shard\n"
        "from torch.distributed.device_mesh import init_device_mesh"
    )
    s.run("mesh = init_device_mesh('cpu', (4,))\nnet = model()")
    s.run("for each in (net[0], net[2], net): fully_shard(each, mesh=mesh)")
    train_and_look(s, s.registers)
    s.run("net = model()\nfor each in (net[0], net[2], net): fully_shard(each, mesh=mesh)")
    s.run("trained(net, data[worker_id])")
    all_true(s, "same([p.full_tensor() for p in net.parameters()])")


@pytest.mark.skipif(torch.__version__ < "2.7", reason="there it needs a GPU")
def test_a_model_of_which_each_worker_has_a_shard_differs_by_what_all_of_them_have_only(s):
    s.run("from torch.distributed.fsdp import fully_shard\nnet = model()")
    s.run("net.register_buffer('seen', torch.zeros(2))\nfully_shard(net)")
    assert not s.registers().row("net").differs
    s.run("if worker_id == 2: net.seen += 1")
    assert s.registers().row("net").differs


@pytest.mark.skipif(torch.__version__ < "2.7", reason="there it needs a GPU")
def test_in_mixed_precision_it_may_be_looked_at_meanwhile(s):
    s.run("from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard\nnet = model()")
    s.run("halves = MixedPrecisionPolicy(param_dtype=torch.bfloat16)")
    s.run("for each in (net[0], net[2], net): fully_shard(each, mp_policy=halves)")
    train_and_look(s, lambda: s.look_into("net"))


def test_the_older_fsdp_may_be_looked_at_meanwhile_too(s):
    s.run("from torch.distributed.fsdp import FullyShardedDataParallel as FSDP")
    s.run("net = FSDP(model(), device_id=torch.device('cpu'))")
    train_and_look(s, s.registers)
    s.run("net = FSDP(model(), device_id=torch.device('cpu'))\ntrained(net, data[worker_id])")
    all_true(s, "exec('with FSDP.summon_full_params(net): ok = same(net.parameters())') or ok")


def test_tensors_that_are_split_over_a_mesh(s):
    s.run(
        """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
x = torch.arange(32.0).reshape(8, 4)
d = distribute_tensor(x, mesh, [Shard(0), Shard(1)])
product = (d @ d.T).full_tensor()
net, inputs = model(), torch.ones(3, 8)
expected = net(inputs).detach()
got = parallelize_module(net, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})(inputs).detach()
"""
    )
    all_true(s, "torch.equal(product, x @ x.T) and torch.allclose(got, expected, atol=1e-6)")
    told = s.run("tuple(mesh.get_coordinate()), tuple(d.to_local().shape)").values
    assert told == [(at, (4, 2)) for at in ((0, 0), (0, 1), (1, 0), (1, 1))]


def test_of_what_is_split_each_workers_part_is_seen_and_compared(s):
    s.run(
        """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

mesh = init_device_mesh("cpu", (2, 2))
d = distribute_tensor(torch.arange(8.0), mesh, [Replicate(), Shard(0)])
worker.check(d)
"""
    )
    assert s.check("d", values=True)
    cells = s.registers().row("d").cells
    assert {cell.type for cell in cells} == {"DTensor(8, R, S(0))"}
    assert [(cell.shape, cell.nbytes, cell.maximum) for cell in cells] == [((4,), 16, 3), ((4,), 16, 7)] * 2
    assert not s.registers().row("d").differs
    s.run("if worker_id == 3: d.to_local()[1] += 0.5")
    assert s.registers().row("d").pair() == s.look_at("d").pair() == (1, 3)
    with pytest.raises(CellError, match=r"'d' differs at axis 1=1: torch.DTensor\(8, R, S\(0\)\)") as caught:
        s.run("worker.check(d)")
    assert "1 of 4 elements differs from the first worker's, by up to 0.5, at [1]" in str(caught.value)
    report = s.check(values=True)  # nobody has marked it
    assert [row.name for row in report.differing] == ["d"]
    s.run("e = distribute_tensor(torch.arange(7.0), mesh, [Shard(0), Shard(0)])")
    assert s.check("e", values=True).summary == "[0-3] split, a different part on each: e"


def test_what_is_split_over_some_workers_is_compared_among_those(s):
    s.run(
        """
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, distribute_tensor

d = distribute_tensor(torch.arange(6.0), DeviceMesh("cpu", [0, 1]), [Replicate()])
worker.check(d)
"""
    )
    assert s.check("d", values=True)
    s.run("if worker_id == 1: d.to_local()[2] += 1")
    with pytest.raises(CellError, match="'d' differs"):
        s.run("worker.check(d)")


def test_states_of_sharded_models_are_joined_and_given(s):
    s.run(
        """
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, StateDictType, fully_shard

net = FSDP(model(), use_orig_params=True, device_id=torch.device("cpu"))
opt = torch.optim.Adam(net.parameters())
net(data[worker_id]).sum().backward()
opt.step()
states = len(FSDP.optim_state_dict(net, opt)["state"])
with FSDP.state_dict_type(net, StateDictType.SHARDED_STATE_DICT):
    names = list(net.state_dict())
fresh = fully_shard(nn.Linear(4, 4))
given = {k: torch.ones(v.shape) for k, v in nn.Linear(4, 4).state_dict().items()} if worker_id == 0 else {}
set_model_state_dict(fresh, given, options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True))
dist.group.WORLD.monitored_barrier()
"""
    )
    assert s.run("states, len(names), fresh.weight.full_tensor().sum().item()").values == [(4, 4, 16)] * 4
