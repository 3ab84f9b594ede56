"""PyTorch itself, where it is installed, on workers that compute on the CPU."""

from __future__ import annotations

import pytest

from disco_magic.errors import CellError, NoPicture, UnknownName, UsageMistake
from disco_magic.values.peek import statistics_of

DTYPES = ["float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "int8", "int64", "bool", "complex64"]


@pytest.fixture
def with_torch(session):
    """Three workers that have imported it."""
    pytest.importorskip("torch")
    started = session(3)
    started.run("import torch")
    return started


def texts(session, name):
    return session.run(f"str({name})").values


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_and_shapes_of_torch_stay(with_torch, dtype):
    pytest.importorskip("ml_dtypes")
    s = with_torch
    s.run(f"t = torch.arange(6).reshape(2, 3).to(torch.{dtype}).T")
    for call in ("allreduce(t)", "broadcast(t if worker_id == 0 else None)", "allgather(t[:0])"):
        s.run(f"y = {call}\nsame = y.dtype == t.dtype and y.device == t.device and not y.requires_grad")
        assert s["same"].get_all() == [True] * 3
    s.run("y = scatter(t)\nsame = y.dtype == t.dtype and bool((y == t[worker_id : worker_id + 1]).all())")
    assert s["same"].get_all() == [True] * 3


def test_a_message_is_received_into_a_tensor(with_torch):
    s = with_torch
    s.run(
        """
import numpy as np
from disco_magic.functions.worker_builtins import recv_from_worker, send_to_worker
t = torch.zeros(2, 2)
for sent in (torch.full((4,), 1.0 + worker_id), np.full(4, 1.0 + worker_id, "float32")):
    t.zero_()
    version = t._version
    send_to_worker(sent, (worker_id + 1) % 3)
    got = recv_from_worker(t, (worker_id - 1) % 3)
    assert got is t and t._version > version
    assert t.tolist() == [[1.0 + (worker_id - 1) % 3] * 2] * 2, t
""",
    )


def test_gradients_are_averaged_and_steps_stay_equal(with_torch):
    s = with_torch
    s.run(
        """
model = torch.nn.Linear(4, 2)
for p in model.parameters():
    p.data = broadcast(p.data)
rng = torch.Generator().manual_seed(worker_id)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    loss = model(torch.randn(8, 4, generator=rng)).square().mean()
    loss.backward()
    for p in model.parameters():
        p.grad = allreduce(p.grad, "avg")
    opt.step()
model = worker.replicated(model)
mean = allreduce(loss.detach(), "avg").item()
"""
    )
    assert s.check(values=True).ok
    assert len(set(s["mean"].get_all())) == 1


def test_gradients_are_parts_of_what_they_are_of(with_torch):
    s = with_torch
    s.run("""
net = torch.nn.Sequential(torch.nn.Linear(3, 2))
for p in net.parameters(): p.data.fill_(1)
x = torch.ones(1, 3, requires_grad=True)
y = net(x) * (1 + worker_id)
""")
    for label in ("net.0.weight.grad", "y.grad"):
        with pytest.raises(UnknownName):
            s.look_at(label)
    s.run("y.sum().backward()")
    assert s.check("net", values=True).ok
    assert [row.name for row in s.check("net.0.weight.grad", "x.grad", values=True).differing] == [
        "net.0.weight.grad",
        "x.grad",
    ]
    assert [cell.mean for cell in s.look_at("net.0.bias.grad").cells] == [
        1.0 + worker for worker in range(s.num_workers)
    ]


def test_an_optimizer_that_has_drifted_is_found(with_torch):
    s = with_torch
    s.run("""
net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 1))
for p in net.parameters(): p.data.fill_(1)
opt = torch.optim.AdamW(net.parameters(), lr=0.1)
net(torch.ones(1, 3)).sum().backward()
opt.step()
opt = worker.replicated(opt)
""")
    assert s.check(values=True).ok
    assert not s.registers().row("opt").differs
    s.run("if worker_id == 1: opt.state[net[1].weight]['exp_avg'] *= 2")
    assert [row.name for row in s.check(values=True).differing] == ["opt.state[2]['exp_avg']"]
    assert s.registers().row("opt").differs
    assert s.look_at("opt.state[2]['exp_avg']").differs


def test_what_torch_has_compiled_is_found_by_later_cells(with_torch):
    s = with_torch
    s.run("""
by = 2.0 + worker_id
@torch.compile(backend="eager")
def scaled(x):
    return x * by
class Net(torch.nn.Module):
    def forward(self, x):
        return scaled(x) + by
net = torch.compile(Net(), backend="eager")
scaled(torch.ones(1)), net(torch.ones(1))
""")
    for _ in range(2):
        assert s.run("scaled(torch.ones(1)).item(), net(torch.ones(1)).item()").values == [
            (2.0 + worker, 4.0 + 2 * worker) for worker in range(s.num_workers)
        ]


def test_gradients_are_averaged_by_one_call(with_torch):
    s = with_torch
    s.run(
        """
model = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Linear(2, 200), torch.nn.Linear(200, 400))
model(torch.full((1, 4), 1.0 + worker_id)).square().sum().backward()
grads = {name: p.grad for name, p in model.named_parameters()}
expected = {name: allreduce(g, "avg") for name, g in grads.items()}
fresh = allreduce_tree(grads, "avg")
filled = allreduce_tree(grads, "avg", out=grads)
right = [bool((grads[n] == e).all() and (fresh[n] == e).all()) for n, e in expected.items()]
right.append(grads["0.weight"] is model[0].weight.grad)
own = fresh["0.bias"].untyped_storage().nbytes() == 8 and type(fresh["2.bias"]) is torch.Tensor
"""
    )
    assert s["right"].get_all() == [[True] * 7] * 3
    assert s["own"].get_all() == [True] * 3
    with pytest.raises(
        CellError, match=r"allreduce_tree: x\['0\.weight'\].*requires grad - use \.detach\(\)"
    ):
        s.run("allreduce_tree(dict(model.named_parameters()))")


def test_tables_mark_a_module_that_has_drifted(with_torch):
    s = with_torch
    s.run("net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))")
    s.run("with torch.no_grad():\n    for p in net.parameters(): p.fill_(1)\nheld = {'net': net, 'step': 3}")
    assert {row.name: row.differs for row in s.registers().rows if row.name in ("net", "held")} == {
        "net": False,
        "held": False,
    }
    assert s.registers().row("held").cells[0].nbytes == 4 * (4 * 8 + 8 + 8 * 2 + 2)
    s.run("with torch.no_grad(): net[2].bias[1] += worker_id == 1")
    assert s.registers().row("net").odd() == s.registers().row("held").odd() == (False, True, False)


def test_generators_of_random_numbers_are_compared(with_torch):
    s = with_torch
    s.run("g = worker.replicated(torch.Generator().manual_seed(worker_id // 2))")
    assert [row.name for row in s.check(values=True).differing] == ["g.get_state()"]
    s.run("g.manual_seed(3)")
    assert s.check(values=True)


def test_trees_tell_autograd_what_was_filled(with_torch):
    s = with_torch
    s.run(
        """
memory = np.ones(3, "f4")
a, b = torch.from_numpy(memory), torch.from_numpy(memory)
p = torch.ones(3, requires_grad=True)
r = (p * b).sum()
allreduce_tree([a, b], out=[a, b])
"""
    )
    assert s.run("a.tolist()").values == [[3.0] * 3] * 3
    with pytest.raises(CellError, match="modified by an inplace operation"):
        s.run("r.backward()")
    s.run("w = torch.ones(200, 200)\nallreduce_tree({'a': w, 'b': w.t()}, out={'a': w, 'b': w.t()})")
    assert s.run("w.min().item(), w.max().item()").values == [(3.0, 3.0)] * 3
    with pytest.raises(CellError, match=r"x\[0\]: out must be a NumPy array, got Tensor"):
        s.run("allreduce_tree([np.ones(2, 'f4')], out=[torch.empty(2, device='meta')])")


def test_what_requires_grad_is_refused_with_what_to_do(with_torch):
    with pytest.raises(Exception, match=r"requires grad - use \.detach\(\)"):
        with_torch.run("allreduce(torch.ones(2, requires_grad=True))")


def test_without_gradients_it_is_taken(with_torch):
    s = with_torch
    s.run("p = torch.nn.Parameter(torch.ones(2) * worker_id)\nwith torch.no_grad(): y = allreduce(p)")
    assert texts(s, "y") == ["tensor([3., 3.])"] * 3
    s.run("with torch.no_grad(): broadcast(p, root=2, out=p)")
    assert s.run("p.tolist(), p.requires_grad").values == [([2.0, 2.0], True)] * 3


def test_of_a_tensor_that_was_computed_the_elements_come(with_torch):
    with_torch.run(
        "x = torch.full((2,), 1. + worker_id, requires_grad=True)\nclass Run: pass\n"
        "run = Run()\nrun.losses = [(x * i).sum() for i in range(3)]\nboth = (run.losses[1],) * 2"
    )
    values = with_torch.run("(x * 2).sum()").values
    assert [(float(each), each.requires_grad) for each in values] == [(4, False), (8, False), (12, False)]
    assert list(map(float, with_torch["run"].get(1).losses)) == [0, 4, 8]
    first, second = with_torch["both"].get(2)
    assert first is second
    assert with_torch.run("run.losses[1].grad_fn is not None and x.requires_grad").values == [True] * 3


def test_a_list_of_tensors_is_not_stacked_by_chance(with_torch):
    with pytest.raises(CellError, match=r"make one call per array, \[allgather\(each\) for each in x\]"):
        with_torch.run("allgather([torch.ones(2), torch.ones(2)])")
    with pytest.raises(CellError, match=r"allreduce_tree\(x\) reduces every array in it; or make one call"):
        with_torch.run("allreduce([torch.ones(2), torch.ones(2)])")


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_a_session_sends_stays_a_tensor(with_torch, dtype):
    pytest.importorskip("ml_dtypes")
    import torch

    s, given = with_torch, torch.arange(6).reshape(2, 3).to(getattr(torch, dtype)).T
    for held in (s.broadcast(given).get_all(), [s.store(given).get(0)]):
        assert all(each.dtype == given.dtype and each.tolist() == given.tolist() for each in held)
    parts = s.scatter(given).get_all()
    assert [(part.dtype, part.tolist()) for part in parts] == [(given.dtype, row) for row in given.tolist()]


def test_a_list_of_tensors_is_scattered_as_tensors(with_torch):
    import torch

    for dtype in (torch.int8, torch.bfloat16):
        parts = with_torch.scatter([torch.full((2,), k, dtype=dtype) for k in range(3)]).get_all()
        assert [(part.dtype, part.tolist()) for part in parts] == [(dtype, [k, k]) for k in range(3)]
    with pytest.raises(UsageMistake, match="PyTorch cannot stack these tensors: stack expects each tensor"):
        with_torch.scatter([torch.ones(1), torch.ones(2)])


def test_a_session_fills_tensors(with_torch):
    import torch

    whole = with_torch.broadcast(torch.zeros(2))
    parts = with_torch.scatter(torch.arange(6.0), whole)
    assert [part.tolist() for part in parts.get_all()] == [[0, 1], [2, 3], [4, 5]]


def test_what_requires_grad_is_not_sent_by_a_collective_of_a_session(with_torch):
    import torch

    with pytest.raises(UsageMistake, match=r"requires grad - use \.detach\(\)"):
        with_torch.broadcast(torch.ones(2, requires_grad=True))


@pytest.mark.parametrize("make", ["torch.arange(12).reshape(6, 2)", "jax.numpy.arange(12).reshape(6, 2)"])
def test_a_notebook_s_tensor_is_split_into_tensors_and_joined_as_one(make):
    from disco_magic.notebook.commands.splitting import join, split

    library = make.partition(".")[0]
    whole = eval(make, {library: pytest.importorskip(library)})  # noqa: S307 - the lines above
    for axis, count in ((0, 3), (1, 2)):
        parts = split("t", whole, axis, count)
        assert {type(part) for part in parts} == {type(whole)}
        joined = join("t", dict(enumerate(parts)), axis)
        assert type(joined) is type(whole)
        assert joined.tolist() == whole.tolist()


def test_messages_of_torch(with_torch):
    s = with_torch
    s.run("send(torch.full((2,), worker_id), (worker_id + 1) % 3)\ny = recv((worker_id - 1) % 3)")
    assert texts(s, "y") == ["tensor([2, 2])", "tensor([0, 0])", "tensor([1, 1])"]


def test_a_gradient_that_a_filled_tensor_has_spoilt_is_refused(with_torch):
    s = with_torch
    s.run("w = torch.ones(2, requires_grad=True)\nh = w * 2\nk = h * h")
    s.run("with torch.no_grad(): allreduce(h, out=h)")
    with pytest.raises(CellError, match="modified by an inplace operation"):
        s.run("k.sum().backward()")
    s.run("with torch.inference_mode():\n    t = torch.ones(2)\n    allreduce(t, out=t)")
    assert texts(s, "t") == ["tensor([3., 3.])"] * 3


@pytest.mark.parametrize(
    "odd",
    [
        "torch.nn.LazyLinear(3).weight",
        "torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])",
        "torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)",
        "torch.ones(3).to_sparse()",
        "torch.ones(3, device='meta')",
        "torch.classes",
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_a_tensor_that_cannot_tell_its_shape_is_no_end_of_a_table(with_torch, odd):
    s = with_torch
    s.run(f"import warnings\nwarnings.simplefilter('ignore')\nw = {odd}\nx = np.ones(3)")
    assert [cell.mean for cell in s.registers().row("x").cells] == [1.0] * 3
    assert s.look_at("w").cells[0].minimum is None
    with pytest.raises(NoPicture):
        s.examine("w", statistics_of)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_look_and_a_collective_leave_empty_tensors_as_they_were(with_torch, dtype):
    pytest.importorskip("ml_dtypes")
    s = with_torch
    s.run(f"buf = torch.empty(0, dtype=torch.{dtype})\nfull = torch.ones(5).to(buf.dtype)")
    s.registers()
    s.check("buf", values=True)
    s.run("allgather(buf)")
    assert s.run("torch.cat([full[:2], full[2:]], out=buf).tolist()").values == [[1.0] * 5] * 3


def test_the_step_after_which_a_model_or_its_optimizer_differs_is_found(with_torch):
    s = with_torch
    s.run("net = torch.nn.Linear(3, 2)\nfor p in net.parameters(): p.data = broadcast(p.data)")
    s.run("opt = torch.optim.Adam(net.parameters(), lr=0.1); x = torch.ones(4, 3)")
    training = (
        "for step in range({steps}):\n"
        "    opt.zero_grad(); net(x).sum().backward()\n"
        "    if step == 2 and worker_id == 1: {drift}\n"
        "    opt.step()\n"
        "    worker.check(net, opt)"
    )
    s.run(training.format(steps=2, drift="pass"))
    for drift, names in [
        ("net.bias.grad[1] += 1", {"net.bias", "opt.state[1]['exp_avg']", "opt.state[1]['exp_avg_sq']"}),
        ("opt.param_groups[0]['lr'] = 0.2", {"net.weight", "net.bias", "opt.param_groups[0]"}),
    ]:
        s.run("for p in (*net.parameters(), *opt.state[net.bias].values()): p.data = broadcast(p.data)")
        with pytest.raises(CellError) as caught:
            s.run(training.format(steps=9, drift=drift))
        report = caught.value.failures[2].exception.report
        assert ({row.name for row in report.differing}, s["step"].get_all()) == (names, [2] * 3)


@pytest.mark.parametrize("view", ["p.data", "p.detach()", "p.view(-1)"])
def test_what_is_all_of_a_parameter_marks_it(with_torch, view):
    s = with_torch
    s.run(
        "net = torch.nn.Linear(3, 2)\nfor p in net.parameters(): p.data.fill_(1)\n"
        f"for p in net.parameters(): worker.replicated({view})"
    )
    assert s.check(values=True)
    s.run("with torch.no_grad(): net.weight[0, 0] += worker_id == 2")
    assert [row.name for row in s.check(values=True).differing] == ["net.weight"]
