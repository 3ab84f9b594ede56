"""Arrays of other libraries on the same GPU, lent through DLPack without a copy."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from tests.gpu.machine import SIMULATED

pytestmark = [
    pytest.mark.skipif(SIMULATED, reason="other libraries see no simulated GPU"),
    # What they have to say of each other, of a driver or of a GPU is not what is tested here.
    pytest.mark.filterwarnings("default::UserWarning", "default::RuntimeWarning"),
]


def needs(name):
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")


@pytest.fixture
def with_torch(shared):
    needs("torch")
    shared.run("import torch\nassert torch.cuda.is_available()")
    return shared


@pytest.fixture
def with_jax(shared, monkeypatch):
    needs("jax")
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # it would take most of the GPU
    shared.run("import jax, jax.numpy as jnp")
    if shared.run("jax.default_backend()").values[0] != "gpu":
        pytest.skip("this jax has no GPU")
    return shared


@pytest.fixture
def with_tvm(shared):
    needs("tvm_ffi")
    shared.run("import tvm_ffi")
    return shared


def host(value):
    return [each.tolist() for each in value.get_all()]


def test_a_tensor_is_taken_where_an_array_is(with_torch):
    with_torch.run(
        """
t = torch.full((2, 3), worker_id + 1.0, device="cuda", dtype=torch.float32)
total = allreduce(t)
rows = allgather(t[:1])
first = broadcast(t if worker_id == 0 else None)
same = xp.from_dlpack(t)
shared = same.data.ptr == t.data_ptr()
send(t, (worker_id + 1) % num_workers)
sent = recv((worker_id - 1) % num_workers)
kinds = [(type(each) is torch.Tensor, str(each.device)) for each in (total, rows, first, sent)]
"""
    )
    assert with_torch["kinds"].get_all() == [[(True, "cuda:0")] * 4] * 4
    assert with_torch["shared"].get_all() == [True] * 4
    assert host(with_torch["total"]) == [[[10] * 3] * 2] * 4
    assert host(with_torch["rows"])[2] == [[1] * 3, [2] * 3, [3] * 3, [4] * 3]
    assert host(with_torch["first"])[3] == [[1] * 3] * 2


def test_a_tensor_is_filled_in_place(with_torch):
    with_torch.run(
        """
p = torch.nn.Parameter(torch.full((1000,), worker_id + 1.0, device="cuda"))
with torch.no_grad():
    same = allreduce(p, out=p) is p
    p += 1
back = p.tolist()
"""
    )
    assert with_torch["same"].get_all() == [True] * 4
    assert with_torch["back"].get_all() == [[11.0] * 1000] * 4


def test_a_result_is_taken_by_torch(with_torch):
    with_torch.run("back = float(torch.from_dlpack(allreduce(xp.ones(1000))).sum())")
    assert with_torch["back"].get_all() == [4000.0] * 4


def test_what_torch_has_queued_comes_first(with_torch):
    """The tensor is far from computed when it is handed over, and is handed back before its result is."""
    with_torch.run(
        """
a = torch.rand(4000, 4000, device="cuda")
for _ in range(20):
    slow = a @ a
t = (slow * 0).sum() + torch.arange(1000, device="cuda", dtype=torch.float32)
total = allreduce(t)
total += 1
back = total.cpu().numpy()
"""
    )
    for back in with_torch["back"].get_all():
        np.testing.assert_array_equal(back, 4 * np.arange(1000, dtype="f4") + 1)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int32", "bool", "complex64"])
def test_dtypes_of_torch(with_torch, dtype):
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    with_torch.run(
        f"""
t = torch.ones(8, device="cuda", dtype=torch.{dtype})
total = allreduce(t)
kept, numbers = str(total.dtype), total.cpu().to(torch.complex64).tolist()
"""
    )
    assert with_torch["kept"].get(0) == f"torch.{dtype}"
    assert with_torch["numbers"].get(3) == [1 if dtype == "bool" else 4] * 8


def test_a_tensor_in_a_register_is_fetched_and_shown(with_torch):
    with_torch.run("t = torch.arange(3, device='cuda')")
    value = with_torch["t"].get(1)
    assert [float(each) for each in value] == [0, 1, 2]
    assert "cuda" in str(with_torch.registers().row("t").cells[0].device)


def test_a_tensor_on_the_host_stays_there(with_torch):
    with_torch.run(
        "total = allreduce(torch.ones(3))\nkind = type(total).__module__\nwhere = str(total.device)"
    )
    assert (with_torch["kind"].get(0), with_torch["where"].get(0)) == ("torch", "cpu")


def test_process_groups_of_torch(with_torch):
    """Reduced and moved where the tensors are, behind what PyTorch has queued, also in another stream."""
    with_torch.run(
        """
import torch.distributed as dist
if not dist.is_initialized():
    dist.init_process_group("nccl")
me, gpu = float(worker_id), torch.device("cuda")
t = torch.full((1000,), me, device=gpu)
dist.all_reduce(t)
whole = torch.empty(4, 1000, device=gpu, dtype=torch.bfloat16)
with torch.cuda.stream(torch.cuda.Stream()):
    part = torch.full((1000,), me, device=gpu, dtype=torch.bfloat16) * 2
    dist.all_gather_into_tensor(whole.view(-1), part)
    sums = whole.float().sum(1)
