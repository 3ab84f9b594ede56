from __future__ import annotations

import numpy as np
import pytest

from disco_magic.errors import UsageMistake
from disco_magic.planes import small
from disco_magic.planes.reductions import check_op, reduction
from disco_magic.planes.small import SMALL_NBYTES

ml_dtypes = pytest.importorskip("ml_dtypes")


def allreduce(make, run, arrays, op):
    plane = make(len(arrays))
    return run(plane, lambda p, s: p.allreduce(s, arrays[s.worker], op, None), 1)


def test_float16_is_accumulated_in_float32_and_rounded_once(make, run):
    # In float16, 2048 + 1 is 2048 again: rounding at each step would lose every 1.
    arrays = [np.array([value], "f2") for value in (2048, 1, 1, 2)]
    for got in allreduce(make, run, arrays, "sum"):
        assert got.dtype == np.float16
        assert got[0] == 2052


def test_a_float16_sum_may_overflow_on_the_way(make, run):
    arrays = [np.array([value], "f2") for value in (60000, 60000, -60000)]
    assert [got[0] for got in allreduce(make, run, arrays, "sum")] == [60000] * 3


NARROW = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e5m2fnuz", "float8_e3m4", "float4_e2m1fn"]


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("op", ["sum", "prod", "min", "max", "avg"])
def test_narrow_floats_are_accumulated_in_float32_and_rounded_once(make, run, op, name):
    narrow = getattr(ml_dtypes, name)
    rng = np.random.default_rng(5)
    arrays = [rng.standard_normal(1000).astype(narrow) for _ in range(4)]
    wide = np.stack([array.astype("f4") for array in arrays])
    ufunc = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum, "avg": np.add}[op]
    expected = ufunc(ufunc(ufunc(wide[0], wide[1]), wide[2]), wide[3])
    if op == "avg":
        expected /= np.float32(4)
    for got in allreduce(make, run, arrays, op):
        assert got.dtype == narrow
        np.testing.assert_array_equal(got.astype("f4"), expected.astype(narrow).astype("f4"))


@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "bfloat16"])
def test_min_and_max_hand_on_nan(make, run, op, dtype):
    arrays = [
        np.array([1.0, np.nan, 3.0], "f4").astype(dtype),
        np.array([2.0, 1.0, np.nan], "f4").astype(dtype),
    ]
    for got in allreduce(make, run, arrays, op):
        assert list(np.isnan(got.astype("c8"))) == [False, True, True]


def test_integers_wrap_around_as_in_numpy(make, run):
    arrays = [np.array([127, -128], "i1"), np.array([1, -1], "i1")]
    for got in allreduce(make, run, arrays, "sum"):
        assert got.dtype == np.int8
        assert got.tolist() == [-128, 127]


@pytest.mark.parametrize("length", [1, SMALL_NBYTES], ids=["small", "large"])
@pytest.mark.parametrize(("dtype", "large"), [("f4", 3e38), ("f2", 60000)])
def test_overflow_warns_nobody(make, run, length, dtype, large):
    # Warnings are errors here: one would come out as an exception of one worker.
    arrays = [np.full(length, large, dtype)] * 2
    assert [got[0] for got in allreduce(make, run, arrays, "sum")] == [np.inf, np.inf]


@pytest.mark.parametrize("context", [small._QUIET, None], ids=["as NumPy 2", "as NumPy 1"])
@pytest.mark.parametrize("mode", ["warn", "raise", "ignore"])
def test_what_the_caller_wants_to_hear_of_overflow_is_as_before(monkeypatch, context, mode):
    monkeypatch.setattr(small, "_QUIET", context)
    arrays, value = [np.array([3e38], "f4")] * 2, np.empty(1, "f4")
    with np.errstate(all=mode):
        before = np.geterr()
        assert small.quietly(reduction("allreduce", "sum", value.dtype), arrays, value) == np.inf
        assert np.geterr() == before


@pytest.mark.parametrize("dtype", ["?", "i4", "u8"])
def test_the_average_of_integers_is_that_of_numpy_mean(make, run, dtype):
    arrays = [
        np.array([0, 1, 1]).astype(dtype),
        np.array([1, 1, 0]).astype(dtype),
        np.array([1, 1, 1]).astype(dtype),
    ]
    for got in allreduce(make, run, arrays, "avg"):
        np.testing.assert_array_equal(got, np.mean(arrays, axis=0), strict=True)


def test_numbers_of_other_byte_order_give_native_results(make, run):
    for got in allreduce(make, run, [np.arange(3, dtype=">f4")] * 2, "sum"):
        assert got.dtype == np.dtype("f4")
        assert got.tolist() == [0, 2, 4]


@pytest.mark.parametrize(("op", "guess"), [("mean", "avg"), ("add", "sum"), ("maxi", "max"), (np.add, "sum")])
def test_an_unknown_operation_lists_those_there_are_and_guesses(op, guess):
    with pytest.raises(
        UsageMistake, match=rf"op is one of sum, prod, min, max, avg - did you mean '{guess}'\?"
    ):
        check_op("allreduce", op)


def test_an_operation_that_is_like_none_gets_no_guess():
    with pytest.raises(UsageMistake, match=r"op is one of sum, prod, min, max, avg$"):
        check_op("allreduce", object)


@pytest.mark.parametrize(
    ("dtype", "advice"),
    [
        ("m8[s]", r"x\.view\('int64'\)$"),
        ("i4,i4", r"one by one: x\['f0'\]$"),
        *([(ml_dtypes.complex32, r"x\.astype\('complex64'\)$")] if hasattr(ml_dtypes, "complex32") else []),
        (ml_dtypes.int4, r"x\.astype\('int32'\)$"),
        *((plain, "allgather them, and work on the result$") for plain in ("M8[s]", "U3", "S3", "V8")),
    ],
)
def test_what_cannot_be_reduced_is_refused_with_advice(dtype, advice):
    with pytest.raises(UsageMistake, match=f"cannot be reduced - .*{advice}"):
        reduction("allreduce", "sum", np.dtype(dtype))
