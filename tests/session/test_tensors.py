"""Tensors of PyTorch on the host, stood in for, in sessions: checked, shown, and filled by collectives."""

from __future__ import annotations

import pytest

from disco_magic.errors import CellError

MAKE = """
from disco_magic.testing.arrays import tensor as _make
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
    assert s.check(values=True).summary == "[0-2] equal: w"
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
def test_collectives_fill_tensors_in_place_and_return_them(tensors, call, expected):
    s = tensors(3)
    s.run(f"t = _t(np.full(2, 1.0 + worker_id))\ny = {call}")
    assert set(s.run("type(y).__name__, str(y.numpy().tolist())").values) == {("Tensor", expected)}


def test_the_tensor_that_is_filled_is_the_one_that_is_returned(tensors):
    s = tensors(2)
    assert s.run("t = _t(np.ones(2))\nallreduce(t, out=t) is t").values == [True, True]
    assert s.run("reduce(t, out=t) is t").values == [True, False], "the others get None"


def test_a_tensor_of_another_shape_is_refused_as_an_array_is(tensors):
    with pytest.raises(CellError, match=r"out of worker 0 is float64 \(3,\), the result is float64 \(2,\)"):
        tensors(2).run("allreduce(np.ones(2), out=_t(np.ones(3)))")
