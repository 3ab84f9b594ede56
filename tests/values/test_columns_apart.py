"""Where columns of texts, categories, times and missing values differ, in words."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from disco_magic.values import distances, lookalikes
from disco_magic.values.differences import difference_of
from disco_magic.values.peek import Window

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")


def zoned(day):
    return pd.Series(pd.to_datetime([f"2026-01-{day:02}"]).tz_localize("UTC"))


def told(first, other):
    return lookalikes.why_apart(first, other, "worker 0's")


COLUMNS = {
    "texts": (pd.Series(["a", "b"]), pd.Series(["a", "c"]), "at [1]: 'c', worker 0's is 'b'"),
    "several": (pd.Series(["a", "b"]), pd.Series(["x", "y"]), "the first at [0]: 'x', worker 0's is 'a'"),
    "missing": (pd.Series(["a", None]), pd.Series(["a", "c"]), "at [1]: 'c', worker 0's is None"),
    "decimals": (
        pd.Series([Decimal(1), 0], dtype=object),
        pd.Series([Decimal(2), 0], dtype=object),
        "at [0]: Decimal('2'), worker 0's is Decimal('1')",
    ),
    "categories": (
        pd.Series(pd.Categorical(["a", None])),
        pd.Series(pd.Categorical(["b", None])),
        "at [0]: 'b', worker 0's is 'a'",
    ),
    "categories of numbers": (
        pd.Series(pd.Categorical([1, 2])),
        pd.Series(pd.Categorical([1, 3])),
        "at [1]: 3, worker 0's is 2",
    ),
    "masked": (
        pd.Series([1, None], dtype="Int64"),
        pd.Series([1, 2], dtype="Int64"),
        "at [1]: 2, worker 0's is None",
    ),
    "times of a zone": (zoned(1), zoned(2), "at [0]: 2026-01-02T00:00:00"),
    "polars": (pl.Series(["a", "b"]), pl.Series(["a", "c"]), "at [1]: 'c', worker 0's is 'b'"),
    "numbers of polars": (pl.Series([1, None]), pl.Series([1, 3]), "at [1]: 3, worker 0's is None"),
    "days of polars": (
        pl.Series([dt.date(2026, 1, 1), None]),
        pl.Series([dt.date(2026, 1, 2), None]),
        "at [0]: 2026-01-02, worker 0's is 2026-01-01",
    ),
}


@pytest.mark.parametrize(("first", "other", "where"), COLUMNS.values(), ids=COLUMNS)
def test_the_first_element_that_differs_is_named_with_both_values(first, other, where):
    said = told(first, other)
    assert said.startswith(".values: ")
    assert where in said
    assert told(first, first) == ""


def test_a_long_column_is_compared_in_part(monkeypatch):
    monkeypatch.setattr(distances, "MOST_ELEMENTS", 10)
    monkeypatch.setattr(distances, "SAMPLE", 5)
    texts = [str(number) for number in range(20)]
    other = ["x", *texts[1:]]
    said = ".values: 1 of 5 sampled elements differs from worker 0's: 'x', worker 0's is '0'"
    assert told(pd.Series(texts), pd.Series(other)) == said


def test_tables_of_other_shapes_and_columns_of_other_types_are_told():
    assert told(pd.Series(["a"]), pd.Series(["a", "b"])) == "shape (2,), worker 0's is shape (1,)"
    kinds = [pd.DataFrame({"a": pd.Series(["x"], dtype=kind)}) for kind in (object, "category")]
    assert told(*kinds) == "['a']: category (1,), worker 0's is object (1,)"


def test_objects_of_a_column_are_left_to_their_own_code():
    class Own:
        def __eq__(self, other):
            raise AssertionError

        def __hash__(self):
            raise AssertionError

    assert told(pd.Series([Own()]), pd.Series([Own()])) == ""


def test_the_difference_of_data_frames_says_where_their_texts_differ():
    first, other = (pd.DataFrame({"id": [1, 2], "label": ["cat", last]}) for last in ("dog", "fish"))
    found = difference_of(first, other, Window())
    assert found.differing == 1
    where = (
        "['label']: 1 of 2 elements differs from the first one's, at [1]: 'fish', the first one's is 'dog'"
    )
    assert found.reason == f"values of type DataFrame cannot be subtracted; they differ: {where}"
