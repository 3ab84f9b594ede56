"""Data frames, Series, indices, scalars and arrays of objects in tables: whether workers have the same."""

from __future__ import annotations

import datetime as dt
import fractions
import uuid
import zoneinfo
from decimal import Decimal

import numpy as np
import pytest

from disco_magic.core.snapshot import RegisterInfo, Row
from disco_magic.values.columns import facts_of, facts_of_items
from disco_magic.values.content import scalar_text
from disco_magic.values.describe import describe
from disco_magic.values.divergence import look, survey
from disco_magic.values.frames import Column
from disco_magic.values.inside import parts_of

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
SCALARS = {
    "Decimal": Decimal,
    "Fraction": lambda last: fractions.Fraction(last, 7),
    "Fraction of many digits": lambda last: fractions.Fraction(last, 3**20_000),
    "UUID": lambda last: uuid.UUID(int=last),
    "datetime": lambda last: dt.datetime(2026, 1, last),  # noqa: DTZ001
    "datetime of a zone": lambda last: dt.datetime(2026, 1, last, tzinfo=BERLIN),
    "time": dt.time,
    "Timestamp": pd.Timestamp,
    "Timestamp of a zone": lambda last: pd.Timestamp(last, tz="UTC"),
    "Timedelta": pd.Timedelta,
    "missing": lambda last: pd.NaT if last == 3 else pd.NA,
}
TABLES = {
    "numbers": lambda last: pd.DataFrame({"a": [1, 2], "b": [1.0, last]}),
    "texts": lambda last: pd.DataFrame({"a": [1, 2], "b": ["x", str(last)]}),
    "decimals": lambda last: pd.DataFrame({"a": [Decimal(1), Decimal(last), None]}),
    "categories": lambda last: pd.DataFrame({"a": pd.Categorical(["x", str(last)])}),
    "row labels": lambda last: pd.DataFrame({"a": [1, 2]}, index=[0, last]),
    "labels of two levels": lambda last: pd.DataFrame(
        {"a": [1, 2]}, index=pd.MultiIndex.from_tuples([(1, "a"), (last, "b")])
    ),
    "column names": lambda last: pd.DataFrame({"a": [1, 2], str(last): [1, 2]}),
    "Series": lambda last: pd.Series([1, last]),
    "Series of texts": lambda last: pd.Series(["x", str(last)]),
    "name of a Series": lambda last: pd.Series([1, 2], name=str(last)),
    "Index": lambda last: pd.Index([1, last]),
    "name of an Index": lambda last: pd.Index([1, 2], name=str(last)),
    "RangeIndex": lambda last: pd.RangeIndex(0, 8, 1 if last == 3 else 2),
    "MultiIndex": lambda last: pd.MultiIndex.from_tuples([(1, "a"), (last, "b")]),
    "DatetimeIndex": lambda last: pd.DatetimeIndex([1, last]),
    "polars": lambda last: pl.DataFrame({"a": [1, 2], "b": ["x", str(last)]}),
    "Series of polars": lambda last: pl.Series([1.5, last]),
    "in a list": lambda last: [pd.DataFrame({"a": ["x", str(last)]}), Decimal(last)],
    "objects": lambda last: np.array([1, "a", None, last], object),
    "decimals in an array": lambda last: np.array([[Decimal(1)], [Decimal(last)]], object),
}
ALL = SCALARS | TABLES


@pytest.mark.parametrize("make", ALL.values(), ids=ALL)
def test_tables_say_whether_they_differ(make):
    row = Row("x", tuple(describe(make(last)) for last in (3, 4, 3)))
    assert row.compared
    assert row.differs
    assert row.odd() == (False, True, False)
    assert describe(make(3)) == describe(make(3))
    assert describe(make(3), sample=0).fingerprint == b""


@pytest.mark.parametrize("make", ALL.values(), ids=ALL)
def test_a_check_compares_them(make):
    one, same, other = (
        {path: held.digest for path, held in survey("x", make(last), values=True)} for last in (3, 3, 4)
    )
    assert one == same != other
    assert not any(held.opaque for _, held in survey("x", make(3), values=True))


@pytest.mark.parametrize("make", SCALARS.values(), ids=SCALARS)
def test_scalars_are_shown_as_python_writes_them(make):
    value = make(3)
    is_long = type(value) is fractions.Fraction and value.denominator > 7  # of which Python writes none
    written = f"Fraction({value.numerator:#x}, {value.denominator:#x})" if is_long else repr(value)
    assert describe(value).text == written[:59] + "…" * (len(written) > 60)
    assert look(make(3), values=True).text == describe(make(3)).text
    assert look(make(3), values=False).text == ""


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_a_column_of_texts_says_whether_it_differs(library):
    def parts(last):
        frame = library.DataFrame({"id": [1, 2], "label": ["cat", last]})
        return {path: describe(part) for path, part in parts_of("f", frame)}

    told = [parts(last) for last in ("dog", "fish", "dog")]
    rows = {path: Row(path, tuple(each[path] for each in told)) for path in told[0]}
    assert {path: row.odd() for path, row in rows.items()} == {
        "f": (False, True, False),
        "f['id']": (False, False, False),
        "f['label']": (False, True, False),
    }
    assert all(row.compared for row in rows.values())


def test_a_column_of_objects_is_not_compared():
    objects = [part for _, part in parts_of("f", pd.DataFrame({"a": [object()]}))][-1]
    assert describe(objects) == RegisterInfo("column", (1,), "object", "cpu")
    texts = [part for _, part in parts_of("f", pd.DataFrame({"a": ["x"]}))][-1]
    assert describe(texts, sample=0).fingerprint == b""


