"""What PyTorch, transformers and accelerate change for the whole process, where they are installed."""

from __future__ import annotations

import gc
import sys

import pytest

from disco_magic.errors import CellError
from tests.conftest import until

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.filterwarnings("error::pytest.PytestWarning")]


@pytest.fixture
def s(session):
    started = session(4)
    started.run("import torch, torch.nn as nn, torch.nn.functional as F\ntorch.set_num_threads(1)")
    return started


def test_switches_are_what_they_were_when_all_have_left(s):
    s.run(
        "from torch.nn.attention import SDPBackend, sdpa_kernel\n"
        "q = torch.randn(1, 2, 32, 16)\n"
        "for _ in range(30):\n"
        "    with torch.autograd.detect_anomaly(check_nan=False):\n"
        "        (q.clone().requires_grad_() * 2).sum().backward()\n"
        "    with sdpa_kernel(SDPBackend.MATH): F.scaled_dot_product_attention(q, q, q)\n"
        "    with torch.backends.mkldnn.flags(enabled=bool(worker_id % 2)): F.linear(q, torch.randn(4, 16))\n"
    )
    now = "torch.is_anomaly_enabled(), torch.backends.cuda.flash_sdp_enabled(), torch.backends.mkldnn.enabled"
    assert s.run(now).values == [(False, True, True)] * 4
    assert (torch.is_anomaly_enabled(), torch.backends.cuda.flash_sdp_enabled()) == (False, True)


def test_kernels_that_pytorch_has_compiled_before_are_used_again_when_all_have_left_blocks_without(s):
    if not hasattr(torch._C, "_get_native_aot_enabled"):
        pytest.skip("this version of PyTorch has no such kernels")
    s.run(
        "block, turns = torch.backends.python_native.triton.disabled(), range(num_workers)\n"
        "for turn in turns:\n"
        "    if turn == worker_id: block.__enter__()\n"
        "    barrier()\n"
        "for turn in turns:\n"
        "    if turn == worker_id: block.__exit__(None, None, None)\n"
        "    barrier()"
    )
    assert s.run("torch._C._get_native_aot_enabled()").values == [True] * 4
    assert torch._C._get_native_aot_enabled()


def test_settings_are_each_worker_s_and_end_with_the_session(s):
    s.run("torch.use_deterministic_algorithms(True, warn_only=worker_id == 1)")
    now = (
        "torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()"
    )
    assert s.run(now).values == [(True, worker == 1) for worker in range(4)]
    s.shutdown()
    assert not torch.are_deterministic_algorithms_enabled()


def test_models_can_be_traced_by_all_at_once_and_called_meanwhile(s):
    s.run(
        "net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))\nx = torch.randn(4, 8)\n"
        "for _ in range(10):\n"
        "    graph = torch.fx.symbolic_trace(net) if worker_id % 2 else None\n"
        "    same = torch.equal((graph or net)(x), net(x))\n"
        "    assert same\n"
    )
    assert torch.nn.Linear(2, 2)(torch.ones(1, 2)).shape == (1, 2)


def test_operations_are_counted_for_the_worker_that_calls_them(s):
    s.run(
        "from torch.utils.flop_counter import FlopCounterMode\n"
        "net = nn.Sequential(nn.Linear(32, 32 * (1 + worker_id)))\n"
        "found = set()\n"
        "for _ in range(10):\n"
        "    with FlopCounterMode(display=False) as counter: net(torch.randn(16, 32))\n"
        "    found.add(counter.get_total_flops())\n"
    )
    assert s["found"].get_all() == [{2 * 16 * 32 * 32 * (1 + worker)} for worker in range(4)]