torch.cuda.synchronize()
mine = torch.empty(250, device=gpu)
dist.reduce_scatter_tensor(mine, torch.arange(1000.0, device=gpu))
objects = [None] * 4
dist.all_gather_object(objects, worker_id)
back = t.cpu().tolist(), sums.cpu().tolist(), mine.cpu().tolist()
"""
    )
    assert with_torch["objects"].get(1) == [0, 1, 2, 3]
    for worker, (total, sums, mine) in enumerate(with_torch["back"].get_all()):
        assert total == [6] * 1000
        assert sums == [2000 * each for each in range(4)]
        assert mine == [4 * each for each in range(250 * worker, 250 * worker + 250)]


@pytest.mark.parametrize("kind", ["DDP", "fully_shard"])
def test_models_of_torch_distributed_learn_what_one_would(with_torch, kind):
    with_torch.run(
        """
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel as DDP

if not dist.is_initialized():
    dist.init_process_group("nccl")

def model():
    made = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4)).cuda()
    rng = torch.Generator("cuda").manual_seed(0)
    for p in made.parameters():
        p.data = torch.randn(p.shape, generator=rng, device="cuda") / 8
    return made

data = torch.randn(4, 8, 64, device="cuda", generator=torch.Generator("cuda").manual_seed(1))

def trained(net, *batches):
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(5):
        opt.zero_grad()
        torch.stack([net(x).square().mean() for x in batches]).mean().backward()
        opt.step()
    return net

def sharded(net):
    for each in (net[0], net[2], net):
        fully_shard(each, mesh=init_device_mesh("cuda", (4,)))
    return net

alone = [p.detach() for p in trained(model(), *data).parameters()]
"""
    )
    made = "DDP(model())" if kind == "DDP" else "sharded(model())"
    each = "p.detach()" if kind == "DDP" else "p.full_tensor()"
    with_torch.run(f"net = trained({made}, data[worker_id])\ngot = [{each} for p in net.parameters()]")
    with_torch.run("same = all(torch.allclose(a, b, atol=1e-5) for a, b in zip(got, alone, strict=True))")
    assert with_torch["same"].get_all() == [True] * 4


def test_arrays_of_jax_are_taken_and_results_given_back(with_jax):
    with_jax.run(
        """
t = jnp.full((2, 3), worker_id + 1.0, "float32")
total = allreduce(t)
rows = allgather(t[:1])
first = broadcast(t if worker_id == 0 else None)
mean = allreduce(t, "avg")
of_jax = [isinstance(y, jax.Array) and y.devices() == t.devices() for y in (total, rows, first, mean)]
again = total + 1
"""
    )
    assert with_jax["of_jax"].get_all() == [[True] * 4] * 4
    assert host(with_jax["total"]) == [[[10] * 3] * 2] * 4
    assert host(with_jax["rows"])[2] == [[1] * 3, [2] * 3, [3] * 3, [4] * 3]
    assert host(with_jax["first"])[3] == [[1] * 3] * 2
    assert host(with_jax["mean"]) == [[[2.5] * 3] * 2] * 4
    assert [np.asarray(each).tolist() for each in with_jax["again"].get_all()] == [[[11] * 3] * 2] * 4
    assert "cuda" in str(with_jax.registers().row("t").cells[0].device)


def test_what_jax_has_queued_comes_first(with_jax):
    with_jax.run(
        """
a = jax.random.normal(jax.random.key(worker_id), (4000, 4000))
slow = a
for _ in range(20):
    slow = a @ a
t = (slow * 0).sum() + jnp.arange(1000, dtype="float32")
total = allreduce(t)
back = np.asarray(total)
"""
    )
    for back in with_jax["back"].get_all():
        np.testing.assert_array_equal(back, 4 * np.arange(1000, dtype="f4"))


def test_tensors_of_tvm(with_tvm):
    with_tvm.run(
        """
x = xp.full((2, 3), worker_id + 1.0, dtype="float32")
t = tvm_ffi.from_dlpack(x)
total = allreduce(t)
back = xp.from_dlpack(tvm_ffi.from_dlpack(total))
shared = back.data.ptr == total.data.ptr
"""
    )
    assert with_tvm["shared"].get_all() == [True] * 4
    assert host(with_tvm["total"]) == [[[10] * 3] * 2] * 4


def test_each_worker_draws_from_a_state_of_its_own(shared):
    try:
        import cupy_backends.cuda.libs.curand  # noqa: F401 - cupy's wheels have it with their extra only
    except ImportError as reason:
        pytest.skip(f"cupy finds no cuRAND: {reason}")
    shared.run("xp.random.seed(worker_id)\nbarrier()\nx = [xp.random.rand(1000) for _ in range(3)]")
    shared.run(
        "alone = xp.random.RandomState(worker_id)\nsame = all(bool((alone.rand(1000) == y).all()) for y in x)"
    )
    assert shared["same"].get_all() == [True] * 4


def test_torch_seeds_the_gpu_of_the_worker_that_calls(with_torch):
    with_torch.run(
        """
if worker_id == 1:
    torch.manual_seed(5)
    x = torch.rand(1000, device="cuda")
    alone = torch.Generator("cuda").manual_seed(5)
    same = torch.equal(x, torch.rand(1000, device="cuda", generator=alone))
torch.manual_seed(worker_id)
mine = torch.equal(torch.rand(9), torch.rand(9, generator=torch.Generator().manual_seed(worker_id)))
"""
    )
    assert with_torch["same"].get(1) is True
    assert with_torch["mine"].get_all() == [True] * 4
