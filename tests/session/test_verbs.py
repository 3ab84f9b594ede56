"""Disco's array verbs through sessions: destination passing, groups, reshape, host copies."""

from __future__ import annotations

import numpy as np
import pytest

import disco_magic as disco
from disco_magic.errors import CellError, UsageMistake, WorkerError

groupings = pytest.mark.parametrize(("n", "groups"), [(1, 1), (2, 1), (3, 1), (4, 1), (4, 2), (6, 3), (6, 2)])


def mine(shape=(2, 3), dtype="float64"):
    return np.full(shape, disco.worker().id + 1, dtype)


def peers(worker, n, groups, in_group=True):
    size = n // groups if in_group else n
    start = worker // size * size
    return range(start, start + size)


# --- one to many -----------------------------------------------------------------------------------


@groupings
@pytest.mark.parametrize("in_group", [True, False])
def test_broadcast_gives_everybody_the_array(session, n, groups, in_group):
    s = session(n, groups)
    values = s.broadcast(np.arange(3), in_group=in_group).get_all()
    assert [v.tolist() for v in values] == [[0, 1, 2]] * n


def test_broadcast_arrays_are_everybodys_own(session):
    s = session(2)
    ref = s.broadcast(np.zeros(2))
    s.call_packed(lambda x: x.__iadd__(disco.worker().id), ref)
    assert [v.tolist() for v in ref.get_all()] == [[0, 0], [1, 1]]


@groupings
@pytest.mark.parametrize("in_group", [True, False])
def test_scatter_gives_each_its_part_without_the_leading_axis(session, n, groups, in_group):
    s = session(n, groups)
    size = n // groups if in_group else n
    host = np.arange(size * 2.0).reshape(size, 2)
    values = s.scatter(host, in_group=in_group).get_all()
    assert [v.tolist() for v in values] == [host[w % size].tolist() for w in range(n)]


def test_scatter_of_a_vector_gives_numbers_of_no_axes(session):
    values = session(2).scatter([1.5, 2.5]).get_all()
    assert [(float(v), v.shape) for v in values] == [(1.5, ()), (2.5, ())]


@pytest.mark.parametrize(("n", "groups"), [(2, 1), (4, 2)])
def test_scatter_into_a_destination_compares_element_counts_only(session, n, groups):
    s = session(n, groups)
    host = np.arange(36.0).reshape(3, 4, 3)
    dst = s.empty((3, 3, 2), "float64")
    out = s.scatter(host, dst)
    parts = host.reshape(2, 3, 3, 2)
    assert [np.array_equal(v, parts[w % 2]) for w, v in enumerate(out.get_all())] == [True] * n
    assert [np.array_equal(v, parts[w % 2]) for w, v in enumerate(dst.get_all())] == [True] * n


def test_scatter_into_a_destination_that_does_not_fit_is_an_error(session):
    s = session(2)
    with pytest.raises(
        WorkerError, match=r"12 elements do not fill a destination of shape \(5,\) on each of 2"
    ):
        s.scatter(np.zeros((3, 4)), s.empty((5,), "float64")).get(0)


def test_scatter_into_another_dtype_is_an_error(session):
    s = session(2)
    with pytest.raises(WorkerError, match="the destination has dtype float32, the source float64"):
        s.scatter(np.zeros((2, 3)), s.empty((3,), "float32")).get(0)


