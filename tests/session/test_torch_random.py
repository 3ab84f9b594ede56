"""PyTorch's random state, of which each worker has its own, where PyTorch is installed."""

from __future__ import annotations

import copy
import pickle

import pytest

torch = pytest.importorskip("torch")

from disco_magic.errors import CellError  # noqa: E402 - as below
from disco_magic.isolation.pytorch import random as torch_random  # noqa: E402 - about what is now known to be there

SET_UP = """
import torch
import torch.nn.functional as F
from torch import nn
"""
# What draws, and what is the same without a number.
DRAWING = {
    "numbers": "torch.rand(3)",
    "normal ones": "torch.normal(0.0, 1.0, (3,))",
    "of a mean": "torch.normal(torch.ones(3))",
    "like others": "torch.rand_like(torch.ones(3)) + torch.randint_like(torch.ones(3), 9)",
    "an order": "torch.randperm(9)",
    "in place": "torch.empty(3).uniform_().exponential_() + torch.empty(3).normal_()",
    "choices": "torch.multinomial(torch.ones(9), 3) + torch.ones(9).multinomial(3)",
    "a layer's weights": "nn.Linear(3, 2).weight",
    "a mask": "F.dropout(torch.ones(9), 0.5)",
    "a mask in place": "F.dropout(torch.ones(9), 0.25, inplace=True)",
    "masks of channels": "F.dropout2d(torch.ones(1, 9, 2, 2), 0.5) "
    "+ F.feature_alpha_dropout(torch.ones(1, 9, 2, 2), 0.5, True)",
    "masks that keep the variance": "F.alpha_dropout(torch.ones(9), 0.5, True)",
    "a slope": "F.rrelu(-torch.ones(9), training=True) + F.rrelu_(-torch.ones(9), training=True)",
    "attention": "F.scaled_dot_product_attention(*torch.ones(3, 1, 9, 4), dropout_p=0.5)",
    "recurrent layers": "nn.LSTM(3, 4, 2, dropout=0.5)(torch.ones(5, 3))[0]",
    "a layer of a transformer": "nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)(torch.ones(1, 5, 4))",
    "distributions": "torch.distributions.Gamma(torch.ones(3), 1).sample() "
    "+ torch.distributions.Dirichlet(torch.ones(3)).sample()",
    "a split": "torch.tensor(torch.utils.data.random_split(range(9), [4, 5])[0].indices)",
    "batches": "torch.cat(list(torch.utils.data.DataLoader(range(9), 3, shuffle=True)))",
}


@pytest.fixture
def s(session):
    """Four workers."""
    started = session(4)
    started.run(SET_UP)
    return started


def alone(expression, seed, times=1):
    """What a process of its own gets."""
    scope = {"times": times}
    kept = torch.get_rng_state()
    exec(f"{SET_UP}\ntorch.manual_seed({seed})\nx = [{expression} for _ in range(times)]", scope)
    torch.set_rng_state(kept)
    return scope["x"]