def test_communication_of_tensor_parallel_models_can_be_counted(s):
    pytest.importorskip("torch.distributed.tensor.debug")
    counted = s.run(
        "import torch.distributed as dist\ndist.init_process_group()\n"
        "from torch.distributed.device_mesh import init_device_mesh\n"
        "from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module\n"
        "from torch.distributed.tensor.debug import CommDebugMode\n"
        "net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))\n"
        "plan = {'0': ColwiseParallel(), '2': RowwiseParallel()}\n"
        "parallelize_module(net, init_device_mesh('cpu', (4,)), plan)\n"
        "for _ in range(5):\n"
        "    with CommDebugMode() as mode: net(torch.randn(4, 8)).sum().item()\n"
        "mode.get_total_counts()"
    )
    assert counted.values == [1] * 4


def test_parallel_losses_can_be_computed_by_all_at_once(s):
    s.run(
        "import torch.distributed as dist\ndist.init_process_group()\n"
        "from torch.distributed.device_mesh import init_device_mesh\n"
        "from torch.distributed.tensor import Shard, distribute_tensor\n"
        "from torch.distributed.tensor.parallel import loss_parallel\n"
        "mesh = init_device_mesh('cpu', (4,))\n"
        "x = distribute_tensor(torch.randn(64, 32), mesh, [Shard(1)]).requires_grad_()\n"
        "for _ in range(10):\n"
        "    with loss_parallel(): F.cross_entropy(x, torch.zeros(64, dtype=torch.long)).backward()\n"
    )


MODEL = """
import transformers
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
config = transformers.GPT2Config(n_layer=1, n_embd=32, n_head=2, vocab_size=100)
def look():
    kinds = {(p.dtype, p.device.type) for p in model.parameters()}
    return kinds == {(torch.bfloat16, "cpu")}, model.lm_head.weight is model.transformer.wte.weight
"""


def test_modes_that_count_operations_are_over_when_all_have_left_in_whatever_order(s):
    noted = "_is_in_torch_dispatch_mode", "_is_in_any_mode_without_ignore_compile_internals"
    seen = s.run(
        "from torch.utils import _python_dispatch\n"
        "from torch.utils.flop_counter import FlopCounterMode\n"
        "counter = FlopCounterMode(display=False)\n"
        "for turn in range(4):\n"
        "    if turn == worker_id: counter.__enter__()\n"
        "    barrier()\n"
        "torch.ones(2, 2) @ torch.ones(2, 2)\nbarrier()\n"
        f"inside = _python_dispatch.{noted[0]}\n"
        "for turn in range(4):\n"
        "    barrier()\n"
        "    if turn == worker_id: counter.__exit__(None, None, None)\n"
        "barrier()\n"
        f"inside, counter.get_total_flops(), *(getattr(_python_dispatch, each, False) for each in {noted})"
    )
    assert seen.values == [(True, 16, False, False)] * 4


def test_a_stop_leaves_no_mode_noted(s):
    s.run("from torch.utils import _python_dispatch\nfrom torch.utils.flop_counter import FlopCounterMode")
    pending = s.run_nowait(
        "if worker_id == 0:\n    FlopCounterMode(display=False).__enter__()\n    while True: pass"
    )
    until(lambda: s.doctor().positions[0].site.endswith("line 3"))
    pending.cancel()
    with pytest.raises(CellError, match="interrupted"):
        pending.wait()
    assert s.run("_python_dispatch._is_in_torch_dispatch_mode").values == [False] * 4


@pytest.mark.parametrize("own", [(), ("accelerate", "transformers")])
def test_models_can_be_loaded_by_all_at_once(session, tmp_path, own):
    pytest.importorskip("transformers")
    s = session(4, own_modules=own)
    s.run(f"import torch\ntorch.set_num_threads(1)\npath = {str(tmp_path)!r}\n{MODEL}")
    s.run("if worker_id == 0: transformers.GPT2LMHeadModel(config).save_pretrained(path)")
    s.run("model = transformers.GPT2LMHeadModel.from_pretrained(path, dtype=torch.bfloat16)")
    assert s.run("look()").values == [(True, True)] * 4
    assert s.run("model(torch.ones(1, 4, dtype=torch.long)).logits.shape").values == [(1, 4, 100)] * 4
    assert torch.get_default_dtype() == torch.float32


