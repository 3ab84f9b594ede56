"""What PyTorch has once for blocks of code, on workers that are in such blocks at the same time."""

from __future__ import annotations

import gc
import warnings

import pytest

from disco_magic.errors import CellError

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.filterwarnings("error::pytest.PytestWarning")]


@pytest.fixture
def s(session):
    # PyTorch compiles its own wrappers no more once they were called in forward mode, as other tests do.
    torch.compiler.reset()
    started = session(2)
    started.run("import torch, torch.nn as nn\ntorch.set_num_threads(1)")
    return started


MODEL = """
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
if not dist.is_initialized(): dist.init_process_group()
class Met(nn.Linear):
    # Worker 1 begins within the forward pass of worker 0, and ends after it.
    def forward(self, x):
        if not staggered: return super().forward(x)
        if worker_id == 0: barrier()
        barrier()
        seen.append(DDP._get_active_ddp_module())
        if worker_id == 1: barrier()
        return super().forward(x)
seen, staggered = [], False
def call(model):
    global staggered
    model(torch.ones(1, 2))  # the first call is the same on all
    staggered = True
    if worker_id == 1: barrier()
    model(torch.ones(1, 2))
    if worker_id == 0: barrier()
graphs = []
def backend(graph, inputs):
    graphs.append(graph)
    return graph.forward
"""


def test_forward_passes_of_ddp_that_overlap_leave_nothing_behind(s):
    s.run(MODEL)
    s.run("net = DDP(Met(2, 2), bucket_cap_mb=0.5)\ncall(net)")
    assert s.run("seen[0] is net, DDP._get_active_ddp_module()").values == [(True, None)] * 2
    # With a model left active, DDP's optimizer of graphs refuses buckets that are so small.
    s.run("y = torch.compile(lambda x: x * 2, backend=backend)(torch.ones(2)).sum().item()")
    assert s.run("y, len(graphs)").values == [(4.0, 1)] * 2
    assert torch.nn.parallel.DistributedDataParallel._active_ddp_module is None


def test_forward_passes_of_replicated_models_that_overlap_leave_nothing_behind(s):
    pytest.importorskip("torch.distributed._composable.replicate")
    s.run(MODEL + "from torch.distributed._composable.replicate import replicate\n")
    s.run("net = replicate(Met(2, 2))\ncall(net)")
    now = "seen[0] is replicate.state(net)._ddp, DDP._get_active_ddp_module()"
    assert s.run(now).values == [(True, None)] * 2


def test_a_compiled_model_in_ddp_is_still_split_into_buckets(s):
    s.run(MODEL)
    s.run(
        "net = nn.Sequential(*[nn.Linear(700, 700) for _ in range(4)])\n"
        "y = DDP(torch.compile(net, backend=backend), bucket_cap_mb=2)(torch.ones(1, 700))"
    )
    assert min(s.run("len(graphs)").values) > 1