@pytest.mark.parametrize("expression", DRAWING.values(), ids=DRAWING)
def test_what_is_drawn_is_what_processes_would_draw(s, expression):
    torch.manual_seed(1)
    s.run("torch.manual_seed(worker_id // 2)")
    s.run(f"barrier()\nx = [({expression}).detach() for _ in range(3)]")
    for worker, drawn in enumerate(s["x"].get_all()):
        assert all(map(torch.equal, drawn, alone(expression, worker // 2, times=3)))
    assert torch.equal(torch.rand(3), alone("torch.rand(3)", 1)[0])


def test_every_operation_that_pytorch_says_draws_is_known():
    """But for those that only other devices or other operations use, and some without a public name."""
    drawing = set()
    for each in torch._C._dispatch_get_all_op_names():
        name, _, overload = each.removeprefix("aten::").partition(".")
        if each.startswith("aten::") and hasattr(torch.ops.aten, name):
            operation = getattr(getattr(torch.ops.aten, name), overload or "default")
            if torch.Tag.nondeterministic_seeded in operation.tags:
                drawing.add(name)
    public = {name for name in drawing if hasattr(torch, name) or hasattr(torch.Tensor, name)}
    known = {
        *torch_random.FUNCTIONS,
        *torch_random.METHODS,
        *torch_random.OTHER_DROPOUTS,
        *torch_random.LAYERS,
    }
    known |= {*torch_random.DROPOUTS, torch_random.ATTENTION}
    assert known <= drawing
    missing = {name for name in public - known if not name.startswith("_")}
    assert missing == {"miopen_rnn", "random"}
    made_of_others = {*torch_random.DROPOUTS, *torch_random.OTHER_DROPOUTS, *torch_random.LAYERS}
    made_of_others |= {"rrelu", "rrelu_", "miopen_rnn", torch_random.ATTENTION}
    others = {name for name in drawing - made_of_others if not name.startswith("_")}
    assert others - {"native_dropout"} <= {*torch_random.OPERATIONS}
    assert {"native_dropout", *made_of_others} - {"rrelu", "rrelu_", "miopen_rnn"} <= {*torch_random.COMPOSED}


def test_states_are_kept_put_back_and_begun_anew(s):
    s.run(
        """
kept = torch.get_rng_state()
a = torch.rand(2); barrier()
torch.set_rng_state(kept)
b = torch.rand(2); barrier()
with torch.random.fork_rng():
    torch.manual_seed(3); c = torch.rand(2); d = torch.initial_seed()
torch.set_rng_state(kept)
e = torch.rand(2)
same = torch.equal(a, b) and torch.equal(b, e) and d == 3 and not torch.equal(a, c)
first, second = torch.seed(), torch.seed()
"""
    )
    assert s["same"].get_all() == [True] * 4
    assert len({*s["first"].get_all(), *s["second"].get_all()}) == 8
    values = [float(x) for x in s.run("float(torch.rand(()))").values]
    assert len(set(values)) == 4


def test_a_checkpoint_has_the_same_mask_on_the_way_back(s):
    s.run(
        """
from torch.utils.checkpoint import checkpoint
def layer(x):
    x = F.dropout(x, 0.5)
    return F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)
equal = []
for step in range(20):
    torch.manual_seed(10 * worker_id + step)
    x = torch.ones(1, 8, 4, requires_grad=True); layer(x).sum().backward()
    torch.manual_seed(10 * worker_id + step)
    y = torch.ones(1, 8, 4, requires_grad=True)
    checkpoint(layer, y, use_reentrant=bool(step % 2)).sum().backward()
    equal.append(torch.equal(x.grad, y.grad))
"""
    )
    assert s.run("all(equal)").values == [True] * 4


def test_on_a_device_that_is_named_it_is_drawn_from_the_same_state(s):
    s.run("""
torch.manual_seed(worker_id)
with torch.device("cpu"):
    x = torch.cat([torch.rand(2), torch.rand(2, device="cpu"), torch.rand_like(torch.ones(2), device="cpu")])
""")
    for worker, drawn in enumerate(s["x"].get_all()):
        assert torch.equal(drawn, torch.cat(alone("torch.rand(2)", worker, times=3)))


def test_threads_of_a_worker_draw_from_its_state(s):
    s.run(
        """
from concurrent.futures import ThreadPoolExecutor
torch.manual_seed(worker_id)
with ThreadPoolExecutor(1) as pool:
    x = pool.submit(torch.rand, 2).result()
"""
    )
    for worker, drawn in enumerate(s["x"].get_all()):
        assert torch.equal(drawn, alone("torch.rand(2)", worker)[0])


def test_without_a_need_nothing_is_drawn(s):
    s.run("kept = torch.get_rng_state()\nx = torch.ones(1, 3, 4)")
    s.run(
        "F.dropout(x, 0.5, training=False); F.dropout(x, 0.0); F.dropout(x, 1.0)\n"
        "F.scaled_dot_product_attention(x, x, x)"
    )
    s.run("nn.LSTM(4, 4)(x); nn.Dropout(0.5).eval()(x); torch.rand(2, generator=torch.Generator())")
    s.run("torch.set_rng_state(kept)\ntorch.rand(2, generator=torch.Generator().manual_seed(3))")
    assert s.run("torch.equal(kept, torch.get_rng_state())").values == [True] * 4


def test_wrong_arguments_are_pytorch_s_error(s):
    for call in (
        "F.dropout(torch.ones(2), 2.0)",
        "torch.dropout()",
        "torch.rand('a')",
        "torch.ones(2).normal_(-1, -1)",
    ):
        with pytest.raises((ValueError, TypeError, RuntimeError)) as alone_too:
            exec(call, {"torch": torch, "F": torch.nn.functional})
        s.run(f"try: {call}\nexcept Exception as e: said = type(e).__name__, str(e)")
        assert s["said"].get_all() == [(type(alone_too.value).__name__, str(alone_too.value))] * 4


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_tensors_drop_as_in_a_process(s):
    s.run("torch.manual_seed(worker_id)\nx = torch.nested.nested_tensor([torch.ones(3), torch.ones(9)])")
    s.run("y = torch.cat(F.dropout(x, 0.5).unbind())")
    one = "torch.nested.nested_tensor([torch.ones(3), torch.ones(9)])"
    for worker, drawn in enumerate(s["y"].get_all()):
        assert torch.equal(drawn, alone(f"torch.cat(F.dropout({one}, 0.5).unbind())", worker)[0])


def test_who_asks_wrongly_outside_of_workers_is_told_what_pytorch_says(session):
    session(1)
    with pytest.raises(TypeError, match=r"dropout\(\) takes|dropout\(\) received"):
        torch.dropout(torch.ones(2), 0.5, True, 1)
    with pytest.raises(TypeError, match="must be float, not None"):
        torch.nn.functional.scaled_dot_product_attention(*torch.ones(3, 1, 2, 4), dropout_p=None)


def test_methods_can_be_pickled(session):
    session(1)
    assert pickle.loads(pickle.dumps(torch.Tensor.normal_)) is torch.Tensor.normal_  # noqa: S301 - our own bytes
    assert copy.deepcopy(torch.rand) is torch.rand


def test_what_only_describes_tensors_draws_nothing(s):
    s.run(
        """
from torch._subclasses.fake_tensor import FakeTensorMode
kept = torch.get_rng_state()
with torch.device("meta"):
    a = torch.rand(3), torch.empty(2).normal_(), nn.Linear(2, 2).weight
with FakeTensorMode():
    b = torch.rand(3), F.dropout(torch.ones(2)), torch.empty(2).normal_()
devices = {each.device.type for each in a}, {type(each).__name__ for each in b}
same = torch.equal(kept, torch.get_rng_state())
"""
    )
    assert s["devices"].get_all() == [({"meta"}, {"FakeTensor"})] * 4
    assert s["same"].get_all() == [True] * 4


CLASSES = """
class Plain(torch.Tensor): pass
class Unwrapping(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        bare = [each.as_subclass(torch.Tensor) if isinstance(each, cls) else each for each in args]
        name = getattr(function, "__name__", "")
        function = getattr(torch.Tensor, name, function)
        return function(*bare, **(kwargs or {}))
"""


@pytest.mark.parametrize("kind", ["Plain", "Unwrapping"])
@pytest.mark.parametrize(
    "draw", ["torch.bernoulli(x)", "x.uniform_()", "F.alpha_dropout(x, 0.5, True)", "F.dropout(x, 0.5)"]
)
def test_tensors_of_other_classes_draw_from_it_too(s, kind, draw):
    s.run(f"{CLASSES}\nx = torch.full((32,), 0.5).as_subclass({kind})\ntorch.manual_seed(worker_id)")
    s.run(f"y = [torch.Tensor({draw}).clone() for _ in range(2)]")
    for worker, drawn in enumerate(s["y"].get_all()):
        same = alone(draw.replace("x", "torch.full((32,), 0.5)", 1), worker, times=2)
        assert all(torch.equal(torch.Tensor(a), torch.Tensor(b)) for a, b in zip(drawn, same, strict=True))


def test_vmap_s_randomness_is_as_it_says(s):
    s.run("x = torch.ones(3, 4)\ntorch.manual_seed(0)")
    s.run("same = torch.vmap(torch.rand_like, randomness='same')(x)")
    s.run("other = torch.vmap(torch.rand_like, randomness='different')(x)")
    assert (
        s.run("torch.equal(same[0], same[1]), torch.equal(other[0], other[1])").values == [(True, False)] * 4
    )
    with pytest.raises(CellError, match="randomness"):
        s.run("torch.vmap(torch.rand_like)(x)")


def test_threads_of_a_worker_never_draw_what_another_has_drawn(s):
    s.run(
        """
from concurrent.futures import ThreadPoolExecutor
q = torch.ones(1, 1, 8, 8)
def drop():
    for _ in range(300): F.scaled_dot_product_attention(q, q, q, dropout_p=0.5)
with ThreadPoolExecutor(2) as pool:
    done = pool.submit(drop)
    numbers = [float(torch.rand((), dtype=torch.float64)) for _ in range(3000)]
    done.result()
""",
        workers=(0, 1),
    )
    assert [len(set(numbers)) for numbers in (s["numbers"].get(0), s["numbers"].get(1))] == [3000, 3000]


def test_layers_may_be_called_by_name(s):
    s.run("""
net = nn.GRU(3, 4, 2, dropout=0.5)
x, h = torch.ones(5, 1, 3), torch.zeros(2, 1, 4)
named = dict(input=x, hx=h, params=net._flat_weights, has_biases=True, num_layers=2, dropout=0.5, train=True)
named |= dict(bidirectional=False, batch_first=False)
drawn = []
for _ in range(20):
    torch.manual_seed(worker_id); drawn.append(torch.gru(**named)[0])
same = all(torch.equal(drawn[0], each) for each in drawn)
""")
    assert s["same"].get_all() == [True] * 4


def test_all_is_as_before_when_the_last_session_has_ended(session):
    names = [
        *torch_random.FUNCTIONS,
        *torch_random.DROPOUTS,
        *torch_random.LAYERS,
        "manual_seed",
        "get_rng_state",
    ]
    first = [getattr(torch, name) for name in names]
    s = session(1)
    assert torch.rand is not first[names.index("rand")]
    assert torch.rand == first[names.index("rand")]
    s.shutdown()
    assert all(getattr(torch, name) is each for name, each in zip(names, first, strict=True))
    assert not {*torch_random.METHODS} & vars(torch.Tensor).keys()
    assert not {*torch_random.LAYERS, *torch_random.DROPOUTS} & vars(torch._VF).keys()
    assert "own random state" not in repr(torch.nn.functional.scaled_dot_product_attention)


@pytest.mark.skipif(not torch.distributed.is_available(), reason="PyTorch was built without it")
@pytest.mark.filterwarnings("ignore:DTensor random operators")
def test_tensors_that_are_split_draw_from_each_workers_state(s):
    s.run("""
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
dist.init_process_group()
mesh = init_device_mesh("cpu", (4,))
torch.manual_seed(worker_id)
d = distribute_tensor(torch.ones(8), mesh, [Shard(0)])
torch.manual_seed(worker_id)
nn.init.uniform_(d); y = F.dropout(d, 0.5)
mine, masked = d.to_local(), y.to_local()
torch.manual_seed(7)
like = torch.rand_like(d).to_local()
torch.manual_seed(7)
same = F.dropout(distribute_tensor(torch.ones(8), mesh, [Replicate()]), 0.5).to_local()
""")
    for worker in range(4):
        torch.manual_seed(worker)
        x = torch.ones(2).uniform_()
        assert torch.equal(x, s["mine"].get(worker))
        assert torch.equal(torch.nn.functional.dropout(x, 0.5), s["masked"].get(worker))
    assert len({float(each[0]) for each in s["like"].get_all()}) == 1
    assert all(torch.equal(each, s["same"].get(0)) for each in s["same"].get_all())


def test_a_generator_by_position_is_the_one_that_is_drawn_from(s):
    s.run("x = torch.full((50,), 4.0)\ng = torch.Generator().manual_seed(5)\ny = torch.poisson(x, g)")
    s.run("torch.manual_seed(5)\nz = torch.poisson(x, None)")
    expected = torch.poisson(torch.full((50,), 4.0), torch.Generator().manual_seed(5))
    assert all(torch.equal(expected, each) for name in "yz" for each in s[name].get_all())


@pytest.mark.parametrize(
    "draw",
    [
        "torch.ops.aten.dropout.default(x, 0.5, True)",
        "torch.ops.aten.dropout(x, 0.5, True)",
        "torch.ops.aten.alpha_dropout.default(x, 0.5, True)",
        "torch.ops.aten.rrelu.default(-x, 0.1, 0.9, True)",
        "torch.ops.aten.scaled_dot_product_attention.default(x, x, x, None, 0.5)",
        "torch.ops.aten.bernoulli(x / 2)",
        "torch.native_dropout(x, 0.5, True)[0]",
    ],
)
def test_operations_as_exported_models_call_them_draw_from_each_workers_state(s, draw):
    s.run(f"x = torch.ones(1, 6, 4)\ntorch.manual_seed(worker_id)\ny = {draw}\nz = torch.rand(3)")
    x = torch.ones(1, 6, 4)
    for worker in range(4):
        torch.manual_seed(worker)
        assert torch.equal(eval(draw, {"torch": torch, "x": x}), s["y"].get(worker))  # noqa: S307
        assert torch.equal(torch.rand(3), s["z"].get(worker))
