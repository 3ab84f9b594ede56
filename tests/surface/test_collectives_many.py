"""Rows about many to one and many to many: `gather_to_worker0`, `allreduce`, `allgather` and ours besides."""

from __future__ import annotations

import numpy as np
import pytest

import disco_magic as disco
from tests.surface.conftest import both_ways, groupings, members, unchanged_by, who

OPS = {"sum": np.sum, "prod": np.prod, "min": np.min, "max": np.max, "avg": np.mean}


def mine(shape=(2, 3), dtype="float64"):
    """An array of the worker's number, counted from one."""
    return np.full(shape, who() + 1, dtype)


def numbers(worker, n, groups, in_group):
    return [peer + 1 for peer in members(worker, n, groups, in_group)]


# --- allreduce -------------------------------------------------------------------------------------


@groupings
@both_ways
@pytest.mark.parametrize("op", OPS)
def test_allreduce(session, n, groups, in_group, op):
    s = session(n, groups)
    values = s.allreduce(s.call_packed(mine), None, op, in_group).get_all()
    for worker, value in enumerate(values):
        assert value.tolist() == [[OPS[op](numbers(worker, n, groups, in_group))] * 3] * 2


@pytest.mark.parametrize("n", [1, 2, 3])
def test_allreduce_sums_over_all_workers_unless_told_otherwise(session, n):
    s = session(n)
    assert s.allreduce(s.call_packed(mine, (2,), "int32")).get(n - 1).tolist() == [n * (n + 1) // 2] * 2


@groupings
def test_allreduce_into_a_destination(session, n, groups):
    s = session(n, groups)
    src, dst = s.call_packed(mine, (2,)), s.empty((2,), "float64")
    s.allreduce(src, dst)
    sums = [float(sum(numbers(worker, n, groups, True))) for worker in range(n)]
    assert [value.tolist() for value in dst.get_all()] == [[total] * 2 for total in sums]
    assert [value.tolist() for value in src.get_all()] == [[worker + 1] * 2 for worker in range(n)]


def test_allreduce_in_place(session):
    s = session(3)
    src = s.call_packed(mine, (2,))
    s.allreduce(src, src)
    assert [value.tolist() for value in src.get_all()] == [[6, 6]] * 3


def test_allreduce_with_an_unknown_op_is_refused(session):
    s = session(2)
    ref = s.call_packed(mine)

    def refused():
        with pytest.raises(disco.UsageMistake, match=r"op is one of sum, prod, .*did you mean 'avg'"):
            s.allreduce(ref, op="mean")

    assert unchanged_by(s, refused)


@pytest.mark.parametrize("differs", ["shape", "dtype"])
def test_allreduce_of_arrays_that_do_not_fit_together_is_an_error(session, differs):
    s = session(2)
    make = {"shape": lambda: np.zeros(2 + who()), "dtype": lambda: np.zeros(2, ["f4", "f8"][who()])}
    s.allreduce(s.call_packed(make[differs]))
    with pytest.raises(disco.WorkerError, match=f"the members disagree on {differs}") as caught:
        s.sync_all()
    assert sorted(caught.value.failures) == [0, 1]
    assert s.allreduce(s.call_packed(mine)).get(1).tolist() == [[3, 3, 3]] * 2


# --- gathering -------------------------------------------------------------------------------------


@groupings
@both_ways
def test_allgather(session, n, groups, in_group):
    s = session(n, groups)
    values = s.allgather(s.call_packed(mine, (1, 2)), None, in_group).get_all()
    for worker, value in enumerate(values):
        assert value.tolist() == [[number] * 2 for number in numbers(worker, n, groups, in_group)]


@groupings
@both_ways
def test_allgather_implicit_reshape(session, n, groups, in_group):
    s = session(n, groups)
    size = n // groups if in_group else n
    dst = s.empty((2, 3 * size), "float64")
    s.allgather(s.call_packed(mine, (3, 2)), dst, in_group)
    for worker, value in enumerate(dst.get_all()):
        expected = np.repeat(numbers(worker, n, groups, in_group), 6).reshape(2, 3 * size)
        assert value.tolist() == expected.tolist()


@groupings
@both_ways
def test_gather_to_worker0(session, n, groups, in_group):
    s = session(n, groups)
    values = s.gather_to_worker0(s.call_packed(mine, (1, 2)), None, in_group).get_all()
    for worker, value in enumerate(values):
        if worker == members(worker, n, groups, in_group)[0]:
            assert value.tolist() == [[number] * 2 for number in numbers(worker, n, groups, in_group)]
        else:
            assert value is None


@groupings
@both_ways
def test_gather_to_worker0_implicit_reshape(session, n, groups, in_group):
    s = session(n, groups)
    size = n // groups if in_group else n
    dst = s.empty((2, 3 * size), "float64", worker0_only=True, in_group=in_group)
    s.gather_to_worker0(s.call_packed(mine, (3, 2)), dst, in_group)
    for worker, value in enumerate(dst.get_all()):
        if worker == members(worker, n, groups, in_group)[0]:
            expected = np.repeat(numbers(worker, n, groups, in_group), 6).reshape(2, 3 * size)
            assert value.tolist() == expected.tolist()
        else:
            assert value is None


@pytest.mark.parametrize("verb", ["allgather", "gather_to_worker0"])
@pytest.mark.parametrize(
    ("shape", "dtype", "text"),
    [((11,), "float64", "12 elements do not fill"), ((24,), "float32", "12 elements do not fill")],
    ids=["count", "bytes"],
)
def test_gathering_into_a_destination_that_does_not_fit_is_an_error(session, verb, shape, dtype, text):
    s = session(2)
    dst = s.call_packed(np.zeros, shape, dtype)
    with pytest.raises(disco.WorkerError, match=f"{verb}: {text} a destination of shape"):
        getattr(s, verb)(s.call_packed(mine), dst).get_all()
    s.take_failures()
    assert not any(value.any() for value in dst.get_all())


def test_scatter_and_gather_undo_each_other(session):
    s = session(6, 2)
    host = np.arange(18.0).reshape(3, 6)
    parts = s.scatter(host, s.empty((2, 3), "float64"))
    whole = s.gather_to_worker0(parts, s.empty((3, 6), "float64", worker0_only=True)).get_all()
    assert [None if value is None else value.tolist() for value in whole] == [
        host.tolist() if worker in {0, 3} else None for worker in range(6)
    ]


# --- ours besides ----------------------------------------------------------------------------------


@groupings
@both_ways
@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
def test_reduce(session, n, groups, in_group, last):
    s = session(n, groups)
    root = (n // groups if in_group else n) - 1 if last else 0
    src, dst = s.call_packed(mine, (2,)), s.call_packed(np.zeros, 2)
    results = s.reduce(src, None, "sum", in_group, root=root).get_all()
    s.reduce(src, dst, "prod", in_group, root=root)
    for worker, (result, into) in enumerate(zip(results, dst.get_all(), strict=True)):
        found = numbers(worker, n, groups, in_group)
        if worker == members(worker, n, groups, in_group)[root]:
            assert result.tolist() == [sum(found)] * 2
            assert into.tolist() == [np.prod(found)] * 2
        else:
            assert result is None
            assert into.tolist() == [0, 0]


@groupings
@both_ways
def test_reduce_scatter(session, n, groups, in_group):
    s = session(n, groups)
    size = n // groups if in_group else n
    src = s.call_packed(lambda k: np.arange(2 * k).reshape(k, 2) + who(), size)
    for worker, value in enumerate(s.reduce_scatter(src, None, "sum", in_group).get_all()):
        peers = members(worker, n, groups, in_group)
        total = sum(np.arange(2 * size).reshape(size, 2) + peer for peer in peers)
        assert value.tolist() == [total[worker - peers[0]].tolist()]


@groupings
@both_ways
def test_alltoall(session, n, groups, in_group):
    s = session(n, groups)
    size = n // groups if in_group else n
    src = s.call_packed(lambda k: 10 * who() + np.arange(k), size)
    for worker, value in enumerate(s.alltoall(src, None, in_group).get_all()):
        peers = members(worker, n, groups, in_group)
        assert value.tolist() == [10 * peer + worker - peers[0] for peer in peers]


@groupings
@both_ways
def test_barrier(session, gate, n, groups, in_group):
    s = session(n, groups)
    last = n - 1
    noted = []
    s.call_packed(gate, workers=[last])
    gate.arrived()
    s.barrier(in_group=in_group)  # does not wait here
    s.call_packed(lambda: noted.append(who()))
    waiting = set(members(last, n, groups, in_group))
    for worker in set(range(n)) - waiting:
        s.sync_worker(worker)
    assert set(noted) == set(range(n)) - waiting
    gate.open()
    s.sync_all()
    assert sorted(noted) == list(range(n))
