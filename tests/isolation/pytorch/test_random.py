"""PyTorch's random state, of which each worker has its own, on a stand-in for what draws from it.

With PyTorch itself: `tests/session/test_torch_random.py`.
"""

from __future__ import annotations

import pickle
import sys
import threading
from contextvars import Context
from types import SimpleNamespace

import numpy as np
import pytest

from disco_magic.isolation.imported import Libraries, told_if_unknown
from disco_magic.isolation.pytorch import random as torch_random
from disco_magic.isolation.pytorch.random import fit_graphs, fit_torch_random
from tests.isolation.pytorch.torch_numbers import stand_in


@pytest.fixture
def torch(monkeypatch):
    if "torch" in sys.modules:
        pytest.skip("PyTorch itself has been imported")
    return stand_in(monkeypatch)


@pytest.fixture
def s(torch, session):
    """Two workers that have seeded with their number; the process with 7."""
    torch.manual_seed(7)
    started = session(2)
    started.run("import torch\nF = torch.nn.functional\ntorch.manual_seed(worker_id)\nx = torch.Tensor()")
    return started


DRAWING = {
    "a function": "torch.rand(3)",
    "beside a tensor": "torch.rand_like(x)",
    "with the process's generator": "torch.randperm(3, generator=torch.default_generator)",
    "a method": "x.normal_(0, 1).drawn.pop()",
    "a method of the class": "torch.Tensor.uniform_(x).drawn.pop()",
    "a dropout": "torch._VF.alpha_dropout(x, 0.5, True)",
    "a layer": "torch._VF.lstm(x, [], [], True, 2, 0.5, True, False, False)",
    "attention": "F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)",
    "attention, by place": "F.scaled_dot_product_attention(x, x, x, None, 0.5)",
    "a split": "torch.utils.data.dataset.randperm(3)",
    "a slope": "F.rrelu_(x)",
    "a tensor of another class": "torch.Plain().uniform_().drawn[0]",
    "one that calls others": "torch.Split().uniform_().drawn[0]",
    "a parameter": "torch.nn.Parameter().normal_().drawn[0]",
    "an operation": "torch.ops.aten.uniform_.default(x)",
    "one that another one is seeded for": "torch.ops.aten.randint.low(0, 3)",
    "one that cannot be seeded": "torch.ops.aten.randint.default(3)",
}


@pytest.mark.parametrize("expression", DRAWING.values(), ids=DRAWING)
def test_workers_draw_from_generators_of_their_own(s, torch, expression):
    assert s.run(f"[{expression} for _ in range(2)]").values == [[(0, 0), (0, 1)], [(1, 0), (1, 1)]]
    scope = {"torch": torch, "F": torch.nn.functional, "x": torch.Tensor()}
    exec(f"y = {expression}", scope)
    assert scope["y"] == (7, 0)


def test_a_dropout_keeps_what_its_mask_has_divided_by_how_much_it_keeps(s):
    s.run("y, z = torch.dropout(x, p=0.75, train=True), torch.dropout_(input=x, p=0.5, train=True)")
    assert s.run("y.drawn, z is x, x.drawn").values == [
        ([(worker, 0), 0.25], True, [(worker, 1), 0.5]) for worker in range(2)
    ]


@pytest.mark.parametrize(
    "line",
    [
        "torch.dropout(x, 0.5, False); torch.dropout(x, 0, True); torch.dropout(x, 1.0, True)",
        "torch.gru(x, [], [], True, 2, 0.0, True, False, False)",
        "F.scaled_dot_product_attention(x, x, x, None)",
        "torch.rand(3, generator=torch.Generator())",
        "torch.rand(3, device='cuda'); torch.Tensor('cuda').normal_(); torch.rand_like(torch.Tensor('cuda'))",
        "torch.where = 'meta'; torch.rand(3); torch.where = 'cpu'",
        "torch.is_tracing = True; torch.rand(3); x.normal_(); torch.is_tracing = False",
        "torch.watching.add('fake'); torch.rand(3); torch.watching.clear()",
        "torch.rand(written)",
        "torch.alpha_dropout(torch.Split(), 0.5, True); torch.alpha_dropout(x, 'much', True)",
    ],
)
def test_what_the_state_has_nothing_to_do_with_goes_as_ever(s, line):
    s.run("class Written:\n    def __torch_function__(self): pass\nwritten = Written()")
    s.run(line, workers=(0,))
    assert s.run("torch.get_rng_state()").values == [(0, 0), (1, 0)]


