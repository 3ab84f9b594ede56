"""Which tensors, modules and memory of PyTorch itself are shown as one; with PyTorch (`make frameworks`)."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

SETUP = """
import warnings
import torch
from torch import nn
class Named(torch.Tensor): pass
class Packed(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.packed = torch.full((3,), value)
        self.register_state_dict_post_hook(lambda module, state, *_: state.update(packed=self.packed))
def quantized(value):
    return torch.quantize_per_tensor(torch.full((2,), value), .1, 0, torch.quint8)
def linear(value):
    made = nn.Linear(2, 2)
    with torch.no_grad():
        for each in made.parameters(): each.fill_(value)
    return made
def named(value):
    made = torch.full((2,), value).as_subclass(Named)
    made.label = value
    return made
"""


@pytest.mark.parametrize(
    "made",
    [
        "torch.full((2,), v).as_subclass(Named)",
        "[torch.full((2, 3), v).T.as_subclass(Named)]",
        "nn.Parameter(torch.full((2,), v).as_subclass(Named))",
        "quantized(v)",
        "torch.full((2,), v).untyped_storage()",
        "{'memory': torch.full((2,), v).storage()}",
        "Packed(v)",
        "nn.LazyLinear(2 + int(v))",
        "torch.jit.script(linear(v))",
        "torch.jit.trace(linear(v), torch.ones(2))",
        "torch.ao.quantization.quantize_dynamic(nn.Sequential(linear(v)))",
    ],
)
def test_equal_ones_are_shown_as_one_and_others_apart(session, made):
    s = session(2)
    s.run(SETUP)
    text = "with warnings.catch_warnings():\n    warnings.simplefilter('ignore')\n    made = {}\nmade"
    same, other = (s.run(text.format(made.replace("v)", f"{v})", 1))) for v in ("1.0", "float(worker_id)"))
    assert [len(each.groups()) for each in (same, other)] == [1, 2]


def test_what_only_a_subclass_of_tensors_has_is_compared_too(session):
    s = session(2)
    s.run(SETUP)
    assert len(s.run("t = named(1.); t.label = worker_id; t").groups()) == 2


def test_parameters_that_have_no_shape_yet_are_compared_by_their_dtype(session):
    s = session(2)
    s.run(f"{SETUP}\na = nn.LazyLinear(2)\nb = nn.LazyLinear(2, dtype=[torch.half, torch.float][worker_id])")
    report = s.check("a", "b")
    assert [row.name for row in report.rows if row.differs] == ["b.weight", "b.bias"]
    assert not report["a"].opaque


def test_configurations_of_models_are_compared(session):
    s = session(2)
    s.run(
        f"{SETUP}\nfrom types import SimpleNamespace\n"
        "def config(v):\n"
        "    return SimpleNamespace(dtype=[torch.half, torch.float][v],\n"
        "        device=torch.device(['cpu', 'meta'][v]),\n"
        "        act=[torch.relu, torch.tanh][v], cls=[nn.Linear, nn.ReLU][v], shape=torch.Size([v]),\n"
        "        fn=[nn.functional.gelu, nn.functional.silu][v],\n"
        "        layout=[torch.strided, torch.sparse_coo][v])\n"
        "one, other = config(1), config(worker_id)\n"
        "worker.check(one)"
    )
    assert [row.name for row in s.check("other").rows if row.differs] == [
        f"other.{name}" for name in ("dtype", "device", "act", "cls", "shape", "fn", "layout")
    ]
