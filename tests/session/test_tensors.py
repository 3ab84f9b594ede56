"""Tensors of PyTorch on the host, stood in for, in sessions: checked, shown, in collectives."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from disco_magic.errors import CellError, WorkerError
from tests.doubles import arrays

MAKE = """
from tests.doubles.arrays import tensor as _make
def _t(x): return _make(np.asarray(x), device='cpu')
"""


@pytest.fixture
def tensors(session):
    """A session in which ``_t(x)`` makes a tensor of the worker's own."""

    def start(n):
        started = session(n)
        started.run(MAKE)
        return started

    return start


@pytest.fixture
def torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", arrays.torch())


@pytest.mark.parametrize("held", ["{}", "[1, {}]", "dict(w=dict(b={}))"])
def test_a_tensor_that_drifts_is_found_with_how_far(tensors, held):
    s = tensors(3)
    s.run(f"w = worker.replicated({held.format('_t(np.ones(9) + (worker_id == 2) * 0.5)')})")
    report = s.check(values=True)
    assert not report.ok
    assert report.differing[0].gap == "9 of 9 elements differ from the first worker's, by up to 0.5"


def test_equal_tensors_make_a_true_report(tensors):
    s = tensors(3)
    s.run("w = worker.replicated(_t(np.ones(9)))")
    assert s.check(values=True).summary == "[0-2] agree on: w"
    assert s.check(values=True)


def test_shapes_and_dtypes_of_tensors_are_compared_beside_their_values(tensors):
    s = tensors(2)
    s.run("w = worker.replicated(_t(np.ones(2, 'f4' if worker_id else 'f8')))")
    s.run("v = worker.replicated(_t(np.ones(1 + worker_id)))")
    report = s.check(values=True)
    assert (report["w"].aspects[0], report["v"].aspects[0]) == ("dtype", "shape")


def test_equal_tensors_are_shown_once(tensors):
    assert [workers for workers, _ in tensors(3).run("_t(np.ones(2))").groups()] == [(0, 1, 2)]
    assert len(tensors(3).run("_t(np.full(2, worker_id))").groups()) == 3


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("allreduce(t, out=t)", "[6.0, 6.0]"),
        ("broadcast(np.full(2, 3.0), out=t)", "[3.0, 3.0]"),
        ("allgather(np.zeros(1) + worker_id, out=_t(np.ones(3)))", "[0.0, 1.0, 2.0]"),
        ("(send(np.ones(2), (worker_id + 1) % 3), recv((worker_id - 1) % 3, t))[1]", "[1.0, 1.0]"),
    ],
)
def test_collectives_fill_tensors_in_place_and_return_them(tensors, torch, call, expected):
    s = tensors(3)
    s.run(f"t = _t(np.full(2, 1.0 + worker_id))\ny = {call}")
    assert set(s.run("type(y).__name__, str(y.numpy().tolist())").values) == {("Tensor", expected)}


def test_pytorch_is_told_that_a_tensor_was_filled(tensors, torch):
    s = tensors(2)
    s.run("t, d, u = _t(np.ones(2)), _t(np.ones(4)), _t(np.ones(2))\nallreduce(t, out=t)\nreduce(u, out=u)")
    s.allgather(s["t"], s["d"])
    assert s.run("t.version, d.version, u.version").values == [(1, 1, 1), (1, 1, 0)]


def test_the_tensor_that_is_filled_is_the_one_that_is_returned(tensors, torch):
    s = tensors(2)
    assert s.run("t = _t(np.ones(2))\nallreduce(t, out=t) is t").values == [True, True]
    assert s.run("reduce(t, out=t) is t").values == [True, False], "the others get None"


def test_a_tensor_of_another_shape_is_refused_as_an_array_is(tensors):
    with pytest.raises(CellError, match=r"out of worker 0 is float64 \(3,\), the result is float64 \(2,\)"):
        tensors(2).run("allreduce(np.ones(2), out=_t(np.ones(3)))")


