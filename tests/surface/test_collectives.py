"""Rows about one to many: `broadcast` and `scatter`, from the host and from registers."""

from __future__ import annotations

import numpy as np
import pytest

import disco_magic as disco
from tests.surface.conftest import both_ways, groupings, members, unchanged_by, who


def of_group(n, groups, shape):
    """What the first worker of each group holds, for a source register that all have."""
    return np.arange(np.prod(shape), dtype="float32").reshape(shape) + 100 * (who() // (n // groups))


# --- broadcast -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3])
def test_broadcast(session, n):
    host = np.arange(6, dtype="float32").reshape(2, 3)
    values = session(n).broadcast(host).get_all()
    assert [(value.tolist(), value.dtype) for value in values] == [(host.tolist(), host.dtype)] * n


@groupings
def test_broadcast_in_group(session, n, groups):
    # Disco sends memory that nobody initialised to all groups but the first.
    host = np.arange(1.0, 4.0)
    values = session(n, groups).broadcast(host).get_all()
    assert [value.tolist() for value in values] == [[1, 2, 3]] * n


@groupings
def test_broadcast_to_all_groups(session, n, groups):
    values = session(n, groups).broadcast(np.arange(1.0, 4.0), in_group=False).get_all()
    assert [value.tolist() for value in values] == [[1, 2, 3]] * n


@groupings
@both_ways
def test_broadcast_into_a_destination(session, n, groups, in_group):
    s = session(n, groups)
    dst = s.call_packed(np.zeros, 3)
    out = s.broadcast(np.arange(3.0), dst, in_group)
    assert [value.tolist() for value in dst.get_all()] == [[0, 1, 2]] * n
    s.call_packed(np.ndarray.fill, dst, 7)  # what is returned is the destination's own array
    assert [value.tolist() for value in out.get_all()] == [[7, 7, 7]] * n


@pytest.mark.parametrize("dst", [((3, 2), "float32"), ((6,), "float32"), ((2, 3), "int32")], ids=str)
def test_broadcast_into_a_destination_of_the_same_bytes_only_is_an_error(session, dst):
    s = session(2)
    ref = s.call_packed(np.ones, *dst)
    with pytest.raises(disco.WorkerError, match=r"the result is float32 \(2, 3\)") as caught:
        s.broadcast(np.zeros((2, 3), "float32"), ref).get_all()
    assert isinstance(caught.value.origin.exception, disco.PlaneMismatch)
    assert all(value.all() for value in ref.get_all())


@pytest.mark.parametrize("verb", ["broadcast", "scatter"])
def test_broadcast_and_scatter_let_the_caller_reuse_the_array_at_once(session, gate, verb):
    s = session(2)
    s.call_packed(gate)
    gate.arrived(2)
    host = np.ones((2, 3))
    ref = getattr(s, verb)(host)
    host[:] = -1
    gate.open()
    assert all((value == 1).all() for value in ref.get_all())


@groupings
@both_ways
def test_broadcast_from_worker0(session, n, groups, in_group):
    s = session(n, groups)
    src = s.call_packed(of_group, n, groups, (2, 2))
    values = s.broadcast_from_worker0(src, None, in_group).get_all()
    for worker, value in enumerate(values):
        first = members(worker, n, groups, in_group)[0] // (n // groups)
        assert value.tolist() == [[100 * first, 100 * first + 1], [100 * first + 2, 100 * first + 3]]


def test_broadcast_from_worker0_looks_at_no_other_source(session):
    s = session(4, 2)
    src = s.copy_to_worker_0(np.arange(3.0))  # the others hold None
    assert s.broadcast_from_worker0(src, in_group=False).get(3).tolist() == [0, 1, 2]


# --- scatter ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3])
def test_scatter(session, n):
    host = np.arange(n * 6, dtype="int32").reshape(n, 2, 3)
    values = session(n).scatter(host).get_all()
    assert [(value.tolist(), value.dtype) for value in values] == [
        (part.tolist(), host.dtype) for part in host
    ]


@groupings
def test_scatter_in_group(session, n, groups):
    # Disco asks for one part per worker of the session here, and always raises with several groups.
    size = n // groups
    host = np.arange(size * 2.0).reshape(size, 2)
    values = session(n, groups).scatter(host).get_all()
    assert [value.tolist() for value in values] == [host[worker % size].tolist() for worker in range(n)]


@groupings
def test_scatter_to_all_groups(session, n, groups):
    host = np.arange(n * 2.0).reshape(n, 2)
    values = session(n, groups).scatter(host, in_group=False).get_all()
    assert [value.tolist() for value in values] == host.tolist()


@groupings
@both_ways
def test_scatter_without_destination_needs_one_part_per_worker(session, n, groups, in_group):
    s = session(n, groups)
    parts = n // groups if in_group else n

    def refused():
        for length in (parts - 1, parts + 1, 2 * parts):
            with pytest.raises(disco.UsageMistake, match=f"expected a first axis of length {parts}"):
                s.scatter(np.zeros((length, 2)), in_group=in_group)

    assert unchanged_by(s, refused)
    assert s.scatter(np.zeros((parts, 2)), in_group=in_group).get(n - 1).shape == (2,)


@groupings
@both_ways
def test_scatter_into_a_destination(session, n, groups, in_group):
    s = session(n, groups)
    parts = n // groups if in_group else n
    host = np.arange(parts * 3.0).reshape(parts, 3)
    dst = s.empty((3,), "float64")
    out = s.scatter(host, dst, in_group)
    assert [value.tolist() for value in dst.get_all()] == [host[w % parts].tolist() for w in range(n)]
    s.call_packed(np.ndarray.fill, dst, 7)
    assert [value.tolist() for value in out.get_all()] == [[7, 7, 7]] * n


@pytest.mark.parametrize(("n", "groups"), [(2, 1), (4, 2), (6, 3)], ids=["2-1", "4-2", "6-3"])
def test_scatter_implicit_reshape(session, n, groups):
    s = session(n, groups)
    host = np.arange(36, dtype="float32").reshape(3, 4, 3)
    dst = s.empty((3, 3, 2), "float32")
    s.scatter(host, dst)
    halves = host.reshape(2, 3, 3, 2)
    assert [value.tolist() for value in dst.get_all()] == [halves[worker % 2].tolist() for worker in range(n)]


@pytest.mark.parametrize(
    ("shape", "dtype", "text"),
    [
        ((5,), "float64", r"12 elements do not fill a destination of shape \(5,\) on each of 2 workers"),
        ((12,), "float32", "do not fill"),  # twice the elements of half the size: as many bytes
        ((6,), "int64", "the destination has dtype int64, the source float64"),
    ],
    ids=["count", "bytes", "dtype"],
)
def test_scatter_into_a_destination_that_does_not_fit_is_an_error(session, shape, dtype, text):
    s = session(2)
    dst = s.call_packed(np.ones, shape, dtype)
    with pytest.raises(disco.WorkerError, match=text):
        s.scatter(np.zeros((3, 4)), dst).get_all()
    s.take_failures()
    assert all(value.all() for value in dst.get_all())


@groupings
@both_ways
def test_scatter_from_worker0(session, n, groups, in_group):
    s = session(n, groups)
    size = n // groups
    parts = size if in_group else n
    src = s.call_packed(of_group, n, groups, (parts, 2))
    for worker, value in enumerate(s.scatter_from_worker0(src, None, in_group).get_all()):
        first = 100 * (members(worker, n, groups, in_group)[0] // size)
        assert value.tolist() == [first + 2 * (worker % parts), first + 2 * (worker % parts) + 1]


def test_scatter_from_worker0_implicit_reshape(session):
    s = session(4, 2)
    src, dst = s.copy_to_worker_0(np.arange(16.0)), s.empty((2, 2), "float64")
    s.scatter_from_worker0(src, dst, in_group=False)
    assert [value.tolist() for value in dst.get_all()] == np.arange(16.0).reshape(4, 2, 2).tolist()


def test_scatter_from_worker0_in_another_number_of_parts_is_an_error(session):
    s = session(2)
    with pytest.raises(
        disco.WorkerError, match=r"shape \(3, 2\), expected a first axis of length 2"
    ) as caught:
        s.scatter_from_worker0(s.call_packed(np.zeros, (3, 2))).get_all()
    assert caught.value.origin.worker == 0
    assert s.call_packed(who).get_all() == [0, 1]
