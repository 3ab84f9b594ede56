"""Columns and labels of data frames, compared value by value."""

from __future__ import annotations

import datetime as dt
import types
from decimal import Decimal

import numpy as np
import pytest

from disco_magic.values.columns import alone, facts_of, facts_of_labels
from disco_magic.values.divergence import look, survey
from disco_magic.values.frames import Column


@pytest.fixture
def pandas():
    return pytest.importorskip("pandas")


@pytest.fixture
def polars():
    return pytest.importorskip("polars")


def digests(value):
    return {path: held.digest for path, held in survey("f", value, values=True)}


COLUMNS = {
    "numbers": lambda pd, last: np.array([1.0, 2.0, last]),
    "texts": lambda pd, last: ["a", None, str(last)],
    "objects that are plain": lambda pd, last: pd.Series(["a", 1, last], dtype=object),
    "categories": lambda pd, last: pd.Categorical(["a", "b", str(last)]),
    "integers with gaps": lambda pd, last: pd.array([1, None, last], dtype="Int64"),
    "times of a zone": lambda pd, last: pd.to_datetime([1, 2, last], utc=True),
    "times": lambda pd, last: pd.to_datetime([1, 2, last]),
}


@pytest.mark.parametrize("make", COLUMNS.values(), ids=COLUMNS)
def test_columns_are_compared_value_by_value(pandas, make):
    one, same, other = (digests(pandas.DataFrame({"x": make(pandas, last)})) for last in (3, 3, 4))
    assert one == same
    assert one["f['x']"] != other["f['x']"]
    assert one["f"] == other["f"] != b""


def test_series_are_compared_as_their_values_and_their_labels(pandas):
    one, other, named, moved = (
        digests(pandas.Series(*args, name=name))
        for *args, name in (([1, 2], "n"), ([1, 3], "n"), ([1, 2], "m"), ([1, 2], [5, 6], "n"))
    )
    assert one["f"] == other["f"]
    assert one["f.values"] != other["f.values"]
    assert one["f"] != named["f"]
    assert one["f"] != moved["f"]
    assert one["f.values"] == moved["f.values"]


def test_labels_of_several_levels_are_compared(pandas):
    one, other = (
        digests(
            pandas.DataFrame({"x": [1.0, 2.0]}, index=pandas.MultiIndex.from_tuples([(1, "a"), (last, "b")]))
        )
        for last in (1, 2)
    )
    assert one["f"] != other["f"]
    assert look(pandas.DataFrame({("x", 1): [1.0]}), values=True).digest


def test_what_cannot_be_compared_in_a_frame_is_said(pandas):
    frame = pandas.DataFrame({"o": [object()], "p": pandas.period_range("2020", periods=1)}, index=[(1, 2)])
    found = dict(survey("f", frame, values=True))
    assert found["f['o']"].opaque == "not all values of dtype object can be compared"
    assert found["f['p']"].opaque.startswith("not all values of dtype period")
    odd = pandas.DataFrame({"x": [1]}, index=pandas.Index([object()]))
    assert look(odd, values=True).opaque == "its labels are objects"
    mixed = pandas.DataFrame({"x": pandas.Categorical([object()])})
    assert dict(survey("f", mixed, values=True))["f['x']"].opaque


def test_labels_of_a_class_of_the_users_are_not_asked():
    frame = types.SimpleNamespace(index=object(), columns=object(), name="n")
    assert facts_of_labels(frame) is None


def test_what_a_library_refuses_is_not_looked_into():
    assert facts_of(Column("int64", object(), 1)) is None
    assert alone(None) is None
    assert alone([np.zeros(2)]) is not None
    assert alone([np.zeros(2), np.zeros(2)]) is None
    assert alone([np.zeros(2, bool), array := np.zeros(2)]) is array
    assert alone([np.array([False, True]), np.zeros(2)]) is None


# --- polars ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "items", "others"),
    [
        ("Int64", [1, None, 3], [1, 0, 3]),
        ("Int64", [1, 2, 3], [1, 2, 4]),
        ("Boolean", [True, None, False], [True, False, None]),
        ("Date", [dt.date(2026, 1, 1), None], [dt.date(2026, 1, 2), None]),
        ("String", ["a", None], ["a", "b"]),
    ],
)
def test_columns_of_polars_are_compared_with_what_is_missing_in_them(polars, dtype, items, others):
    kind = getattr(polars, dtype)
    one, same, other = (
        digests(polars.DataFrame({"x": polars.Series(each, dtype=kind)})) for each in (items, items, others)
    )
    assert one == same
    assert one["f['x']"] != other["f['x']"]
    named, otherwise = (digests(polars.Series(name, items, kind))["f"] for name in "st")
    assert named != otherwise


@pytest.mark.parametrize("dtype", ["Object", "Decimal"])
def test_columns_of_polars_that_hold_objects_are_not_compared(polars, dtype):
    column = polars.Series("s", [Decimal(1)], getattr(polars, dtype))
    assert facts_of(Column(str(column.dtype), column, 1)) is None