def test_somebody_who_watches_and_does_not_write_changes_nothing(s):
    assert s.run("torch.watching.add('mine'); torch.rand(3)").values == [(0, 0), (1, 0)]


def test_states_are_kept_put_back_and_begun_anew(s, torch):
    s.run(
        "kept = torch.random.get_rng_state()\na = torch.rand(1)\ntorch.set_rng_state(kept)\nb = torch.rand(1)"
    )
    assert s.run("a == b, torch.initial_seed()").values == [(True, 0), (True, 1)]
    assert len(set(s.run("torch.seed()").values)) == 2
    assert s.run("torch.initial_seed() == torch.rand(1)[0]").values == [True] * 2
    assert torch.get_rng_state() == (7, 0)
    assert torch.of_gpus == []


def test_a_gpu_is_seeded_by_the_worker_that_uses_it(s, torch):
    torch.has_gpu = True
    s.run("torch.manual_seed(3)", workers=(1,))
    s.run("torch.cuda.manual_seed_all(4)", workers=(1,))
    torch.cuda.manual_seed_all(5)
    assert torch.of_gpus == ["ready", 3, "ready", 4, ("all", 5)]
    s.run("torch.cuda.random.seed_all()\ntorch.seed()", workers=(0,))
    assert len(torch.of_gpus) == 9
    torch.is_forked = True  # as in a process of a `DataLoader`: it may not begin with a GPU
    s.run("torch.manual_seed(3)", workers=(1,))
    assert len(torch.of_gpus) == 9


def test_the_library_says_what_is_wrong_without_what_we_give_it(s, torch):
    said = s.run("try: torch.rand('wrong')\nexcept TypeError as error: said = str(error)\nsaid").values
    assert said == ["got ('wrong',) None"] * 2


def test_what_is_borrowed_is_given_back_also_if_the_call_fails(s, torch):
    def fail():
        torch.default_generator.draw()
        raise OSError

    torch.within = fail
    s.run("try: torch.lstm(x, 0.5)\nexcept OSError: pass")
    assert s.run("torch.get_rng_state()").values == [(0, 1), (1, 1)]
    assert torch.get_rng_state() == (7, 0)


def test_who_is_no_worker_waits_until_the_state_is_given_back(s, torch):
    drawn = []
    others = threading.Thread(target=lambda: drawn.append(torch.rand(3)))

    def call_within():
        Context().run(others.start)  # as no thread of the worker's
        others.join(0.1)

    torch.within = call_within
    s.run("torch.lstm(x, 0.5)", workers=(0,))
    others.join()
    assert drawn == [(7, 0)]


def test_what_is_nested_is_left_to_the_library(s):
    s.run("x.is_nested = True")
    assert s.run("torch.dropout(x, 0.5, True), torch.dropout(x, 0.5, True)").values == [
        ((worker, 0), (worker, 1)) for worker in range(2)
    ]


def test_functions_that_a_module_has_kept_are_those_of_later_sessions(torch, session):
    s = session(2)
    kept = torch.rand, torch.manual_seed
    s.restart()
    for started in (s, session(2)):
        started.call_packed(kept[1], 5)
        assert started.call_packed(kept[0], 3).get_all() == [(5, 0)] * 2
        assert started.run("import torch\ntorch.rand(3)").values == [(5, 1)] * 2


