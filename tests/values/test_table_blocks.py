"""Elements of data frames, Series and indices as text with their labels, and numbers of these as arrays."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.core.snapshot import Row
from disco_magic.values import table_blocks
from disco_magic.values.describe import describe
from disco_magic.values.inside import parts_of
from disco_magic.values.parts import arrays_in
from disco_magic.values.peek import (
    NoPicture,
    Window,
    block_of,
    difference_of,
    histogram_of,
    picture_of,
    statistics_of,
)
from disco_magic.values.totals import describe_wholly

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

ALL = Window()


def shown(table, window=ALL):
    block = block_of(table, window)
    return block.cells, block.row_labels, block.column_labels


def days(name="ns"):
    return np.array(["2026-01-01", "2026-01-02T03:04:05.5"], f"datetime64[{name}]")


TABLES = {
    "numbers and texts": (
        pd.DataFrame({"id": [1, 2], "x": np.float32([0.1, np.nan]), "t": ["cat", None]}),
        ((("1", "0.1", "'cat'"), ("2", "nan", "None")), (), ("id", "x", "t")),
    ),
    "labels": (pd.DataFrame({0: [1, 2]}, index=["p", "q"]), ((("1",), ("2",)), ("p", "q"), ("0",))),
    "labels of numbers": (pd.DataFrame({"a": [1, 2]}, index=[1, 2]), ((("1",), ("2",)), ("1", "2"), ("a",))),
    "two levels": (
        pd.DataFrame({"a": [1, 2]}, index=pd.MultiIndex.from_tuples([(1, "a"), (2, "b")])),
        ((("1",), ("2",)), ("(1, 'a')", "(2, 'b')"), ("a",)),
    ),
    "times": (
        pd.DataFrame({"a": days(), "b": pd.Series(days()).dt.tz_localize("UTC")}),
        (
            (
                ("2026-01-01T00:00:00", "2026-01-01T00:00:00Z"),
                ("2026-01-02T03:04:05.5", "2026-01-02T03:04:05.5Z"),
            ),
            (),
            ("a", "b"),
        ),
    ),
    "polars": (
        pl.DataFrame({"n": [1, None], "t": ["a", "b"], "l": [[1], [2]]}),
        ((("1", "'a'", "List(Int64)"), ("None", "'b'", "List(Int64)")), (), ("n", "t", "l")),
    ),
    "Series": (pd.Series([1.5, 2], ["p", "q"], name="s"), ((("1.5", "2.0"),), ("s",), ("p", "q"))),
    "Series without a name": (pd.Series(["a", "b"]), ((("'a'", "'b'"),), (), ())),
    "Series of polars": (pl.Series("n", [1, 2]), ((("1", "2"),), ("n",), ())),
    "unnamed Series of polars": (pl.Series([1, 2]), ((("1", "2"),), (), ())),
    "Index": (pd.Index(["a", "b"]), ((("'a'", "'b'"),), (), ())),
    "MultiIndex": (pd.MultiIndex.from_tuples([(1, "a")]), ((("(1, 'a')",),), (), ())),
    "times of a zone": (
        pd.Series(days("us")[:1]).dt.tz_localize("Europe/Berlin"),
        ((("2025-12-31T23:00:00Z",),), (), ()),
    ),
    "categories of a zone": (
        pd.Series(pd.Categorical(pd.Series(days("us")[:1]).dt.tz_localize("UTC"))),
        ((("2026-01-01T00:00:00Z",),), (), ()),
    ),
    "categories that may be missing": (
        pd.Series(pd.Categorical(pd.array([7, 5, None], dtype="Int64"))),
        ((("7", "5", "None"),), (), ()),
    ),
    "categories": (pd.Series(pd.Categorical(["x", None])), ((("'x'", "None"),), (), ())),
}


@pytest.mark.parametrize(("table", "told"), TABLES.values(), ids=TABLES)
def test_elements_and_labels_are_shown(table, told):
    assert shown(table) == told


def test_a_window_selects_rows_and_columns():
    frame = pd.DataFrame({name: range(n, n + 30) for n, name in enumerate("abc")})
    block = block_of(frame, Window((5, 30), (1, 3)), (2, 2))
    assert block.cells == (("6", "7"), ("7", "8"))
    assert (block.rows, block.columns, block.extents) == (range(5, 7), range(1, 3), (30, 3))
    turned = block_of(frame, Window((1, 3), (5, 30), (1, 0)), (2, 2))
    assert (turned.cells, turned.row_labels, turned.column_labels) == (
        (("6", "7"), ("7", "8")),
        ("b", "c"),
        (),
    )
    assert block_of(pd.RangeIndex(10**12), Window(columns=(10**11, 10**12)), (1, 2)).cells == (
        ("100000000000", "100000000001"),
    )


def test_objects_are_shown_by_their_types_and_none_of_their_code_runs():
    class Odd:
        def __repr__(self):
            raise AssertionError

        __str__ = __eq__ = __hash__ = __repr__

    frame = pd.DataFrame({"o": pd.Series([Odd(), 1, "a"], dtype=object)})
    frame.columns = pd.Index([("o", 1)], tupleize_cols=False)
    assert shown(frame) == ((("Odd",), ("1",), ("'a'",)), (), ("tuple",))

    class Own(pd.api.extensions.ExtensionArray):
        dtype = pd.Int64Dtype()

        def __getitem__(self, index):
            raise AssertionError

    assert table_blocks.cells_of(table_blocks.Column("own", Own(), 2), range(2), range(1)).columns == (
        ("own", "own"),
    )


def test_a_table_without_elements_and_one_that_is_being_changed_are_not_shown(monkeypatch):
    with pytest.raises(NoPicture, match="has no elements"):
        block_of(pd.DataFrame({"a": []}), ALL)

    def changing(_):
        raise RuntimeError

    monkeypatch.setattr(table_blocks, "columns_of", changing)
    with pytest.raises(NoPicture, match="another thread is changing the table"):
        block_of(pd.DataFrame({"a": [1]}), ALL)


@pytest.mark.parametrize("make", [pd.Series, pl.Series], ids=["pandas", "polars"])
def test_a_series_of_numbers_is_looked_at_as_an_array(make):
    series, array = make([1.5, float("nan"), 4.0]), np.array([1.5, np.nan, 4.0])
    assert statistics_of(series) == statistics_of(array)
    assert histogram_of(series) == histogram_of(array)
    assert picture_of(series, ALL).values.tolist()[0][::2] == [1.5, 4.0]
    told = describe(series)
    assert (told.minimum, told.mean, told.maximum, told.nans, told.text) == (
        1.5,
        2.75,
        4.0,
        1,
        "[1.5 nan 4.]",
    )
    found = difference_of(series, make([1.5, float("nan"), 5.0]), ALL)
    assert (found.max_abs, found.where, found.differing) == (1.0, (2,), 1)


def test_labels_of_a_series_are_compared_besides_its_numbers():
    one, other = pd.Series(np.arange(10.0)), pd.Series(np.arange(10.0), index=range(1, 11))
    assert Row("x", (describe(one), describe(other))).differs
    assert difference_of(one, other, ALL).reason == "their labels differ"
    large = pd.Series(np.zeros(100_000)), pd.Series(np.zeros(100_000), index=range(1, 100_001))
    infos = tuple(map(describe_wholly, large))
    assert (infos[0].mean, infos[0].sampled) == (0.0, False)
    assert infos[0].fingerprint != infos[1].fingerprint
    assert describe_wholly(large[0]) == infos[0]


def test_what_has_no_numbers_says_what_could_be_looked_at():
    for look in (lambda value: picture_of(value, ALL), histogram_of, statistics_of):
        with pytest.raises(NoPicture, match="a DataFrame is not an array: choose one of its columns"):
            look(pd.DataFrame({"a": [1]}))
        with pytest.raises(NoPicture, match="elements of type object are not all numbers"):
            look(pd.Series(["a"], dtype=object))


def test_columns_can_be_chosen_and_looked_at():
    frame = pd.DataFrame({"n": [1, 2], "t": ["a", "b"]})
    assert [tuple(part) for part in arrays_in(frame)] == [
        ("['n']", "column int64 2"),
        ("['t']", f"column {frame['t'].dtype} 2"),
    ]
    numbers, texts = (part for path, part in parts_of("f", frame) if path != "f")
    assert statistics_of(numbers).mean == 1.5
    assert block_of(texts, ALL).cells == (("'a'", "'b'"),)