def test_a_model_that_a_program_leaves_active_ends_with_it(s, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(
        f"import torch, torch.nn as nn\n{MODEL}"
        "net = DDP(nn.Linear(2, 2))\nkept = net._inside_ddp_forward()\nkept.__enter__()\n"
        "found = DDP._get_active_ddp_module() is net\n"
    )
    s.run_file(path)
    s.run("from torch.nn.parallel import DistributedDataParallel as DDP")
    assert s.run("found, DDP._get_active_ddp_module()").values == [(True, None)] * 2


SET = """
from contextlib import contextmanager
@contextmanager
def in_bfloat16():
    # Worker 1 begins within the block of worker 0, and ends after it.
    if worker_id == 1: barrier()
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    if worker_id == 0: barrier()
    try:
        yield before
    finally:
        if worker_id == 1: barrier()
        torch.set_default_dtype(before)
        if worker_id == 0: barrier()
        barrier()
"""


def test_default_dtypes_of_blocks_that_overlap_are_restored_when_all_have_left(s):
    s.run(SET + "with in_bfloat16() as before: made = nn.Linear(2, 2).weight.dtype")
    assert s.run("before, made").values == [(torch.float32, torch.bfloat16)] * 2
    assert s.run("torch.get_default_dtype(), torch.ones(1).dtype").values == [(torch.float32,) * 2] * 2
    assert (torch.get_default_dtype(), torch.ones(1).dtype) == (torch.float32,) * 2


def test_the_default_dtype_reads_as_the_worker_has_set_it(s):
    s.run("if worker_id == 0: torch.set_default_dtype(torch.float64)")
    assert s.run("torch.get_default_dtype()").values == [torch.float64, torch.float32]
    s.shutdown()
    assert torch.get_default_dtype() is torch.float32


def test_different_default_dtypes_are_warned_of_once(s):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        s.run("torch.set_default_dtype(torch.float64)")
        assert not told
        for _ in range(2):
            s.run("torch.set_default_dtype(torch.float32)", workers=[0])
    assert ["different default dtypes" in str(each.message) for each in told] == [True]


def test_compiled_code_may_ask_for_the_default_dtype(s):
    s.run(
        MODEL + "torch.set_default_dtype(torch.float64)\n"
        "def made(x): return x.to(torch.get_default_dtype())\n"
        "y = torch.compile(made, backend=backend, fullgraph=True)(torch.ones(2, dtype=torch.float32)).dtype"
    )
    assert s.run("y, len(graphs)").values == [(torch.float64, 1)] * 2


def test_workers_do_not_use_up_each_other_s_limit_of_compilations(s):
    # PyTorch's wrapper around a compiled module is compiled anew for each module, and is one for all workers.
    s.run(
        f"{MODEL}import torch._dynamo\ntorch._dynamo.reset()\nbarrier()\n"
        "for size in range(5):\n"
        "    net = nn.Sequential(nn.Linear(4, 4 + size), nn.ReLU())\n"
        "    torch.compile(net, backend=backend, fullgraph=True)(torch.ones(2, 4))\n"
    )
    assert s.run("len(graphs)").values == [5, 5]


def test_a_worker_s_own_code_is_compiled_as_often_as_in_a_process(s):
    s.run(
        f"{MODEL}import torch._dynamo\n"
        "def f(x, n): return x * n\n"
        "g = torch.compile(f, backend=backend, dynamic=False)\n"
        "for n in range(12): g(torch.ones(2 + n), 1.5)\n"
    )
    assert s.run("len(graphs)").values == [torch._dynamo.config.recompile_limit] * 2


def test_workers_that_reset_the_compiler_while_others_compile_do_not_end_the_process(s):
    # What is compiled of PyTorch's wrappers was dropped while another worker was about to add to it.
    s.run(
        f"{MODEL}import torch._dynamo\n"
        "net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))\n"
        "for i in range(15):\n"
        "    g = torch.compile(net, backend='eager')\n"
        "    for _ in range(10): y = g(torch.ones(3 + i % 5, 4)).sum().item()\n"
        "    torch._dynamo.reset()\n"
    )
    assert s.run("worker_id").values == [0, 1]


def test_a_worker_that_resets_the_compiler_compiles_its_own_code_anew(s):
    s.run(
        f"{MODEL}import torch._dynamo\n"
        "g = torch.compile(lambda x: x * 2, backend=backend)\n"
        "for _ in range(3):\n"
        "    for _ in range(2): g(torch.ones(3))\n"
        "    torch._dynamo.reset()\n"
    )
    assert s.run("len(graphs)").values == [3, 3]


def test_a_reset_leaves_what_another_worker_has_compiled(s):
    s.run(
        f"{MODEL}import torch._dynamo\ng = torch.compile(lambda x: x * 2, backend=backend)\ng(torch.ones(3))"
    )
    s.run("if worker_id == 0: torch.compiler.reset()")
    s.run("g(torch.ones(3))")
    assert s.run("len(graphs)").values == [2, 1]


OVERLAPPING = """
def overlapping(block, look):
    # Worker 1 begins within the block of worker 0, and ends after it.
    if worker_id == 1: barrier()
    with block():
        if worker_id == 0: barrier()
        found = look()
        if worker_id == 1: barrier()
    if worker_id == 0: barrier()
    return found, look()
"""


def test_stances_of_the_compiler_that_overlap_end_with_their_blocks(s):
    s.run(MODEL + OVERLAPPING)
    s.run(
        "f = torch.compile(lambda x: x * 2, backend=backend)\n"
        "def look():\n    f(torch.ones(2))\n    return len(graphs)\n"
        "seen = overlapping(lambda: torch.compiler.set_stance('force_eager'), look)"
    )
    assert s.run("seen").values == [(0, 1)] * 2
    s.run("if worker_id == 0: torch.compiler.set_stance('force_eager')")
    stance = "torch._dynamo.eval_frame._stance.stance"
    assert s.run(stance).values == ["force_eager", "default"]
    torch.compiler.set_stance("fail_on_recompile")
    try:
        assert s.run(stance).values == ["force_eager", "fail_on_recompile"]
        s.shutdown()
        assert torch._dynamo.eval_frame._stance.stance == "fail_on_recompile"
    finally:
        torch.compiler.set_stance("default")
    assert type(torch._dynamo.eval_frame._stance) is torch._dynamo.eval_frame.DynamoStance


def test_a_stance_that_a_program_sets_ends_with_it(s, tmp_path):
    path = tmp_path / "program.py"
    path.write_text("import torch\ntorch.compiler.set_stance('force_eager')\n")
    s.run_file(path)
    s.run("import torch._dynamo")
    assert s.run("torch._dynamo.eval_frame._stance.stance").values == ["default"] * 2


def test_the_early_stop_of_checkpoints_ends_with_the_blocks(s):
    s.run(OVERLAPPING)
    s.run(
        "from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop\n"
        "class Counted(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x):\n"
        "        calls.append(x)\n"
        "        return x.clone()\n"
        "    @staticmethod\n"
        "    def backward(ctx, g): return g\n"
        "def look():\n"
        "    global calls\n"
        "    calls = []\n"
        "    x = torch.ones(2, requires_grad=True)\n"
        "    checkpoint(lambda x: Counted.apply(x.exp()), x, use_reentrant=False).sum().backward()\n"
        "    return len(calls)\n"
        "seen = overlapping(lambda: set_checkpoint_early_stop(False), look)\n"
    )
    # Recomputed to the end, or only as far as something is needed.
    assert s.run("seen").values == [(2, 1)] * 2


def test_a_stance_of_a_cell_that_has_failed_is_not_the_notebooks(s):
    s.run("import torch.compiler\nbarrier()\ntorch.compiler.set_stance('force_eager')")
    with pytest.raises(CellError):
        s.run(
            "def blocks():\n"
            "    with torch.compiler.set_stance('fail_on_recompile'): yield\n"
            "def step():\n    b = blocks(); next(b)\n    raise ValueError\nstep()"
        )
    gc.collect()  # the block ends here, in the notebook's thread
    stance = torch._dynamo.eval_frame._stance
    assert stance.stance == "default"
    assert "force_eager" not in repr(stance)
    s.shutdown()
    assert torch._dynamo.eval_frame._stance.stance == "default"
