"""The double of NCCL rounds as NCCL does, in order of the ranks."""

from __future__ import annotations

import numpy as np
import pytest

from tests.doubles.nccl_ranks import (
    AVG,
    DTYPES,
    FLOAT16,
    INT8,
    INT32,
    MAX,
    MIN,
    PROD,
    SUM,
    UINT8,
    at,
)

pytestmark = pytest.mark.usefixtures("no_mistakes")

OPS = {SUM: "sum", PROD: "prod", MAX: "max", MIN: "min", AVG: "avg"}


def folded(arrays, op, dtype):
    """What NCCL makes of `arrays`: folded in order of the ranks, rounded to `dtype` after each step."""
    size, wide = len(arrays), np.float64 if dtype.kind not in "iu" else dtype

    def rounded(values):
        if (
            dtype.itemsize == 1 and dtype.kind not in "iu"
        ):  # CUDA's conversions saturate, those of ml_dtypes do not
            largest = 448 if dtype.name.endswith("e4m3fn") else 57344
            values = np.clip(values, -largest, largest)
        return values.astype(dtype)

    if op == AVG and dtype.kind not in "iu":
        weight = rounded(np.array(1 / size)).astype(wide)
        arrays = [rounded(each.astype(wide) * weight) for each in arrays]
    step = {PROD: np.multiply, MAX: np.maximum, MIN: np.minimum}.get(op, np.add)
    total = arrays[0]
    for part in arrays[1:]:
        total = rounded(step(total.astype(wide), part.astype(wide)))
    if op == AVG and dtype.kind in "iu":
        quotient = np.abs(total.astype(object)) // size
        total = (np.sign(total.astype(object)) * quotient).astype(dtype)
    return total


@pytest.mark.parametrize("op", OPS, ids=OPS.values())
@pytest.mark.parametrize("code", range(12), ids=[dtype.name for dtype in DTYPES])
def test_each_dtype_is_reduced_and_rounded_step_by_step(world, code, op):
    dtype, rng = DTYPES[code], np.random.default_rng(code * 8 + op)
    spread = rng.integers(-9, 9, (3, 300)) if dtype.kind == "i" else rng.uniform(-9, 9, (3, 300))
    sources = (np.abs(spread) if dtype.kind == "u" else spread).astype(dtype)

    def program(comm, rank, stream):
        result = np.zeros(300, dtype)
        comm.allReduce(at(sources[rank]), at(result), 300, code, op, stream)
        return result

    expected = folded(list(sources), op, dtype)
    for result in world(3, program):
        assert result.tobytes() == expected.tobytes()


@pytest.mark.parametrize("code", [UINT8, INT8, INT32])
def test_sums_of_integers_wrap_and_averages_are_cut_toward_zero(world, code):
    dtype = DTYPES[code]
    ends = np.array([np.iinfo(dtype).max, np.iinfo(dtype).min, 7], dtype)
    others = np.array([1, 0, 0], dtype)

    def program(comm, rank, stream):
        total, average = np.zeros(3, dtype), np.zeros(3, dtype)
        mine = others if rank else ends
        comm.allReduce(at(mine), at(total), 3, code, SUM, stream)
        comm.allReduce(at(mine), at(average), 3, code, AVG, stream)
        return total, average

    for total, average in world(2, program):
        assert total.tolist() == [np.iinfo(dtype).min, np.iinfo(dtype).min, 7]
        assert average.tolist() == [int(np.iinfo(dtype).min / 2), int(np.iinfo(dtype).min / 2), 3]


@pytest.mark.parametrize("code", range(FLOAT16, 12), ids=[dtype.name for dtype in DTYPES[FLOAT16:]])
def test_the_largest_passes_over_nan_and_a_sum_keeps_it(world, code):
    sources = np.array([[np.nan, 1, np.nan], [2, np.nan, np.nan]]).astype(DTYPES[code])

    def program(comm, rank, stream):
        largest, total = np.zeros(3, DTYPES[code]), np.zeros(3, DTYPES[code])
        comm.allReduce(at(sources[rank]), at(largest), 3, code, MAX, stream)
        comm.allReduce(at(sources[rank]), at(total), 3, code, SUM, stream)
        return largest, total

    for largest, total in world(2, program):
        np.testing.assert_array_equal(largest.astype(float), [2, 1, np.nan])
        assert np.isnan(total.astype(float)).all()
