"""Copies between controller and worker: nobody shares an object by accident."""

from __future__ import annotations

import threading
import types

import numpy as np
import pytest

from disco_magic.errors import UsageMistake
from disco_magic.functions.copies import copy_of, is_shared
from tests.values.conftest import without_address


class Point:
    def __init__(self, x):
        self.x = x


class Refusing:
    def __deepcopy__(self, memo):
        raise UsageMistake("do it otherwise")


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        5,
        2.5,
        1j,
        "text",
        b"bytes",
        ...,
        np.float32(1),
        np.dtype("f4"),
        int,
        len,
        types,
        lambda: 0,
    ],
    ids=without_address,
)
def test_what_cannot_change_or_is_one_for_all_is_handed_over(value):
    assert is_shared(value)
    assert copy_of(value) is value


@pytest.mark.parametrize(
    "value",
    [
        np.arange(6).reshape(2, 3),
        np.array([[1], None], dtype=object),
        [1, [2]],
        {"a": [1]},
        {1, 2},
        bytearray(b"x"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_everything_else_is_copied(value):
    copy = copy_of(value)
    assert copy is not value
    assert type(copy) is type(value)
    assert repr(copy) == repr(value)


def test_a_copy_of_an_array_keeps_its_layout():
    array = np.asfortranarray(np.ones((3, 4)))
    assert copy_of(array).flags.f_contiguous


def test_a_copied_array_shares_no_memory():
    array = np.zeros(3)
    assert not np.shares_memory(copy_of(array[::2]), array)


def test_objects_inside_an_object_array_are_copied_too():
    inner = [1]
    array = np.array([inner, None], dtype=object)
    assert copy_of(array)[0] is not inner


def test_objects_of_users_are_copied_deeply():
    point = Point([1])
    copy = copy_of(point)
    assert copy.x == [1]
    assert copy.x is not point.x


def test_a_subclass_of_ndarray_stays_one():
    masked = np.ma.masked_array([1, 2], mask=[True, False])
    assert type(copy_of(masked)) is type(masked)


@pytest.mark.parametrize("value", [threading.Lock(), (i for i in ()), [threading.Lock()]], ids=type)
def test_what_cannot_be_copied_is_refused_by_its_type(value):
    with pytest.raises(UsageMistake, match=f"type {type(value).__name__} cannot be copied"):
        copy_of(value)


def test_a_refusal_of_our_own_is_passed_on_as_it_is():
    with pytest.raises(UsageMistake, match=r"^do it otherwise$"):
        copy_of([Refusing()])


def test_a_table_is_copied_with_the_objects_in_its_cells(pandas):
    # pandas copies a table and not what is in its cells: a list would be one and the same everywhere.
    inner = [1]
    table = pandas.DataFrame({"a": [inner, [2]], "b": [3, 4]})
    for copied in (copy_of(table), copy_of({"t": [table]})["t"][0]):
        assert copied.equals(table)
        assert copied["a"].iloc[0] is not inner
    assert copy_of(pandas.Series([inner])).iloc[0] is not inner


def test_an_object_that_is_in_several_places_stays_one(pandas):
    inner = [1]
    copied = copy_of({"t": pandas.DataFrame({"a": [inner, inner]}), "inner": inner})
    cells = copied["t"]["a"]
    assert cells.iloc[0] is cells.iloc[1] is copied["inner"] is not inner


def test_a_table_in_a_cell_of_a_table_is_copied_too(pandas):
    inner = [1]
    outer = pandas.Series([pandas.Series([inner]), [2]])
    assert copy_of(outer).iloc[0].iloc[0] is not inner


def test_a_table_of_numbers_and_text_is_copied_as_pandas_copies_it(pandas, monkeypatch):
    def refuse(self, state):
        raise AssertionError("this costs microseconds per cell")

    monkeypatch.setattr(pandas.DataFrame, "__setstate__", refuse)
    table = pandas.DataFrame({"a": [1, 2], "b": [3, 4]})
    assert copy_of(table).equals(table)


def test_objects_in_the_labels_of_a_table_are_copied():
    pandas = pytest.importorskip("pandas")
    inner = [1]
    index = pandas.Index([inner, [2]], dtype=object)
    table = pandas.DataFrame({"a": [1, 2]}, index=index)
    series, both = pandas.Series([1, 2], index=index), copy_of([index, inner])
    for labels in (copy_of(index), copy_of(table).index, copy_of(series).index, both[0]):
        labels[0].append(3)
        assert labels.tolist() == [[1, 3], [2]]
    assert inner == [1]
    assert both[1] is both[0][0]


def test_objects_in_columns_of_polars_are_copied():
    polars = pytest.importorskip("polars")
    inner = [1]
    column = polars.Series("a", [inner, None], dtype=polars.Object)
    table = polars.DataFrame({"b": [1, 2], "a": column})
    held = copy_of({"t": table, "inner": inner})
    for copied in (copy_of(column), copy_of(table)["a"], held["t"]["a"]):
        assert copied.to_list() == [[1], None]
        assert copied[0] is not inner
    assert held["t"]["a"][0] is held["inner"]
    assert column[0] is table["a"][0] is inner
    assert copy_of(table)["b"].to_list() == [1, 2]


class Tagged(np.ndarray):
    def __array_finalize__(self, other):
        self.tags = getattr(other, "tags", None)


class Careful(Tagged):
    def __deepcopy__(self, memo):
        made = super().__deepcopy__(memo)
        made.tags = "its own"
        return made


def test_attributes_of_arrays_of_derived_classes_are_copied():
    tagged, careful = np.ones(3).view(Tagged), np.ones(3).view(Careful)
    tagged.tags = careful.tags = {"k": [1]}
    copied, held = copy_of(tagged), copy_of([tagged, tagged.tags])
    assert type(copied) is Tagged
    assert copied.tags == tagged.tags
    assert copied.tags is not tagged.tags
    assert copied.tags["k"] is not tagged.tags["k"]
    assert held[0].tags is held[1]
    assert copy_of(careful).tags == "its own"


def test_a_table_that_cannot_be_copied_is_refused_by_its_type(pandas):
    with pytest.raises(UsageMistake, match="a value of type Series cannot be copied"):
        copy_of(pandas.Series([[threading.Lock()]]))


def test_methods_of_built_in_objects_are_bound_to_the_copy():
    held = [1]
    append = copy_of(held.append)
    append(2)
    assert held == [1]
    assert append.__self__ == [1, 2]
    assert is_shared(len)
    assert is_shared(dict.fromkeys)
    assert not is_shared(held.append)
