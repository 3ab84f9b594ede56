"""Operators of PyTorch that cells and modules define, on workers, where PyTorch is installed."""

from __future__ import annotations

import gc

import pytest

torch = pytest.importorskip("torch")

DEFINED = """
import torch
@torch.library.custom_op("ns::f", mutates_args=())
def f(x: torch.Tensor) -> torch.Tensor:
    return x + worker_id
f.register_autograd(lambda ctx, gradient: gradient * (worker_id + 1))
@f.register_fake
def _(x): return torch.empty_like(x)
@f.register_vmap
def _(info, dims, x): return x + worker_id, dims[0]
"""


@pytest.fixture
def s(session):
    """Three workers that have defined an operator, twice."""
    started = session(3)
    for _ in range(2):
        started.run(DEFINED)
    return started


def test_a_cell_defines_it_on_all_workers_at_once(s):
    # "Library object has been destroyed" on all but one; with luck the process ended.
    found = s.run("f(torch.ones(1)).item(), torch.ops.ns.f(torch.ones(1)).item()").values
    assert found == [(1, 1), (2, 2), (3, 3)]


def test_gradients_are_those_of_each_worker_s_function(s):
    s.run("x = torch.ones(2, requires_grad=True); f(x).sum().backward()")
    assert s.run("x.grad.tolist()").values == [[1, 1], [2, 2], [3, 3]]


def test_vmap_calls_each_worker_s_function(s):
    assert s.run("torch.vmap(f)(torch.zeros(2)).tolist()").values == [[0, 0], [1, 1], [2, 2]]


def test_compiled_functions_call_it(s):
    s.run("compiled = torch.compile(lambda x: f(x) * 10, backend='eager', fullgraph=True)")
    assert s.run("compiled(torch.zeros(1)).item()").values == [0, 10, 20]


def test_a_kernel_is_registered_by_the_operator_s_name(s):
    s.run("torch.library.register_kernel('ns::f', 'cpu', lambda x: x - worker_id)")
    assert s.run("f(torch.zeros(1)).item()").values == [0, -1, -2]


REDEFINED = '''
import torch
source = """
@torch.library.custom_op("ns::scale", mutates_args=())
def scale(x: torch.Tensor, k: float = {k}) -> torch.Tensor:
    return x * k
"""
found = []
for k in [0.5, 1.0, 2.0, 4.0] * 3:
    exec(source.format(k=k))
    found += [scale(torch.ones(3))[0].item() - k for _ in range(30)]
barrier()
scale(torch.ones(1)).item(), torch.ops.ns.scale(torch.ones(1)).item(), any(found)
'''


def test_other_schemas_meanwhile_disturb_nobody(session):
    # Segmentation faults, or "schema_.has_value() INTERNAL ASSERT FAILED": the former one was destroyed.
    assert session(4).run(REDEFINED).values == [(4.0, 4.0, False)] * 4


DEEP = """
class Again(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, depth):
        ctx.depth = depth
        ctx.save_for_backward(x)
        return x.clone()
    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        with torch.enable_grad():
            y = x.detach().requires_grad_()
            (Again.apply(y, ctx.depth - 1) if ctx.depth else f(y)).backward(g)
        return y.grad, None
x = torch.ones(1, requires_grad=True)
Again.apply(x, 100).backward(torch.ones(1))
"""


def test_gradients_that_pytorch_computes_in_threads_of_its_own_are_the_worker_s(s):
    s.run(DEEP)
    assert s.run("x.grad.item()").values == [1, 2, 3]


@pytest.mark.skipif(not hasattr(torch.library, "register_autocast"), reason="PyTorch has it from 2.7 on")
def test_casts_go_with_the_definition_that_they_were_registered_for(s):
    use = "with torch.autocast('cpu', dtype=torch.float16): y = f(torch.ones(1))\nstr(y.dtype)"
    s.run("f.register_autocast('cpu', torch.float16 if worker_id else torch.bfloat16); None")
    assert s.run(use).values == ["torch.bfloat16", "torch.float16", "torch.float16"]
    s.run(DEFINED)
    assert s.run(use).values == ["torch.float32"] * 3


def test_a_module_of_each_worker_s_own_defines_it(session, tmp_path, monkeypatch):
    (tmp_path / "own_ops.py").write_text(
        "import torch\ncalls = []\n"
        "@torch.library.custom_op('ns::counted', mutates_args=())\n"
        "def counted(x: torch.Tensor) -> torch.Tensor:\n"
        "    calls.append(1)\n"
        "    return x.clone()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    s = session(3, own_modules=["own_ops"])
    s.run("import own_ops, torch")
    s.run("for _ in range(worker_id): own_ops.counted(torch.ones(1))")
    assert s.run("len(own_ops.calls)").values == [0, 1, 2]


def test_the_notebook_s_stays_its_own(session):
    @torch.library.custom_op("ns::mine", mutates_args=())
    def mine(x: torch.Tensor) -> torch.Tensor:
        return x - 1

    s = session(2)
    s.run(DEFINED.replace("ns::f", "ns::mine"))
    assert s.run("f(torch.ones(1)).item()").values == [1, 2]
    assert mine(torch.ones(1)).item() == torch.ops.ns.mine(torch.ones(1)).item() == 0


def test_what_was_compiled_ends_with_its_session_without_a_word(session, capfd):
    s = session(2)
    s.run(DEFINED)
    s.run("torch.compile(lambda x: f(x) + 1, backend='eager', fullgraph=True)(torch.zeros(1))")
    s.shutdown()
    del s
    gc.collect()
    assert "KeyError" not in capfd.readouterr().err