def test_a_method_can_be_pickled_and_says_whose_it_is(torch, session):
    session(1)
    method = torch.Tensor.normal_
    assert pickle.loads(pickle.dumps((torch.rand, method.__reduce__()[1][1]))) == (torch.rand, "normal_")  # noqa: S301 - our own bytes
    assert method.__reduce__()[0](*method.__reduce__()[1]) is method
    assert repr(method) == "<function torch.Tensor.normal_ of each worker's own random state>"


def test_a_call_within_a_call_draws_on(s, torch):
    def call_within():
        torch.within = int
        torch.gru(0.5)

    torch.within = call_within
    assert s.run("torch.lstm(x, 0.5)", workers=(1,)).values == [(1, 1)]
    assert s.run("torch.get_rng_state()").values == [(0, 0), (1, 2)]


def test_a_state_that_cannot_be_borrowed_is_free_for_others(s, torch, monkeypatch):
    def fail(_):
        raise OSError

    with monkeypatch.context() as broken:
        broken.setattr(torch.default_generator, "set_state", fail)
        assert s.run("try: torch.lstm(x, 0.5)\nexcept OSError: y = 3\ny").values == [3, 3]
    assert s.run("torch.lstm(x, 0.5)").values == [(0, 0), (1, 0)]


def test_all_is_as_before_when_the_last_session_has_ended(torch, session):
    places = (torch, torch._VF, torch.nn.functional, torch.random, torch.cuda, torch.cuda.random)
    before = [dict(vars(place)) for place in places]
    table = dict(torch.jit._builtins._get_builtin_table())
    s = session(1)
    assert torch.rand is not before[0]["rand"]
    assert torch.rand == before[0]["rand"]
    known = id(torch.rand)
    assert torch.jit._builtins._get_builtin_table()[known] == "aten::rand"
    s.shutdown()
    assert [dict(vars(place)) for place in places] == before
    assert [torch.rand is before[0]["rand"], vars(torch.Tensor).keys() & {*torch_random.METHODS}] == [
        True,
        set(),
    ]
    assert torch.jit._builtins._get_builtin_table() == table | {known: "aten::rand"}


def test_the_compiler_takes_them_for_what_they_stand_for(torch, session):
    s = session(1)
    allowed, of_numpy = set(), set()
    fit_graphs(SimpleNamespace(_allowed_callable_ids=allowed, _numpy_function_ids=of_numpy))
    assert id(np.random.rand) in of_numpy
    assert id(torch.manual_seed) not in allowed  # it ends a graph
    assert {id(torch.rand), id(torch._VF.dropout), id(torch.nn.functional.rrelu_)} <= allowed
    kept = torch.rand
    s.shutdown()
    session(1)
    assert torch.rand is kept  # and nothing else is ever where it is


def test_what_is_mapped_is_given_no_generator(s, torch):
    torch.is_mapped = True
    assert s.run("torch.rand(3), x.normal_().drawn[0], torch.ops.aten.randint.low(0, 3)").values == [
        ((worker, 0), (worker, 1), (worker, 2)) for worker in range(2)
    ]


def test_threads_of_a_worker_draw_one_after_the_other(s):
    s.run(
        """
import threading
drawn = []
other = threading.Thread(target=lambda: drawn.append(torch.rand(3)))
def within():
    torch.within = int
    other.start()
    other.join(0.1)
torch.within = within
first = torch.lstm(x, 0.5)
other.join()
""",
        workers=(1,),
    )
    assert (s["first"].get(1), s["drawn"].get(1)) == ((1, 0), [(1, 1)])


def test_of_another_version_is_warned(torch):
    del torch._C._get_tracing_state, torch.randn
    with pytest.warns(UserWarning, match="all have one: AttributeError"):
        Libraries({"torch": told_if_unknown(fit_torch_random, "all have one")}).enter(torch)