@groupings
def test_registers_of_the_first_worker_are_broadcast_and_scattered(session, n, groups):
    s = session(n, groups)
    size = n // groups
    src = s.call_packed(lambda k: np.arange(k) + 100 * disco.worker().group, size)
    values = s.broadcast_from_worker0(src).get_all()
    assert [v.tolist() for v in values] == [[100 * (w // size) + i for i in range(size)] for w in range(n)]
    parts = s.scatter_from_worker0(src).get_all()
    assert [int(v) for v in parts] == [100 * (w // size) + w % size for w in range(n)]


def test_broadcast_into_a_destination(session):
    s = session(3)
    dst = s.empty((2,), "float64")
    s.broadcast_from_worker0(s.call_packed(mine, (2,)), dst)
    assert [v.tolist() for v in dst.get_all()] == [[1, 1]] * 3


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: None, "the first worker's register holds None, expected an array"),
        (lambda: np.zeros((3, 2)), r"the array has shape \(3, 2\), expected a first axis of length 2"),
    ],
    ids=["none", "shape"],
)
def test_scattering_a_register_that_does_not_fit_is_an_error(session, make, text):
    s = session(2)
    with pytest.raises(WorkerError, match=text) as caught:
        s.scatter_from_worker0(s.call_packed(make)).get_all()
    assert caught.value.origin.worker == 0


# --- many to one, many to many ---------------------------------------------------------------------


@groupings
@pytest.mark.parametrize("in_group", [True, False])
@pytest.mark.parametrize(
    ("op", "fold"), [("sum", np.sum), ("prod", np.prod), ("min", np.min), ("max", np.max), ("avg", np.mean)]
)
def test_allreduce_gives_everybody_the_reduction(session, n, groups, in_group, op, fold):  # noqa: PLR0917 - a matrix
    s = session(n, groups)
    values = s.allreduce(s.call_packed(mine), op=op, in_group=in_group).get_all()
    for worker, value in enumerate(values):
        expected = fold([w + 1.0 for w in peers(worker, n, groups, in_group)])
        assert value.tolist() == [[expected] * 3] * 2


def test_allreduce_into_a_destination_and_in_place(session):
    s = session(2)
    src, dst = s.call_packed(mine, (2,)), s.empty((2,), "float64")
    s.allreduce(src, dst)
    assert [v.tolist() for v in dst.get_all()] == [[3, 3]] * 2
    s.allreduce(src, src)
    assert [v.tolist() for v in src.get_all()] == [[3, 3]] * 2


@groupings
@pytest.mark.parametrize("in_group", [True, False])
def test_allgather_joins_along_the_first_axis(session, n, groups, in_group):
    s = session(n, groups)
    values = s.allgather(s.call_packed(mine, (1, 2)), in_group=in_group).get_all()
    for worker, value in enumerate(values):
        assert value.tolist() == [[w + 1.0] * 2 for w in peers(worker, n, groups, in_group)]


@pytest.mark.parametrize(("n", "groups"), [(2, 1), (4, 2)])
def test_allgather_into_a_destination_compares_element_counts_only(session, n, groups):
    s = session(n, groups)
    dst = s.empty((3, 4), "float64")
    s.allgather(s.call_packed(mine, (2, 3)), dst)
    for worker, value in enumerate(dst.get_all()):
        first = worker // 2 * 2
        assert value.ravel().tolist() == [first + 1.0] * 6 + [first + 2.0] * 6


@pytest.mark.parametrize("verb", ["allgather", "gather_to_worker0"])
def test_gathering_into_a_destination_of_another_size_is_an_error(session, verb):
    s = session(2)
    with pytest.raises(WorkerError, match=rf"{verb}: 12 elements do not fill a destination of shape \(5,\)"):
        getattr(s, verb)(s.call_packed(mine), s.empty((5,), "float64")).get(0)


@groupings
@pytest.mark.parametrize("in_group", [True, False])
def test_gather_joins_on_the_first_worker(session, n, groups, in_group):
    s = session(n, groups)
    values = s.gather_to_worker0(s.call_packed(mine, (1,)), in_group=in_group).get_all()
    for worker, value in enumerate(values):
        members = peers(worker, n, groups, in_group)
        if worker == members[0]:
            assert value.tolist() == [w + 1.0 for w in members]
        else:
            assert value is None


def test_gather_into_a_destination_of_the_first_worker(session):
    s = session(2)
    dst = s.empty((2, 2), "float64", worker0_only=True)
    out = s.gather_to_worker0(s.call_packed(mine, (2,)), dst)
    assert out.get(0).tolist() == [[1, 1], [2, 2]]
    assert (dst.get(0).tolist(), dst.get(1), out.get(1)) == ([[1, 1], [2, 2]], None, None)


@groupings
def test_reduce_scatter_reduces_then_splits(session, n, groups):
    s = session(n, groups)
    size = n // groups
    values = s.reduce_scatter(s.call_packed(mine, (size, 2))).get_all()
    for worker, value in enumerate(values):
        assert value.tolist() == [[sum(w + 1.0 for w in peers(worker, n, groups))] * 2]


@groupings
def test_alltoall_exchanges_parts(session, n, groups):
    s = session(n, groups)
    size = n // groups
    src = s.call_packed(lambda k: 10 * disco.worker().id + np.arange(k), size)
    for worker, value in enumerate(s.alltoall(src).get_all()):
        assert value.tolist() == [10 * w + worker % size for w in peers(worker, n, groups)]


BY_POSITION = {  # verb -> what comes before in_group in Disco's own signature
    "empty": lambda s, size: ((0, 3), "int64", None, True),
    "broadcast": lambda s, size: ([7, 8], None),
    "scatter": lambda s, size: (np.arange(2.0 * size).reshape(size, 2), None),
    "broadcast_from_worker0": lambda s, size: (s.call_packed(mine), None),
    "scatter_from_worker0": lambda s, size: (s.call_packed(np.arange, size), None),
    "gather_to_worker0": lambda s, size: (s.call_packed(mine), None),
    "allreduce": lambda s, size: (s.call_packed(mine), None, "sum"),
    "allgather": lambda s, size: (s.call_packed(mine), None),
    "reduce_scatter": lambda s, size: (s.call_packed(mine, (4,)), None, "sum"),
    "alltoall": lambda s, size: (s.call_packed(mine, (4,)), None),
}


@pytest.mark.parametrize(("in_group", "size"), [(True, 2), (False, 4)])
@pytest.mark.parametrize("verb", BY_POSITION)
def test_in_group_may_be_given_by_position(session, verb, in_group, size):
    s = session(4, 2)
    call, args = getattr(s, verb), BY_POSITION[verb](s, size)
    by_position, by_name = call(*args, in_group).get_all(), call(*args, in_group=in_group).get_all()
    assert list(map(repr, by_position)) == list(map(repr, by_name))


@pytest.mark.parametrize("in_group", [True, False])
def test_a_barrier_lets_nobody_on_before_all_have_come(gated, gate, in_group):
    s = gated(2)
    pending = s.run_nowait("if worker_id == 1: gate()")
    gate.arrived()
    s.barrier(in_group=in_group)
    later = s.run_nowait("x = 1")
    with pytest.raises(disco.errors.SyncTimeout):
        s.sync_worker_0(timeout=0)
    assert not later.done()
    gate.open()
    pending.wait()
    later.wait()


def test_a_collective_that_does_not_fit_is_raised_at_the_next_wait(session):
    s = session(2)
    src = s.call_packed(lambda: np.zeros(2 + disco.worker().id))
    bad = s.allreduce(src)
    with pytest.raises(WorkerError) as caught:
        s.sync_all()
    assert sorted(caught.value.failures) == [0, 1]
    assert caught.value.origin.command == "call allreduce"
    with pytest.raises(WorkerError):
        bad.get(0)
    assert s.allreduce(s.call_packed(mine, (1,))).get(1).tolist() == [3]


def test_one_length_may_be_any_whole_number(session):
    s = session(1)
    assert s.empty(np.int64(3)).get(0).shape == (3,)
    assert s.empty(np.array([3])).get(0).shape == (3,)
    assert s.empty(np.array([3, 2])).get(0).shape == (3, 2)


def test_dtypes_that_numpy_lacks_are_found_by_name(session):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    s = session(1)
    assert s.empty((2,), "bfloat16").get(0).dtype == ml_dtypes.bfloat16
    assert s.empty((2,), "float8_e4m3fn").get(0).dtype == ml_dtypes.float8_e4m3fn
    with pytest.raises(
        UsageMistake, match=r"empty\(\(2,\), 'bfloat17'\): data type 'bfloat17' not understood"
    ):
        s.empty((2,), "bfloat17")


@pytest.mark.parametrize("verb", ["scatter", "allgather"])
def test_a_destination_of_another_byte_order_takes_the_same_numbers(session, verb):
    s = session(2)
    dst = s.call_packed(np.zeros, (2, 2) if verb == "allgather" else (1, 2), ">f4")
    rows = np.arange(4, dtype="f4").reshape(2, 2)
    if verb == "scatter":
        s.scatter(rows.astype(">f4"), dst)
    else:
        s.allgather(s.scatter(rows), dst)
    first, _ = dst.get_all()
    assert first.dtype == ">f4"
    assert first.tolist() == (rows.tolist() if verb == "allgather" else [[0, 1]])


@pytest.mark.parametrize("text", ["train", b"raw"])
def test_a_text_is_a_text_again(session, text):
    s = session(2)
    s.put("x", text)
    assert s.run("{x: 1}[broadcast(x)]").values == [1] * 2
    assert (
        s.run("send(x, 1 - worker_id); got = recv(1 - worker_id); isinstance(got, type(x))").values
        == [True] * 2
    )
    assert s.run("allgather(x).tolist() == [x, x]").values == [True] * 2


def test_tables_of_polars_are_refused_and_told_what_to_give(session):
    polars = pytest.importorskip("polars")
    s = session(2)
    s.put("x", polars.Series([1, None]))
    with pytest.raises(disco.CellError, match=r"missing values of a .*Series are not carried"):
        s.run("allgather(x)")
    with pytest.raises(disco.CellError, match=r"or let broadcast_object\(x\) carry all of it"):
        s.run("worker.scatter(x)")


@pytest.mark.parametrize("kind", ["Series", "DataFrame"])
@pytest.mark.parametrize("call", ["allreduce(x)", "broadcast(x)", "allgather(x)", "allreduce_tree([x])"])
def test_what_has_labels_is_refused_and_told_what_to_give(session, call, kind):
    pandas = pytest.importorskip("pandas")
    s = session(2)
    s.put("x", getattr(pandas, kind)([1.0, 2.0], index=["a", "b"]))
    with pytest.raises(
        disco.CellError, match=rf"labels of a (pandas\.)?{kind} are not carried.*x\.to_numpy\(\)"
    ):
        s.run(call)
    assert s.run("allreduce(x.to_numpy()).sum()").values == [6.0] * 2
    assert s.run("[type(each).__name__ for each in allgather_objects(x)]").values == [[kind] * 2] * 2


class LabelledArray:
    """What NumPy reads of an array of xarray, which is not installed here."""

    __module__ = "xarray.core.dataarray"

    def to_numpy(self):
        return np.ones(4)

    def __array__(self, *_, **__):
        return self.to_numpy()


@pytest.mark.parametrize("call", ["allreduce(x)", "allgather(x)"])
def test_arrays_of_xarray_are_refused_because_their_labels_would_be_lost(session, call):
    s = session(2)
    s["x"] = s.call_packed(LabelledArray)
    with pytest.raises(disco.CellError, match=r"labels of a .*LabelledArray are not carried.*to_numpy\(\)"):
        s.run(call)


@pytest.mark.parametrize("x", [2**63 - 1, 2**63, 2**64 - 1, -(2**63), [2**63, 2**63 + 1]])
def test_integers_of_python_are_carried_as_numpy_reads_them(session, x):
    s = session(2)
    expected = np.asarray(x)
    for code, result in ((f"broadcast({x})", expected), (f"allreduce({x})", np.add(expected, expected))):
        for got in s.run(code).values:
            np.testing.assert_array_equal(got, result)
            assert got.dtype == expected.dtype


def test_integers_that_numpy_reads_as_other_dtypes_are_told_of(session):
    with pytest.raises(CellError, match=r"from 2\*\*63 on as uint64: pass np.uint64\(x\), or floats, on all"):
        session(2).run("allreduce(2**63 if worker_id else 1)")
    with pytest.raises(CellError, match="make the dtypes equal"):
        session(2).run("allreduce(np.full(2, 1, 'u8' if worker_id else 'i8'))")