# --- what comes back ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("allreduce(t)", [[6, 6]] * 3),
        ("allreduce(t, 'avg')", [[2, 2]] * 3),
        ("reduce_scatter(_t(np.arange(3.0)))", [[0], [3], [6]]),
        ("allgather(t[:1])", [[1, 2, 3]] * 3),
        ("alltoall(_t(np.full(3, worker_id)))", [[0, 1, 2]] * 3),
        ("alltoall(_t(np.full(3, worker_id)), counts=[1, 0, 2])", [[0, 1, 2], [], [0, 0, 1, 1, 2, 2]]),
        ("broadcast(t, root=1)", [[2, 2]] * 3),
        ("broadcast(t if worker_id == 1 else None, root=1)", [[2, 2]] * 3),
        ("scatter(_t(np.arange(3)) if worker_id == 2 else None, root=2)", [[0], [1], [2]]),
        ("(send(t, (worker_id + 1) % 3), recv((worker_id - 1) % 3))[1]", [[3, 3], [1, 1], [2, 2]]),
    ],
)
def test_who_brings_a_tensor_gets_one(tensors, torch, call, expected):
    s = tensors(3)
    s.run(f"t = _t(np.full(2, 1.0 + worker_id))\ny = {call}")
    assert s.run("type(y).__name__").values == ["Tensor"] * 3
    assert s.run("y.numpy().tolist()").values == expected


@pytest.mark.parametrize("verb", ["reduce", "gather"])
def test_the_root_alone_gets_a_tensor(tensors, torch, verb):
    s = tensors(2)
    s.run(f"y = {verb}(_t(np.ones(2)), root=1)")
    assert s.run("type(y).__name__").values == ["NoneType", "Tensor"]


def test_each_gets_what_it_brings_itself(tensors, torch):
    s = tensors(2)
    s.run("y = allreduce(_t(np.ones(2)) if worker_id else np.ones(2))")
    assert s.run("type(y).__name__").values == ["ndarray", "Tensor"]


def test_what_comes_from_the_root_is_as_the_root_has_it(tensors, torch):
    s = tensors(2)
    s.run("y = broadcast(np.zeros(2) if worker_id else _t(np.ones(2)))")
    assert s.run("type(y).__name__").values == ["Tensor"] * 2
    s.run("y = broadcast(_t(np.zeros(2)) if worker_id else np.ones(2))")
    assert s.run("type(y).__name__").values == ["ndarray"] * 2


@pytest.mark.parametrize(
    "last", ["broadcast(None if worker_id else _t(np.ones(2)))", "scatter(_t(np.ones(2)))"]
)
def test_the_next_call_knows_nothing_of_it(tensors, torch, last):
    s = tensors(2)
    s.run(f"{last}\ny = allreduce(1.0), allgather(np.ones(1)), broadcast(np.ones(1))")
    assert s.run("[type(each).__name__ for each in y]").values == [["float64", "ndarray", "ndarray"]] * 2


def test_an_array_may_be_filled_from_a_tensor(tensors, torch):
    assert tensors(2).run("out = np.zeros(2)\nallreduce(_t(np.ones(2)), out=out) is out").values == [True] * 2


def test_a_failed_call_gives_nothing_back(tensors, torch):
    with pytest.raises(CellError, match="the members disagree on shape"):
        tensors(2).run("allreduce(_t(np.ones(1 + worker_id)))")


def test_verbs_of_the_session_keep_the_library_of_what_a_register_holds(tensors, torch):
    s = tensors(2)
    s.run("t = _t(np.arange(4.0).reshape(2, 2))")
    for made in (s.allreduce(s["t"]), s.scatter_from_worker0(s["t"]), s.broadcast_from_worker0(s["t"])):
        assert [type(each).__name__ for each in made.get_all()] == ["Tensor"] * 2