def test_empty_models_are_empty_and_others_are_not(s):
    pytest.importorskip("accelerate")
    s.run(
        "from accelerate import init_empty_weights\nfor _ in range(20):\n"
        "    with init_empty_weights(): empty = nn.Linear(50, 50)\n"
        "    assert empty.weight.device.type == 'meta'\n"
    )
    assert s.run("nn.Linear(2, 2).weight.device.type").values == ["cpu"] * 4
    assert "accelerate" in sys.modules


def test_what_a_block_has_changed_before_it_could_be_left_is_put_back_by_a_stop(gated, gate):
    s = gated(4)
    now = (
        "torch.is_grad_enabled(), torch.is_autocast_enabled('cpu'), torch.ones(1).device.type,"
        " torch._C._len_torch_dispatch_stack()"
    )
    s.run("import torch\nfrom torch.utils.flop_counter import FlopCounterMode")
    blocks = (
        "torch.no_grad()",
        "torch.autocast('cpu', dtype=torch.bfloat16)",
        "torch.device('meta')",
        "FlopCounterMode(display=False)",
    )
    entered = "\n".join(f"({block}).__enter__()" for block in blocks)
    handle = s.run_nowait(f"{entered}\ngate()\nwhile True: pass")
    gate.arrived(4)
    gate.open()
    handle.cancel()
    assert s.run(now).values == [(True, False, "cpu", 0)] * 4


def test_forward_mode_gradients_are_computed_by_all(s):
    s.run(
        "from torch.func import jvp, hessian\nimport torch.autograd.forward_ad as forward\n"
        "f, x = lambda x: (2 * x).sin().sum(), torch.ones(3) * worker_id\n"
        "for _ in range(20):\n"
        "    with forward.dual_level():\n"
        "        y = forward.unpack_dual(f(forward.make_dual(x, torch.ones(3)))).tangent\n"
        "    assert torch.allclose(jvp(f, (x,), (torch.ones(3),))[1], y)\n"
        "    assert torch.allclose(y, (2 * (2 * x).cos()).sum())\n"
        "    assert torch.allclose(hessian(f)(x), torch.diag(-4 * (2 * x).sin()), atol=1e-6)\n"
    )


def test_models_are_exported_and_split_for_a_pipeline_by_all(s):
    s.run(
        "from torch.distributed.pipelining import SplitPoint, pipeline\n"
        "net, x = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)), torch.randn(4, 8)\n"
        "for _ in range(3):\n"
        "    exported = torch.export.export(net, (x,)).module()\n"
        "    assert torch.equal(exported(x), net(x))\n"
        "pipe = pipeline(net, mb_args=(x,), split_spec={'2': SplitPoint.BEGINNING})\n"
        "assert pipe.num_stages == 2\n"
    )


def test_one_can_compile_while_others_call_in_forward_mode_what_is_not_compiled_yet(s):
    # Each waited for the lock of the other for ever.
    s.run("net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))")
    s.run(
        "compiled = torch.compile(net, backend='aot_eager')\n"
        "for i in range(3):\n"
        "    x = torch.randn(3 + i + 2 * worker_id, 4)\n"
        "    compiled(x).sum().backward()\n"
        "    torch.func.jvp(lambda x: compiled(x).sum(), (x,), (torch.ones_like(x),))\n"
    )


def test_all_can_make_scripts_of_models_at_once(s):
    # "Graphs differed across invocations", in most runs; now and then "Can't redefine method".
    s.run(
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        layers = [nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(6)]\n"
        "        self.layers = nn.Sequential(*layers)\n"
        "    def forward(self, x): return self.layers(x)\n"
        "x = torch.ones(1, 4)\n"
        "for _ in range(5):\n"
        "    net = Net()\n"
        "    made = torch.jit.trace(net, x), torch.jit.script(net)\n"
        "    same = [torch.equal(each(x), net(x)) for each in made]\n"
        "    assert all(same), same"
    )


