"""`%disco scatter` and `%disco gather`: variables in parts."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from disco_magic.errors import UsageMistake
from disco_magic.notebook.commands.splitting import join, split
from disco_magic.session.current import session
from tests.doubles import arrays


def names(shell):
    return session().names()


def held(name):
    """What the workers hold, as copies."""
    return session()[name].get_all()


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scatter_gives_worker_i_its_part_and_gather_joins_them(crew, axis):
    crew.ip.user_ns["a"] = whole = np.arange(36).reshape(6, 6)
    crew.run(f"%disco scatter a --axis {axis}")
    parts = crew.run("%%disco\na").values
    assert all(
        np.array_equal(part, expected)
        for part, expected in zip(parts, np.split(whole, crew.n, axis), strict=True)
    )
    crew.run(f"del a\n%disco gather a --axis {axis}")
    assert np.array_equal(crew.ip.user_ns["a"], whole)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_tensor_is_split_into_tensors_and_joined_as_one(crew, axis, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", arrays.torch())
    whole = np.arange(36).reshape(6, 6)
    crew.ip.user_ns["t"] = arrays.tensor(whole, device="cpu")
    crew.run(f"%disco scatter t --axis {axis}")
    parts = [part.numpy() for part in held("t")]
    assert [part.tolist() for part in parts] == [part.tolist() for part in np.split(whole, crew.n, axis)]
    crew.run(f"del t\n%disco gather t --axis {axis}")
    assert type(crew.ip.user_ns["t"]) is type(arrays.tensor(whole))
    assert np.array_equal(crew.ip.user_ns["t"].numpy(), whole)


def test_with_a_part_of_a_tensor_nothing_else_of_it_is_copied(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", arrays.torch())
    for axis in (0, 1):
        parts = split("t", arrays.tensor(np.arange(36).reshape(6, 6), device="cpu"), axis, 3)
        assert all(part.numpy().flags.c_contiguous for part in parts)


def test_tensors_beside_arrays_are_joined_as_an_array(four, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", arrays.torch())
    four.ip.user_ns["t"] = arrays.tensor(np.ones(2), device="cpu")
    four.run("%disco put t")
    four.run("%%disco -w 1-3\nt = np.zeros(2)")
    four.run("%disco gather t")
    assert np.array_equal(four.ip.user_ns["t"], [1, 1, 0, 0, 0, 0, 0, 0])


def test_gather_of_numbers_gives_one_element_per_worker(crew):
    crew.run("%%disco\nn = worker_id")
    crew.run("%disco gather n")
    assert crew.ip.user_ns["n"].tolist() == list(range(crew.n))


@pytest.mark.parametrize("length", [0, 1, 2, 3, 5, 7])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_items_are_split_in_order_as_numpy_splits_them_unevenly(length, count):
    whole = list(range(length))
    expected = [part.tolist() for part in np.array_split(whole, count)]
    assert split("v", whole, 0, count) == expected
    assert join("v", dict(enumerate(expected)), 0) == whole


@pytest.mark.parametrize(
    ("whole", "part", "joined"),
    [
        ([1, [2], 3, "4"], list, [1, [2], 3, "4"]),
        ((1, 2, 3), tuple, (1, 2, 3)),
        (range(5), range, [0, 1, 2, 3, 4]),
    ],
)
def test_lists_tuples_and_ranges_keep_their_kind_on_the_workers(crew, whole, part, joined):
    crew.ip.user_ns["v"] = whole
    crew.run("%disco scatter v")
    assert {type(value) for value in held("v")} == {part}
    crew.run("del v\n%disco gather v")
    assert crew.ip.user_ns["v"] == joined


def test_parts_of_a_list_are_copies_even_of_an_object_that_is_in_several(crew):
    one = [0]
    crew.ip.user_ns["v"] = [one] * crew.n
    crew.run("%disco scatter v")
    crew.run("%%disco\nv[0].append(worker_id)")
    crew.run("%disco gather v")
    assert crew.ip.user_ns["v"] == [[0, worker] for worker in range(crew.n)]
    assert one == [0]


def test_tables_are_split_by_rows_and_joined_again(crew, pandas):
    whole = pandas.DataFrame({"a": [0, 1, 2, 3, 4], "b": [5, 6, 7, 8, 9]})
    column = whole["a"]
    crew.ip.user_ns.update(t=whole, s=column)
    crew.run("%disco scatter t s")
    lengths = [len(part) for part in np.array_split(np.arange(5), crew.n)]
    assert [len(part) for part in held("t")] == [len(part) for part in held("s")] == lengths
    crew.run("del t, s\n%disco gather t s")
    assert crew.ip.user_ns["t"].equals(whole)
    assert crew.ip.user_ns["s"].equals(column)


def test_a_table_keeps_its_index_and_its_types():
    pandas = pytest.importorskip("pandas")
    whole = pandas.DataFrame(
        {"n": [1.5, None, 3.0], "s": ["x", "y", "z"], "c": pandas.Categorical(["p", "q", "p"])},
        index=pandas.date_range("2026-01-01", periods=3),
    )
    parts = split("t", whole, 0, 4)
    assert [len(part) for part in parts] == [1, 1, 1, 0]
    pandas.testing.assert_frame_equal(join("t", dict(enumerate(parts)), 0), whole, check_freq=False)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (np.zeros((6, 2)), "axis 0 of 'a' has length 6, which 4 workers cannot share evenly"),
        (np.float64(1), "has no axis 0"),
        ({"a": 1}, "'a' is a dict, expected an array of numbers"),
        ((i for i in "ab"), "a tuple or a range; make a list of it: a = list(a)"),
        ("text", "'a' is a str, expected an array of numbers"),
        (b"text", "'a' is a bytes, expected an array of numbers"),
        (np.array([{}] * 4), "'a' is an array of objects, expected an array of numbers"),
        (np.ma.masked_array([1, 2, 3, 4]), "'a': a masked array would lose its mask"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_split_evenly_is_refused_and_nothing_sent(four, value, reason):
    four.ip.user_ns.update(a=value, good=[1])
    assert reason in str(four.fail("%disco scatter good a", UsageMistake))
    assert names(four) == ()


@pytest.mark.parametrize("value", [[1, 2], (1,), range(4)])
def test_what_has_items_has_no_other_axis(four, value):
    four.ip.user_ns["a"] = value
    what = f"'a' is a {type(value).__name__}, which is split along axis 0 only, got --axis 1"
    assert what in str(four.fail("%disco scatter a --axis 1", UsageMistake))
    four.run("%disco scatter a")
    assert "joined along axis 0 only" in str(four.fail("%disco gather a --axis 1", UsageMistake))


def test_gather_of_parts_that_do_not_fit_names_their_shapes(four):
    four.run("%%disco\nx = np.zeros((1, 1 + worker_id // 2))\nd = {}")
    assert "shapes are [0] (1, 1), [1] (1, 1), [2] (1, 2), [3] (1, 2)" in str(
        four.fail("%disco gather x", UsageMistake)
    )
    assert "'d' is a dict on workers [0-3]" in str(four.fail("%disco gather d", UsageMistake))


def test_gather_of_parts_whose_dtypes_have_none_in_common_says_so(four):
    four.run("%%disco\nx = np.zeros(1, 'M8[s]' if worker_id else 'f4')")
    assert "'x' cannot be joined along axis 0: The DType" in str(four.fail("%disco gather x", UsageMistake))


def test_gather_says_who_holds_something_else_and_how_to_have_a_list_of_all(four):
    four.run("%%disco\nx = [1] if worker_id else (1,)\ns = 'text'\ny = 1 if worker_id else [1]")
    assert "'x' is not of one kind: tuple on worker 0; list on workers [1-3]" in str(
        four.fail("%disco gather x", UsageMistake)
    )
    assert "'y' is not of one kind: list on worker 0; int on workers [1-3]" in str(
        four.fail("%disco gather y", UsageMistake)
    )
    hint = "%disco get s -w all"
    assert hint in str(four.fail("%disco gather s", UsageMistake))
    four.run(hint)
    assert four.ip.user_ns["s"] == ["text"] * 4


def test_tables_of_other_columns_are_not_joined(pandas):
    parts = [pandas.DataFrame({"a": [1]}), pandas.DataFrame({"a": [1], "b": [2]})]
    with pytest.raises(UsageMistake, match="the columns of 't' differ: a on worker 0; a, b on worker 1"):
        join("t", dict(enumerate(parts)), 0)


@pytest.fixture
def polars():
    return pytest.importorskip("polars")


def test_tables_of_polars_are_split_and_joined_as_those_of_pandas(crew, polars):
    whole = polars.DataFrame({"a": [0, 1, 2, 3, None], "b": ["p", "q", "r", "s", "t"]})
    crew.ip.user_ns.update(t=whole, s=whole["b"])
    crew.run("%disco scatter t s")
    lengths = [len(part) for part in np.array_split(np.arange(5), crew.n)]
    assert [len(part) for part in held("t")] == [len(part) for part in held("s")] == lengths
    crew.run("del t, s\n%disco gather t s")
    assert crew.ip.user_ns["t"].equals(whole)
    assert crew.ip.user_ns["s"].equals(whole["b"])


def test_tables_of_polars_that_do_not_fit_together_are_refused(polars):
    with pytest.raises(UsageMistake, match="the columns of 't' differ: a on worker 0; a, b on worker 1"):
        join("t", {0: polars.DataFrame({"a": [1]}), 1: polars.DataFrame({"a": [1], "b": [2]})}, 0)
    with pytest.raises(UsageMistake, match="polars cannot join the parts of 't': "):
        join("t", {0: polars.DataFrame({"a": [1]}), 1: polars.DataFrame({"a": ["one"]})}, 0)


def test_what_pandas_says_of_tables_that_it_cannot_join_is_told(pandas, monkeypatch):
    def refuse(tables):
        raise ValueError("no")

    monkeypatch.setattr(pandas, "concat", refuse)
    with pytest.raises(UsageMistake, match="pandas cannot join the parts of 't': no"):
        join("t", {0: pandas.Series([1])}, 0)
