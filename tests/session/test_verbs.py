"""What Disco's array verbs take and give that is beyond Disco's own rows (tests/surface)."""

from __future__ import annotations

import numpy as np
import pytest

import disco_magic as disco
from disco_magic.errors import CellError, UsageMistake


def mine(shape=(2, 3), dtype="float64"):
    return np.full(shape, disco.worker().id + 1, dtype)


def test_broadcast_arrays_are_everybodys_own(session):
    s = session(2)
    ref = s.broadcast(np.zeros(2))
    s.call_packed(lambda x: x.__iadd__(disco.worker().id), ref)
    assert [v.tolist() for v in ref.get_all()] == [[0, 0], [1, 1]]


def test_scatter_of_a_vector_gives_numbers_of_no_axes(session):
    values = session(2).scatter([1.5, 2.5]).get_all()
    assert [(float(v), v.shape) for v in values] == [(1.5, ()), (2.5, ())]


def test_broadcast_into_a_destination(session):
    s = session(3)
    dst = s.empty((2,), "float64")
    s.broadcast_from_worker0(s.call_packed(mine, (2,)), dst)
    assert [v.tolist() for v in dst.get_all()] == [[1, 1]] * 3


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


@pytest.mark.parametrize(("x", "dtype"), [("'a' * (1 + worker_id)", "U2"), ("b'a' * (1 + worker_id)", "S2")])
def test_of_texts_of_different_lengths_is_told_what_makes_them_fit(session, x, dtype):
    # "make the dtypes equal" is no help for who has given no dtype.
    with pytest.raises(CellError, match=rf"pass np\.array\(x, '{dtype}'\) on all, or send Python's own"):
        session(2).run(f"allgather({x})")
    assert session(2).run(f"allgather(np.array({x}, '{dtype}')).tolist()").values[0][0][0] in ("a", 97)


@pytest.mark.parametrize("verb", ["allreduce(x)", "allgather(x)", "broadcast(x)", "allreduce_tree([x])[0]"])
def test_the_result_is_in_c_order_also_of_arrays_in_fortran_s(session, verb):
    code = f"x = np.asfortranarray(np.arange(6.0).reshape(2, 3))\n{verb}.flags.c_contiguous"
    assert session(2).run(code).values == [True, True]


def test_integers_that_numpy_reads_as_other_dtypes_are_told_of(session):
    with pytest.raises(CellError, match=r"from 2\*\*63 on as uint64: pass np.uint64\(x\), or floats, on all"):
        session(2).run("allreduce(2**63 if worker_id else 1)")
    with pytest.raises(CellError, match="make the dtypes equal"):
        session(2).run("allreduce(np.full(2, 1, 'u8' if worker_id else 'i8'))")
