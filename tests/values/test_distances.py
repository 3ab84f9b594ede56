"""How far numbers are apart, element by element."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from disco_magic.values.distances import distance, equal

ml_dtypes = pytest.importorskip("ml_dtypes")
NAN, INF = np.nan, np.inf


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i4", ">u2"])
def test_integers_do_not_wrap_around(dtype):
    info = np.iinfo(dtype)
    ends = np.array([info.min, info.max, 0, 1, info.max - 1], dtype)
    one, other = (grid.reshape(-1) for grid in np.meshgrid(ends, ends))
    wanted = [abs(int(a) - int(b)) for a, b in zip(one, other, strict=True)]
    found = distance(one, other)
    assert found.tolist() == wanted
    assert found.dtype.kind == "u"


def test_bools_are_apart_where_they_differ():
    found = distance(np.array([True, True, False]), np.array([True, False, True]))
    assert found.tolist() == [False, True, True]


@pytest.mark.parametrize(
    "dtype",
    ["f2", "f4", "f8", "g", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2],
    ids=str,
)
def test_floats_are_subtracted_exactly(dtype):
    one, other = np.array([1, 1.5, 0.25, 64], dtype), np.array([2, 1.25, 0.25, 0.5], dtype)
    wanted = [abs(Fraction(float(a)) - Fraction(float(b))) for a, b in zip(one, other, strict=True)]
    assert [Fraction(float(each)) for each in distance(one, other)] == wanted


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        (NAN, NAN, 0),
        (NAN, 1, INF),
        (1, NAN, INF),
        (INF, INF, 0),
        (-INF, -INF, 0),
        (INF, -INF, INF),
        (INF, 1, INF),
        (INF, NAN, INF),
        (0.0, -0.0, 0),
        (5e-324, 0.0, 5e-324),
        (1.7e308, -1.7e308, INF),
    ],
)
@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_what_is_not_finite_is_equal_to_its_like_and_infinitely_far_from_others(one, other, wanted, dtype):
    assert distance(np.array([one], dtype), np.array([other], dtype)).tolist() == [wanted]


def test_complex_numbers_are_apart_by_the_magnitude():
    assert distance(np.array([3 + 4j, 1j], "c8"), np.array([0, 1j], "c8")).tolist() == [5.0, 0.0]
    assert distance(np.array([3 + 4j], "G"), np.array([0], "f4")).tolist() == [5.0]


@pytest.mark.parametrize(
    ("first", "second"), [("i4", "f4"), ("?", "u1"), ("u8", "i1"), ("f2", ml_dtypes.bfloat16)]
)
def test_numbers_of_different_types_are_subtracted_as_float64(first, second):
    found = distance(np.array([1, 0, 1], first), np.array([1, 1, 0], second))
    assert found.tolist() == [0.0, 1.0, 1.0]
    assert found.dtype == np.float64


def test_an_array_without_axes_has_a_distance_without_axes():
    for dtype in ("f4", "i4", "?", "c8"):
        found = distance(np.array(1, dtype), np.array(0, dtype))
        assert isinstance(found, np.ndarray)
        assert (found.shape, float(found)) == ((), 1.0)


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        (np.array(["a", "b"]), np.array(["a", "c"]), [True, False]),
        (np.array(["NaT", "2020"], "M8[Y]"), np.array(["NaT", "2021"], "M8[Y]"), [True, False]),
        (np.array([(1, 2.0)], "i4,f8"), np.array([(1, 2.0)], "i4,f8"), [True]),
        (np.array([NAN, 1.0]), np.array([NAN, NAN]), [True, False]),
        (np.array([(1, NAN)] * 2, "i4,f8"), np.array([(1, NAN), (2, NAN)], "i4,f8"), [True, False]),
        (np.array([([1, NAN],)], [("x", "f4", 2)]), np.array([([2, NAN],)], [("x", "f4", 2)]), [False]),
        (np.array((1, NAN), "i4,f8"), np.array((1, NAN), "i4,f8"), True),
    ],
    ids=["text", "times", "records", "NaN", "NaN in records", "arrays in records", "a record"],
)
def test_elements_are_equal(one, other, wanted):
    assert equal(one, other).tolist() == wanted
