"""Frozen pictures of registers and how they are compared between workers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from disco_magic.core.snapshot import RegisterInfo, Row, merge

A = RegisterInfo("ndarray", (2,), "float32", "cpu", 8, fingerprint=b"a")
B = RegisterInfo("ndarray", (2,), "float32", "cpu", 8, fingerprint=b"b")


@pytest.mark.parametrize(
    ("cells", "differs"),
    [
        ((A,), False),
        ((A, A, A), False),
        ((A, B), True),
        ((A, None), True),
        ((None, None), False),
        ((A, RegisterInfo("ndarray", (2, 1), "float32", fingerprint=b"a")), True),
        ((A, RegisterInfo("ndarray", (2,), "float64", fingerprint=b"a")), True),
        ((A, RegisterInfo("Array", (2,), "float32", fingerprint=b"a")), True),
    ],
)
def test_a_row_differs_if_any_worker_has_something_else(cells, differs):
    assert Row("x", cells).differs is differs


def test_statistics_and_text_do_not_make_a_row_differ():
    other = RegisterInfo("ndarray", (2,), "float32", "cpu", 8, "text", 1.0, 2.0, 3.0, b"a", sampled=True)
    assert not Row("x", (A, other)).differs


@pytest.mark.parametrize(
    ("cells", "odd"),
    [
        ((A, A, B), (False, False, True)),
        ((B, A, A), (True, False, False)),
        ((A, None, A), (False, True, False)),
        ((A, None), (False, True)),
        ((A,), (False,)),
    ],
)
def test_the_odd_ones_differ_from_the_most_frequent_cell_the_first_of_equals(cells, odd):
    assert Row("x", cells).odd() == odd


def test_where_every_worker_has_its_own_value_only_another_kind_is_odd():
    third, other = replace(A, fingerprint=b"c"), replace(A, fingerprint=b"d", dtype="int8")
    assert Row("x", (A, B)).odd() == (False, False)
    assert Row("x", (A, B, third)).odd() == (False, False, False)
    assert Row("x", (A, B, other)).odd() == (False, False, True)
    assert Row("x", (A, B, None)).odd() == (False, False, True)
    assert Row("x", (A, B, third)).differs


def test_merging_puts_workers_side_by_side_in_order_of_first_appearance():
    picture = merge(7, [[("x", A)], [("y", B), ("x", B)]])
    assert picture.session_id == 7
    assert picture.num_workers == 2
    assert picture.rows == (Row("x", (A, B)), Row("y", (None, B)))


def test_bytes_are_summed_per_worker():
    assert merge(1, [[("x", A), ("y", B)], [("x", A)], []]).nbytes == (16, 8, 0)


def test_a_row_is_found_by_name_and_a_missing_one_is_a_key_error():
    picture = merge(1, [[("x", A), ("#5", B)]])
    assert picture.row("#5").cells == (B,)
    with pytest.raises(KeyError, match="nope"):
        picture.row("nope")


def test_a_kind_is_what_an_array_is_made_of_or_the_type():
    assert replace(A, shape=(64, 2)).kind == "float32 64\u00d72"
    assert RegisterInfo("Tensor", (), "half").kind == "Tensor half 0-d"
    assert RegisterInfo("list").kind == "list"
