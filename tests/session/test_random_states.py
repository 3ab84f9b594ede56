"""Random states that a process has once: each worker has its own."""

from __future__ import annotations

import copy
import inspect
import pickle
import pydoc
import random

import numpy as np
import pytest

from disco_magic.callers.replaced import Replaced
from disco_magic.isolation import random_states
from tests.isolation.cupy_states import stand_in
from tests.session.conftest import stopped

SEEDED = {
    "random": ("random.seed({})", "random.random()"),
    "Python's own": ("random.seed({})", "random._inst.gauss(0, 1)"),
    "NumPy": ("np.random.seed({})", "float(np.random.rand())"),
    "NumPy's own": ("np.random.seed({})", "float(np.random.mtrand._rand.normal())"),
}
seeded = pytest.mark.parametrize(("seed", "draw"), SEEDED.values(), ids=SEEDED)


@pytest.fixture
def s(session):
    """Four workers."""
    started = session(4)
    started.run("import random")
    return started


def drawn(draw, times, before="pass"):
    """What is drawn here."""
    scope = {"random": random, "np": np, "times": times}
    exec(f"{before}\nx = [{draw} for _ in range(times)]", scope)
    return scope["x"]


def alone(seed, draw, number, times=3):
    """What a process of its own gets."""
    kept = random.getstate(), np.random.get_state()
    try:
        return drawn(draw, times, seed.format(number))
    finally:
        random.setstate(kept[0])
        np.random.set_state(kept[1])


@seeded
def test_workers_that_seed_alike_draw_alike_as_processes_do(s, seed, draw):
    expected = alone(seed, draw, 3, times=200)
    s.run(f"{seed.format(3)}\nx = [{draw} for _ in range(200)]")
    assert s["x"].get_all() == [expected] * 4


@seeded
def test_those_that_seed_each_in_its_way_draw_so(s, seed, draw):
    s.run(seed.format("worker_id"))
    s.run(f"barrier()\nx = [{draw} for _ in range(3)]")
    assert s["x"].get_all() == [alone(seed, draw, worker) for worker in range(4)]


@seeded
def test_the_state_of_the_process_stays_what_it_was(s, seed, draw):
    mine = drawn(draw, 1, seed.format(7))
    s.run(f"{seed.format(3)}\nx = {draw}")
    mine += drawn(draw, 2)
    assert mine == alone(seed, draw, 7)


@seeded
def test_who_never_seeds_draws_what_nobody_else_does(s, seed, draw):
    values = s.run(draw).values
    assert len(set(values)) == 4
    s.restart()
    s.run("import random")
    assert not set(values) & set(s.run(draw).values)


def test_what_has_the_state_itself_and_what_has_its_functions_draw_from_one(s):
    s.run("r = np.random.mtrand._rand\nnp.random.seed(5)")
    s.run("x = [float(f()) for f in [np.random.randn, r.randn, r.randn] * 3]")
    assert s["x"].get_all() == [list(np.random.RandomState(5).randn(9))] * 4


def test_what_was_imported_from_numpy_before_draws_from_the_workers_state(session):
    from numpy.random import standard_normal

    s = session(2)
    s.run("np.random.seed(5)")
    assert [float(x) for x in s.call_packed(standard_normal).get_all()] == [
        float(np.random.RandomState(5).standard_normal())
    ] * 2


def test_states_are_kept_and_put_back(s):
    s.run(
        """
kept, theirs = np.random.get_state(), random.getstate()
x = np.random.randn(), random.gauss()
barrier()
np.random.set_state(kept); random.setstate(theirs)
same = (np.random.randn(), random.gauss()) == x
"""
    )
    assert s["same"].get_all() == [True] * 4


def test_threads_of_a_worker_draw_from_its_state(s):
    s.run(
        """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(1) as pool:
    pool.submit(np.random.seed, worker_id).result()
    x = [float(pool.submit(np.random.rand).result()), float(np.random.rand())]
"""
    )
    assert s["x"].get_all() == [list(np.random.RandomState(worker).rand(2)) for worker in range(4)]