def test_modes_that_a_program_leaves_end_with_it(s, tmp_path):
    # "element 0 of tensors does not require grad", in the next program.
    first, second = tmp_path / "first.py", tmp_path / "second.py"
    first.write_text("import torch\ntorch.set_grad_enabled(False)\ntorch.set_default_device('meta')\n")
    second.write_text("import torch\nx = torch.ones(2, requires_grad=True)\n(x * x).sum().backward()\n")
    s.run("torch.set_grad_enabled(False)")
    s.run_file(str(first))
    assert s.run("torch.is_grad_enabled(), str(torch.ones(1).device)").values == [(False, "cpu")] * 4
    s.run("torch.set_grad_enabled(True)")
    s.run_file(str(first))
    s.run_file(str(second))
    assert s.run("x.grad.tolist()").values == [[2.0, 2.0]] * 4


OF_PROGRAMS = {
    "dtype": ("torch.set_default_dtype(torch.float64)", "torch.ones(1).dtype"),
    "deterministic": (
        "torch.use_deterministic_algorithms(True)",
        "torch.are_deterministic_algorithms_enabled()",
    ),
    "anomalies": ("torch.autograd.set_detect_anomaly(True)", "torch.is_anomaly_enabled()"),
    "precision": ("torch.set_float32_matmul_precision('high')", "torch.get_float32_matmul_precision()"),
    "device": ("torch.set_default_device('meta')", "torch.empty(1).device.type"),
}


@pytest.mark.parametrize("setting", OF_PROGRAMS)
def test_what_a_program_sets_ends_with_it(s, tmp_path, setting):
    source, seen = OF_PROGRAMS[setting]
    path = tmp_path / "program.py"
    path.write_text(f"import torch\n{source}\nbarrier()\nfound = {seen}\n")
    mine, before = eval(seen), s.run(seen).values  # noqa: S307 - our own
    s.run_file(path)
    assert before[0] not in s.run("found").values
    assert s.run(seen).values == before
    assert eval(seen) == mine  # noqa: S307 - our own


def test_what_a_program_sets_of_the_collector_ends_with_it_also_if_somebody_compiles_then(session, tmp_path):
    if not hasattr(pytest.importorskip("torch._dynamo.utils"), "deferred_full_gc"):
        pytest.skip("this version of PyTorch leaves the collector as it is while it compiles")
    before, path = gc.get_threshold(), tmp_path / "train.py"
    path.write_text(
        "import gc\ngc.set_threshold(9_999)\nfrom torch._dynamo.utils import deferred_full_gc\n"
        "compiling = deferred_full_gc()\ncompiling.__enter__()\n"
    )
    s = session(1)
    try:
        s.run_file(path)
        assert gc.get_threshold() == before
        s.run("compiling.__exit__(None, None, None)")
        assert gc.get_threshold() == before
    finally:
        gc.set_threshold(*before)


@pytest.mark.parametrize("setting", ["dtype", "deterministic", "precision"])
def test_what_a_program_s_module_sets_when_it_is_imported_stays_with_it(s, tmp_path, module_of, setting):
    source, seen = OF_PROGRAMS[setting]
    name = module_of(f"import torch\n{source}\n")
    path = tmp_path / "program.py"
    path.write_text(f"import {name}, torch\nfound = {seen}\nbarrier()\n")
    try:
        told = []
        for _ in range(2):
            s.run_file(path)
            told += s.run("found").values
        assert len(set(told)) == 1
        assert told[0] in (True, "high", torch.float64)
    finally:
        torch.set_default_dtype(torch.float32)


def test_the_default_device_is_each_worker_s(s):
    s.run("if worker_id == 1: torch.set_default_device('meta')")
    assert s.run("torch.empty(1).device.type").values == ["cpu", "meta", "cpu", "cpu"]
    assert torch.empty(1).device.type == "cpu"


def test_a_program_finds_that_torchrun_has_started_it(s, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(
        "import torch.distributed as dist\nfound = dist.is_available() and dist.is_torchelastic_launched()\n"
    )
    s.run_file(path)
    assert s.run("found").values == [True] * 4
    assert not torch.distributed.is_torchelastic_launched()
