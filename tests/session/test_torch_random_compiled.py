"""Random numbers of compiled PyTorch code come from the worker's own state."""

from __future__ import annotations

import sys
from functools import partial

import pytest

torch = pytest.importorskip("torch")


SET_UP = """
import torch
import torch.nn.functional as F
from torch import nn
"""


@pytest.fixture
def s(session):
    """Four workers."""
    started = session(4)
    started.run(SET_UP)
    return started


PROGRAMS = """
def noisy(x):
    return F.dropout(x, 0.5) + torch.randn_like(x) + torch.rand(x.shape) + torch.empty(4).normal_()
class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)
    def forward(self, x):
        return self.drop(x) + torch.rand(4) + F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)
"""


COMPILED = {
    "TorchScript": "torch.jit.script(Noisy())(x)",
    "traced": "torch.jit.trace(noisy, x, check_trace=False)(x)",
    "fx": "torch.fx.symbolic_trace(Noisy())(x)",
    "dynamo": "torch.compile(noisy, backend='eager', fullgraph=True)(x)",
    "functions of ATen": "torch.compile(Noisy(), backend='aot_eager', fullgraph=True)(x)",
    "inductor": "torch.compile(noisy, fullgraph=True)(x)",
    "vmap": "torch.vmap(lambda t: F.dropout(t) + torch.randn_like(t), randomness='different')(x)",
    "NumPy's numbers": "torch.compile(lambda t: t + torch.from_numpy(np.random.rand(4)), backend='eager', "
    "fullgraph=True)(x)",
    "export": "torch.export.export(Noisy(), (x,)).module()(x)",
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", COMPILED.values(), ids=COMPILED)
def test_compilers_know_the_functions(s, tmp_path, monkeypatch, expression):
    (tmp_path / "programs.py").write_text(SET_UP + PROGRAMS)  # TorchScript reads the source
    monkeypatch.syspath_prepend(tmp_path)
    lines = (
        f"import torch\nimport numpy as np\nfrom programs import *\nx = torch.ones(1, 4, 4)\ny = {expression}"
    )
    try:
        for run in (lambda code: exec(code, {}), partial(s.run, workers=(0,))):
            torch._dynamo.reset()
            run(lines)
        s.shutdown()
        torch._dynamo.reset()
        exec(lines, {})
    finally:
        sys.modules.pop("programs")


BACKENDS = ["eager", "aot_eager", "inductor"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_it_draws_from_the_workers_state(s, backend):
    s.run(f"""
@torch.compile(backend={backend!r}, fullgraph=True)
def f(x): return F.dropout(x, 0.5) + torch.rand(64) + torch.empty(64).normal_() + torch.randint_like(x, 9)
for turn in range(4):  # PyTorch 2.6 cannot compile in several threads at once
    if turn == worker_id: f(torch.ones(64))
    barrier()
torch.manual_seed(worker_id // 2)
y = [f(torch.ones(64)) for _ in range(3)]
""")
    values = s["y"].get_all()
    for one, other, same in ((0, 1, True), (2, 3, True), (0, 2, False)):
        assert all(torch.equal(a, b) is same for a, b in zip(values[one], values[other], strict=True))
    assert not torch.equal(values[0][0], values[0][1])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_checkpoint_of_what_is_compiled_has_the_same_mask_on_the_way_back(s, backend):
    s.run(f"""
from torch.utils.checkpoint import checkpoint
@torch.compile(backend={backend!r})
def layer(x): return F.dropout(x, 0.5) * torch.rand(64)
equal = []
def pass_through(times):
    for step in range(times):
        x = torch.ones(64, requires_grad=True)
        y = checkpoint(layer, x, use_reentrant=bool(step % 2)); y.sum().backward()
        equal.append(torch.equal(y.detach(), x.grad))
for turn in range(4):
    if turn == worker_id: pass_through(2)
    barrier()
pass_through(10)
""")
    assert s.run("all(equal)").values == [True] * 4


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_compiled_may_seed(s, backend):
    lines = f"""
@torch.compile(backend={backend!r})
def f(x):
    torch.manual_seed(3)
    return x + torch.rand(4)
same = torch.equal(f(torch.ones(4)), f(torch.ones(4)))
"""
    s.run(lines)
    assert s["same"].get_all() == [True] * 4
    scope = {}
    exec(SET_UP + lines, scope)
    assert scope["same"]


@pytest.mark.parametrize("draw", ["torch.poisson(x)", "torch.binomial(x, x / 2)", "Gamma(x, 1.0).rsample()"])
def test_compiled_code_draws_with_a_generator_by_position_from_each_workers_state(s, draw):
    s.run(f"from torch.distributions import Gamma\nx = torch.full((50,), 4.0)\ndef f(): return {draw}")
    s.run("torch.manual_seed(worker_id)\ny = torch.compile(f, backend='aot_eager')()")
    x = torch.full((50,), 4.0)
    for worker in range(4):
        torch.manual_seed(worker)
        found = eval(draw, {"torch": torch, "Gamma": torch.distributions.Gamma, "x": x})  # noqa: S307
        assert torch.equal(found, s["y"].get(worker))