def test_a_session_s_end_puts_everything_back(session):
    functions = [(module, name) for module in (random, np.random, np.random.mtrand) for name in dir(module)]
    before = [getattr(module, name) for module, name in functions]
    numbers = np.random.get_bit_generator()
    expected = np.random.RandomState(3).randn(4)
    np.random.seed(3)
    drawn = [np.random.randn()]
    s = session(2)
    drawn.append(np.random.randn())
    s.run("np.random.mtrand._rand.randn()")
    s.shutdown()
    drawn += [np.random.randn(), np.random.randn()]
    assert drawn == list(expected)
    assert np.random.get_bit_generator() is numbers
    present = [getattr(module, name) for module, name in functions]
    assert [type(each) for each in present] == [type(each) for each in before]
    assert present == before


def test_functions_are_what_they_stand_for(session):
    first = random.random, np.random.rand, random.shuffle
    session(1)
    ours = random.random, np.random.rand, random.shuffle
    assert ours == first
    assert list(map(hash, ours)) == list(map(hash, first))
    assert [each is other for each, other in zip(ours, first, strict=True)] == [False] * 3
    assert [each.__doc__ for each in ours] == [each.__doc__ for each in first]
    assert pickle.loads(pickle.dumps(ours)) == ours  # noqa: S301 - our own bytes
    assert repr(np.random.rand) == "<function numpy.random.rand of each worker's own random state>"


def test_what_has_kept_a_function_can_be_pickled_after_the_session(session):
    s = session(1)
    kept = [random.random, np.random.rand]
    s.shutdown()
    assert pickle.loads(pickle.dumps(kept[1]))(3).shape == (3,)  # noqa: S301 - our own bytes
    assert 0 <= pickle.loads(pickle.dumps(kept[0]))() < 1  # noqa: S301 - as above


def test_the_state_can_be_copied_and_pickled(session):
    session(1)
    state = np.random.mtrand._rand
    pickled = pickle.loads(pickle.dumps(state))  # noqa: S301 - our own bytes
    for made in (copy.deepcopy(state), pickled):
        assert type(made._bit_generator) is np.random.MT19937
        assert made.rand() == copy.deepcopy(state).rand()


def test_wrong_arguments_are_the_library_s_error(s):
    with pytest.raises(ValueError, match="negative dimensions"):
        np.random.rand(-1)
    assert "negative dimensions" in str(
        s.run("try: np.random.rand(-1)\nexcept ValueError as e: x = str(e)\nx")
    )


def test_a_wait_that_is_struck_leaves_the_state_to_others(busy, here):
    s = busy(2)
    with np.random.mtrand._rand._bit_generator.lock:
        pending = s.run_nowait("here()\nnp.random.mtrand._rand.rand()")
        here.arrived(2)
        pending.cancel()
    assert len(stopped(pending)) == 2
    assert s.run("np.random.mtrand._rand.rand() < 1").values == [True] * 2
    assert np.random.mtrand._rand.rand() < 1


def test_functions_that_a_module_has_kept_are_those_of_later_sessions(s, session):
    kept = random.seed, random.random, np.random.seed, np.random.rand
    s.restart()
    for started in (s, session(2)):
        for seed, draw in (kept[:2], kept[2:]):
            started.call_packed(seed, 5)
            assert len(set(started.call_packed(draw).get_all())) == 1


def test_python_s_own_generator_stays_one_for_who_takes_it(s):
    """As NetworkX does: ``random._inst`` if there is no seed, and `isinstance` for any other generator."""
    s.run("random.seed(5)\nrng = random._inst\nfirst = rng.getrandbits(64)\nrandom.seed(5)")
    assert (
        s.run("first == random.getrandbits(64), isinstance(rng, random.Random)").values == [(True, True)] * 4
    )
    s.run("import copy, pickle\nkept = [copy.deepcopy(rng), pickle.loads(pickle.dumps(rng))]")
    s.run("drawn = [each.random() for each in (*kept, rng)]")
    assert s.run("len(set(drawn))").values == [1] * 4
    rng = random._inst
    assert rng.getstate() == random.getstate(), "outside of workers it is the process's"
    s.shutdown()
    assert rng.getstate() == random._inst.getstate()