def test_short_columns_are_shown_in_a_check():
    def text(column):
        return dict(survey("f", column, values=True))["f['a']"].text

    assert text(pd.DataFrame({"a": ["x", "y"]})) == text(pl.DataFrame({"a": ["x", "y"]})) == "['x', 'y']"
    assert text(pd.DataFrame({"a": [1, 2]})) == text(pl.DataFrame({"a": [1, 2]})) == "[1 2]"
    assert text(pl.DataFrame({"a": [1, None]})) == text(pd.DataFrame({"a": ["x"] * 7})) == ""


def test_zones_and_classes_of_the_users_are_not_asked():
    class Zone(dt.tzinfo):
        def __repr__(self):
            raise AssertionError

        utcoffset = dst = tzname = lambda self, when: None

    class Own(Decimal):
        __repr__ = Zone.__repr__

    for value in (
        dt.datetime(2026, 1, 1, tzinfo=Zone()),
        dt.time(1, tzinfo=Zone()),
        Own(1),
        pd.Period("2026"),
    ):
        assert scalar_text(value) == ""
        assert describe(value).fingerprint == b""
        assert describe(np.array([value], object)).fingerprint == b""
        assert look(np.array([value], object), values=True).opaque == "its elements are Python objects"
        assert describe(pd.DataFrame({"a": pd.Series([value], dtype=object)})).fingerprint == b""


def test_dtypes_that_look_alike_differ():
    for one, other in (
        (pl.Series([1], dtype=pl.Datetime("ms")), pl.Series([1], dtype=pl.Datetime("us"))),
        (pd.Series(["a"], dtype=object), pd.Series(["a"], dtype="string")),
        ([dt.datetime(2026, 1, 1, fold=1)], [dt.datetime(2026, 1, 1)]),  # noqa: DTZ001
    ):
        assert Row("x", (describe(one), describe(other))).differs


def test_long_texts_and_numbers_in_columns_are_neither_read_nor_shown_whole():
    column = pd.DataFrame({"a": ["x" * 5000 + "a", "y"]})
    assert describe(column) == describe(pd.DataFrame({"a": ["x" * 5000 + "b", "y"]}))
    assert describe(column) != describe(pd.DataFrame({"a": ["x" * 5000, "y"]}))
    assert describe(column).sampled
    assert describe(np.array(["x" * 5000], object)).sampled
    assert not describe(pd.DataFrame({"a": ["x" * 50, "y"]})).sampled
    found = dict(
        survey("f", pd.DataFrame({"a": pd.Series([10**6000, "x" * 10**6], dtype=object)}), values=True)
    )
    assert len(found["f['a']"].text) <= 60
    assert found["f['a']"].digest


def test_no_code_of_arrays_of_the_users_runs():
    class Own(pd.api.extensions.ExtensionArray):
        dtype = pd.Int64Dtype()

        def __getitem__(self, index):
            raise AssertionError

        __len__ = lambda self: 3  # noqa: E731

    assert facts_of(Column("own", Own(), 3), 1) is None
    held = np.zeros(1, [("a", object)])
    assert facts_of_items([held[0]]) is None
    many = pd.CategoricalIndex([str(number) for number in range(1000)])
    assert describe(pd.DataFrame({"a": range(1000)}, index=many)).fingerprint == b""
    assert describe(pd.DataFrame(np.zeros((1, 1001)))).fingerprint == b""
    assert describe(pl.DataFrame({"a": [Decimal(1)]})).fingerprint == b""


@pytest.mark.parametrize(
    "make",
    [
        lambda items: pl.DataFrame({"a": items}, strict=False),
        lambda items: pl.Series(items, strict=False),
        lambda items: pd.Series(items, dtype=object),
        lambda items: {"a": np.array(items, object)},
        lambda items: pd.DataFrame(
            {"a": pd.arrays.FloatingArray(np.array(items[:2]), np.array([False] * 2))}
        ),
    ],
    ids=["polars", "Series of polars", "objects", "objects in a dict", "Float64"],
)
def test_missing_numbers_are_counted_beside_missing_values(make):
    counted = describe(make([float("nan"), float("inf"), None]))
    assert (counted.nans, counted.infs) == (1, 1)
    counted = describe(make([1.0, 2.0, None]))
    assert (counted.nans, counted.infs) == (0, 0)


def test_of_long_ones_a_sample_is_compared():
    texts = [str(number) for number in range(100_000)]
    for make in pd.DataFrame, pl.DataFrame:
        frame = make({"a": texts, "b": np.arange(100_000)})
        assert describe(frame, 1000).sampled
        assert describe(frame, 1000) != describe(make({"a": texts[::-1], "b": np.arange(100_000)}), 1000)
    info = describe(np.array(texts, object), 1000)
    assert info.sampled
    assert info.fingerprint
    assert describe(pd.Series(pd.Categorical(texts)), 1000).fingerprint == b""  # too many categories
    assert describe(pd.RangeIndex(10**12)).fingerprint


def test_an_array_of_objects_is_compared_with_its_shape():
    row = Row("x", tuple(describe(np.array([1, 2], object).reshape(shape)) for shape in ((1, 2), (2, 1))))
    assert row.differs
    masked = np.ma.array([1, None], mask=[0, 1], dtype=object)
    assert describe(masked).fingerprint == b""
    assert look(masked, values=True).opaque.endswith("MaskedArray cannot be compared")