@pytest.mark.parametrize(
    ("call", "name", "expected"),
    [
        ("allgather", "whole", [[[0, 1], [2, 3], [1, 2], [3, 4]]] * 2),
        ("gather_to_worker0", "whole", [[[0, 1], [2, 3], [1, 2], [3, 4]], [[0, 0]] * 4]),
        ("scatter_from_worker0", "row", [[0, 1], [2, 3]]),
        ("broadcast_from_worker0", "own", [[[0, 1], [2, 3]]] * 2),
        ("allreduce", "own", [[[1, 3], [5, 7]]] * 2),
    ],
)
def test_verbs_of_the_session_fill_tensors_in_registers(tensors, torch, call, name, expected):
    s = tensors(2)
    s.run("t = _t(np.arange(4.0).reshape(2, 2) + worker_id)")
    s.run("whole, row, own = _t(np.zeros((4, 2))), _t(np.zeros(2)), _t(np.zeros((2, 2)))")
    filled = getattr(s, call)(s["t"], s[name])
    assert [each.numpy().tolist() for each in filled.get_all()] == expected
    assert [each.numpy().tolist() for each in s[name].get_all()] == expected


def test_tensors_in_registers_are_copied_to_and_from(tensors, torch):
    s = tensors(2)
    s.run("t = _t(np.zeros(3))")
    s.copy_to_worker_0(np.arange(3.0), s["t"])
    assert s["t"].get(0).numpy().tolist() == [0, 1, 2]
    taken = np.zeros(3)
    s.copy_from_worker_0(taken, s["t"])
    assert taken.tolist() == [0, 1, 2]
    with pytest.raises(WorkerError, match=r"the destination is float64 \(3,\), the source float64 \(2,\)"):
        s.copy_to_worker_0(np.zeros(2), s["t"])


def test_a_tensor_in_a_register_that_cannot_be_read_is_refused_with_what_to_do(tensors):
    s = tensors(2)
    s.run("t = _t(np.zeros(3))\nt.requires_grad = True\nd = np.zeros(6)")
    with pytest.raises(
        WorkerError, match=r"allgather: a Tensor cannot be taken: it requires grad - use .detach"
    ):
        s.allgather(s["t"], s["d"]).get(0)


def test_an_array_of_jax_in_a_register_is_read_and_not_filled(tensors):
    s = tensors(2)
    s.run("from tests.doubles.arrays import jax_array\nj = jax_array(np.ones(3))\nd = np.zeros(6)")
    assert s.allgather(s["j"], s["d"]).get(1).tolist() == [1] * 6
    taken = np.zeros(3)
    s.copy_from_worker_0(taken, s["j"])
    assert taken.tolist() == [1] * 3
    s.run("j = jax_array(np.ones(6))\nx = np.ones(3)")
    with pytest.raises(WorkerError, match="allgather: nothing can be written to out, an array of JAX"):
        s.allgather(s["x"], s["j"]).get(0)
    with pytest.raises(WorkerError, match="copy: nothing can be written to out, an array of JAX"):
        s.copy_to_worker_0(np.ones(6), s["j"])


@pytest.mark.parametrize(
    ("move", "expected"),
    [
        (lambda s, t: s.broadcast(t), [[[0, 1], [2, 3], [4, 5]]] * 3),
        (lambda s, t: s.scatter(t), [[0, 1], [2, 3], [4, 5]]),
        (lambda s, t: s.scatter([t, t, t]), [[[0, 1], [2, 3], [4, 5]]] * 3),
    ],
    ids=["broadcast", "scatter", "scatter a list"],
)
def test_workers_get_tensors_of_what_a_session_sends_them_of_tensors(tensors, torch, move, expected):
    s, given = tensors(3), np.arange(6).reshape(3, 2)
    held = move(s, arrays.tensor(given, device="cpu")).get_all()
    given += 1  # which is nobody's but the caller's
    assert [type(each).__name__ for each in held] == ["Tensor"] * len(held)
    assert [each.numpy().tolist() for each in held] == expected


def test_a_list_that_is_not_of_tensors_alone_becomes_arrays(tensors, torch):
    parts = tensors(2).scatter([arrays.tensor(np.ones(1), device="cpu"), np.ones(1)]).get_all()
    assert [type(part) for part in parts] == [np.ndarray] * 2