@pytest.mark.parametrize("is_there_before", [True, False])
def test_another_bit_generator_of_numpy_s_stays(session, is_there_before):
    first = np.random.get_bit_generator()
    other = np.random.PCG64(1)
    s = None if is_there_before else session(2)
    np.random.set_bit_generator(other)
    try:
        s = s or session(2)
        s.run("x = np.random.mtrand._rand.rand(), np.random.rand()")
        s.shutdown()
        assert np.random.get_bit_generator() is other
        assert not isinstance(random.shuffle, random_states.StateFunction)
    finally:
        np.random.set_bit_generator(first)


def test_a_forked_process_draws_something_else(s):
    s.run("random.seed(3)")
    s.call_packed(random_states._begin_anew)
    random_states._begin_anew()  # of who is no worker Python takes care
    values = s.run("random.random()").values
    assert alone(*SEEDED["random"], 3)[0] not in values
    assert len(set(values)) == 4


class Numbers:
    """A state of NumPy's, which cannot be set to one of these once."""

    def __init__(self, state, failing=()):
        self.state, self.failing = state, list(failing)

    def get_state(self, legacy):
        return self.state

    def set_state(self, state):
        if state in self.failing:
            self.failing.remove(state)
            raise KeyboardInterrupt
        self.state = state


@pytest.mark.parametrize("failing", ["the worker's", "the process's"])
def test_ctrl_c_while_a_state_is_put_there_leaves_the_other_and_no_lock(failing):
    everyones, own = Numbers("the process's", [failing]), Numbers("the worker's")
    whose = [own]

    lock = random_states._LockOfNumpy(everyones, lambda: whose[0])
    steps = []
    for each in (own, None, own, None):
        whose[0] = each
        try:
            with lock:
                steps.append(everyones.state)
        except KeyboardInterrupt:
            steps.append("interrupted")
        assert not lock._is_owned()
    expected = ["the worker's", "the process's"] * 2
    expected[expected.index(failing)] = "interrupted"
    assert steps == expected


def test_a_start_that_is_interrupted_half_way_changes_nothing(monkeypatch):
    functions, numbers = dict(vars(np.random)), np.random.get_bit_generator()
    put = Replaced.put
    turns = iter(range(20))

    def put_some(self):
        if next(turns, None) is None:
            raise KeyboardInterrupt
        put(self)

    monkeypatch.setattr(Replaced, "put", put_some)
    with pytest.raises(KeyboardInterrupt):
        random_states.fit_numpy(np.random)
    assert dict(vars(np.random)) == functions
    assert not any(isinstance(each, random_states.StateFunction) for each in vars(np.random).values())
    assert np.random.get_bit_generator() is numbers


def test_help_takes_them_for_functions(session):
    session(1)
    text = pydoc.render_doc(np.random.rand)
    assert "Random values in a given shape." in text
    assert "Methods defined here" not in text
    assert inspect.isroutine(random.shuffle)


def test_on_gpus_each_worker_has_states_of_its_own(session, monkeypatch):
    module = stand_in(monkeypatch)
    first = module._random_states
    module.seed(1)
    s = session(2)
    s.run("import cupy.random._generator as g\ng.seed(worker_id)\nx = g.get_random_state().seeds")
    assert s["x"].get_all() == [[0], [1]]
    s.run("g.set_random_state(g.RandomState())\nx = g.get_random_state().seeds")
    assert s["x"].get_all() == [[], []]
    s.run("g.seed(5)\ng.reset_states()\nx = g.get_random_state().seeds", workers=(0,))
    assert s["x"].get_all() == [[], []]
    assert module.get_random_state().seeds == [1]
    module.reset_states()
    assert module.get_random_state().seeds == []
    first = {0: module.get_random_state()}
    s.shutdown()
    assert type(module._random_states) is dict
    assert module._random_states == first
