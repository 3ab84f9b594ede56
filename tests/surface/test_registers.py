"""Rows about references: ids, when registers die, and what a refused command leaves behind."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

import disco_magic as disco
from tests.surface.conftest import give, unchanged_by, who


class Noisy:
    """Says on which worker it dies."""

    def __init__(self, deaths):
        self.worker = who()
        self.deaths = deaths

    def __del__(self):
        self.deaths(self.worker)


class Deaths:
    """Notes deaths; a handle, so that a copy of it is the thing itself."""

    def __init__(self):
        self.of = []

    def __call__(self, worker):
        self.of.append(worker)

    def __deepcopy__(self, memo):
        return self


@pytest.mark.parametrize("make", ["call_packed", "empty", "get_global_func", "copy_to_worker_0", "broadcast"])
def test_register_ids_begin_at_one(session, make):
    s = session(2)
    ways = {
        "call_packed": lambda: s.call_packed(who),
        "empty": lambda: s.empty((1,), "float32"),
        "get_global_func": lambda: s.get_global_func("runtime.disco.barrier"),
        "copy_to_worker_0": lambda: s.copy_to_worker_0(np.zeros(1)),
        "broadcast": lambda: s.broadcast(np.zeros(1)),
    }
    first = ways[make]()
    # A broadcast needs a register for the array on its way.
    assert first.register == (2 if make == "broadcast" else 1)


def test_register_ids_are_reused_last_freed_first(session):
    s = session(3)
    refs = {number: s.call_packed(who) for number in range(1, 6)}
    assert [ref.register for ref in refs.values()] == [1, 2, 3, 4, 5]
    for number in (2, 5, 3):
        del refs[number]
        s.sync_all()
    kept = [s.call_packed(give, step) for step in range(4)]
    assert [ref.register for ref in kept] == [3, 5, 2, 6]
    assert [ref.get(2)[0] for ref in kept] == [(0,), (1,), (2,), (3,)]
    assert refs[4].get_all() == [0, 1, 2]


def test_dropping_a_dref_frees_it_on_every_worker(session):
    s, deaths = session(3), Deaths()
    ref = s.call_packed(Noisy, deaths)
    s.sync_all()
    assert deaths.of == []
    del ref
    s.sync_all()
    assert sorted(deaths.of) == [0, 1, 2]


def test_dropping_a_dref_frees_it_after_the_commands_that_read_it(session, gate):
    s = session(2)
    s.call_packed(gate)
    gate.arrived(2)
    ref = s.call_packed(np.full, 3, 5)
    later = s.call_packed(np.sum, ref)
    number = ref.register
    del ref
    other = s.call_packed(np.zeros, 3)  # takes the number while its last reader is still to come
    assert other.register == number
    gate.open()
    assert [int(value) for value in later.get_all()] == [15, 15]


def test_dropping_a_dref_in_the_garbage_collector_or_another_thread_is_safe(session, background):
    s, deaths = session(2), Deaths()
    cycle = [s.call_packed(Noisy, deaths)]
    cycle.append(cycle)
    elsewhere = [s.call_packed(Noisy, deaths)]
    s.sync_all()
    del cycle
    gc.collect()
    background(elsewhere.clear)()
    s.sync_all()
    assert sorted(deaths.of) == [0, 0, 1, 1]


REFUSALS = {
    "unknown function": lambda s, ref: s.get_global_func("surface.nobody"),
    "call of an unknown function": lambda s, ref: s.call_packed("surface.nobody"),
    "a function's name that is no text": lambda s, ref: s.get_global_func(5),
    "no function": lambda s, ref: s.call_packed(5),
    "argument that cannot travel": lambda s, ref: s.call_packed(give, threading.Lock()),
    "keyword that cannot travel": lambda s, ref: s.call_packed(give, x=threading.Lock()),
    "reference in a list": lambda s, ref: s.call_packed(give, [ref]),
    "reference of another session": lambda s, ref: s.call_packed(give, s.stranger),
    "function of another session": lambda s, ref: s.call_packed(s.stranger),
    "source of another session": lambda s, ref: s.allgather(s.stranger),
    "broadcast into another session": lambda s, ref: s.broadcast(np.zeros(2), s.stranger),
    "scatter into another session": lambda s, ref: s.scatter(np.zeros(2), s.stranger),
    "broadcast into a host array": lambda s, ref: s.broadcast(np.zeros(2), np.zeros(2)),
    "allreduce into a host array": lambda s, ref: s.allreduce(ref, np.zeros(2)),
    "gather into a host array": lambda s, ref: s.gather_to_worker0(ref, np.zeros(4)),
    "reduce into a host array": lambda s, ref: s.reduce(ref, np.zeros(2)),
    "copy into another session": lambda s, ref: s.copy_to_worker_0(np.zeros(2), s.stranger),
    "copy into no reference": lambda s, ref: s.copy_to_worker_0(np.zeros(2), 5),
    "copy from another session": lambda s, ref: s.copy_from_worker_0(np.zeros(2), s.stranger),
    "copy to no array": lambda s, ref: s.copy_from_worker_0([0, 0], ref),
    "copy of objects": lambda s, ref: s.copy_to_worker_0({"a": 1}),
    "broadcast of objects": lambda s, ref: s.broadcast([object()]),
    "broadcast of a masked array": lambda s, ref: s.broadcast(np.ma.array([1, 2], mask=[1, 0])),
    "scatter of a table": lambda s, ref: s.scatter(pytest.importorskip("pandas").DataFrame({"a": [1, 2]})),
    "scatter of objects": lambda s, ref: s.scatter([None, None]),
    "scatter in another number of parts": lambda s, ref: s.scatter(np.zeros((3, 2))),
    "scatter of a number": lambda s, ref: s.scatter(1.0),
    "ragged array": lambda s, ref: s.scatter([[1], [1, 2]]),
    "shape": lambda s, ref: s.empty((2, -1), "float32"),
    "no shape": lambda s, ref: s.empty("ab", "float32"),
    "dtype": lambda s, ref: s.empty((2,), "flote32"),
    "op": lambda s, ref: s.allreduce(ref, op="mean"),
    "op of reduce_scatter": lambda s, ref: s.reduce_scatter(ref, op="mean"),
    "no such worker": lambda s, ref: s.call_packed(who, workers=[2]),
    "no worker": lambda s, ref: s.call_packed(who, workers=[]),
    "get from no worker": lambda s, ref: ref.debug_get_from_remote(2),
    "set on no worker": lambda s, ref: ref.debug_copy_from(-1, 0),
    "set to what cannot travel": lambda s, ref: ref.debug_copy_from(0, threading.Lock()),
    "sync of no worker": lambda s, ref: s.sync_worker(2),
    "timeout": lambda s, ref: s.sync_all(timeout=-1),
    "unknown register": lambda s, ref: s["nobody"],
    "name of a register": lambda s, ref: s.__setitem__("class", ref),
    "register that is no reference": lambda s, ref: s.__setitem__("x", 5),
    "cell that is no text": lambda s, ref: s.run(None),
}


class Strange(disco.ThreadedSession):
    """A session that knows a reference of another one."""

    def __init__(self, num_workers, stranger):
        super().__init__(num_workers)
        self.stranger = stranger


@pytest.fixture(scope="module")
def strange():
    """One for all refusals: none leaves anything behind."""
    with disco.ThreadedSession(1) as other, Strange(2, other.call_packed(who)) as s:
        yield s


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_refused_command_leaks_no_register(strange, refusal):
    ref = strange.call_packed(np.zeros, 2)

    def refused():
        with pytest.raises(disco.UsageMistake):
            REFUSALS[refusal](strange, ref)

    assert unchanged_by(strange, refused)
    assert ref.get(1).tolist() == [0, 0]


def test_a_refused_command_leaks_no_register_when_a_cell_is_no_python(session):
    s = session(2)

    def refused():
        with pytest.raises(SyntaxError):
            s.run("x =")

    assert unchanged_by(s, refused)


def test_a_command_that_fails_on_a_worker_leaks_no_register(session):
    s = session(2)
    s.call_packed(who)
    for _ in range(5):
        with pytest.raises(disco.WorkerError):
            s.copy_to_worker_0(np.zeros(3), s.call_packed(np.zeros, 2))
        with pytest.raises(disco.WorkerError):
            s.scatter(np.zeros(3), s.empty((2,), "float64")).get(0)
    gc.collect()
    assert s.call_packed(who).register <= 3
