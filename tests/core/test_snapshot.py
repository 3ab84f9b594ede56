"""Frozen pictures of registers and how they are compared between workers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from disco_magic.core.held import NOT_IMPORTED
from disco_magic.core.register_parts import RegisterParts
from disco_magic.core.snapshot import RegisterInfo, Row, merge

A = RegisterInfo("ndarray", (2,), "float32", "cpu", 8, fingerprint=b"a")
B = RegisterInfo("ndarray", (2,), "float32", "cpu", 8, fingerprint=b"b")
C = RegisterInfo("ndarray", (2,), "float32", "cpu", 8, fingerprint=b"c")
LAZY = RegisterInfo(NOT_IMPORTED, text="json", fingerprint=b"l")


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
        ((A, LAZY, A), False),
        ((A, LAZY, B), True),
        ((LAZY, LAZY), False),
        ((LAZY, replace(LAZY, fingerprint=b"m")), True),
        ((LAZY, None), True),
    ],
)
def test_a_row_differs_if_any_worker_has_something_else(cells, differs):
    assert Row("x", cells).differs is differs


def test_a_row_is_none_if_it_is_that_wherever_it_is_anything():
    none = RegisterInfo("NoneType", text="None")
    assert [Row("x", cells).is_none for cells in ((none, none), (none, None), (none, A), (None, None))] == [
        True,
        True,
        False,
        False,
    ]


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
        ((None, A), (True, False)),
        ((A,), (False,)),
        ((LAZY, A, LAZY), (False, False, False)),
        ((LAZY, LAZY, A, A, B), (False, False, False, False, True)),
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


ROWS = ((0, 2), (1, 3))


@pytest.mark.parametrize(
    ("cells", "odd"),
    [
        ((A, B, A, B), (False, False, False, False)),
        ((A, B, A, A), (False, True, False, True)),
        ((A, B, B, A), (True, True, True, True)),
        ((A, B, None, B), (False, False, True, False)),
        ((None, B, None, B), (False, False, False, False)),
    ],
)
def test_workers_are_compared_with_those_that_they_are_meant_to_agree_with(cells, odd):
    row = Row("w", cells, circles=ROWS)
    assert row.odd() == odd
    assert row.differs is any(odd)


def test_in_a_circle_of_three_the_odd_one_is_told():
    row = Row("w", (A, B, A, B, B, B), circles=((0, 2, 4), (1, 3, 5)))
    assert row.odd() == (False, False, False, False, True, False)


@pytest.mark.parametrize(
    ("cells", "circles", "pair"),
    [
        ((A, A, B, A), (), (0, 2)),
        ((A, B), (), (0, 1)),
        ((A, B, C), (), None),  # each has its own
        ((A, A, A), (), None),
        ((A, B, A, B), ROWS, None),
        ((A, B, A, A), ROWS, (1, 3)),
        ((A, B, B, A), ROWS, (0, 2)),
        ((A, B, C), ((0, 1, 2),), (0, 1)),  # all of them should agree
        ((A, A, B, A, A, A), ((0, 2, 4), (1, 3, 5)), (0, 2)),
    ],
)
def test_two_are_compared_that_should_agree_and_do_not(cells, circles, pair):
    assert Row("w", cells, circles=circles).pair() == pair


def test_a_row_of_some_workers_keeps_who_is_meant_to_agree():
    row = Row("w", (A, B, A, A), frozenset({3}), ROWS)
    assert row.of([1, 2, 3]) == Row("w", (B, A, A), frozenset({2}), ((1,), (0, 2)))
    assert row.of([0, 2]) == Row("w", (A, A), frozenset(), ((0, 1),))
    assert not row.of([0, 2]).differs
    assert row.of([1, 3]).differs
    assert row.of([0, 1]).differs is False
    assert Row("w", (A, B)).of([0, 1]).differs


def test_merging_tells_who_is_meant_to_agree():
    snapshot = merge(1, [[("w", A), ("v", A)], [("w", B), ("v", B)]], {"w": ((0,), (1,))})
    assert [(row.name, row.differs) for row in snapshot.rows] == [("w", False), ("v", True)]


# --- arrays on GPUs --------------------------------------------------------------------------------

ON_0 = replace(A, device="cuda:0")
ON_1 = replace(A, device="cuda:1")
UNSEEN = replace(ON_0, fingerprint=b"")


def test_which_gpu_it_is_makes_no_difference_whether_it_is_one_does():
    assert not Row("x", (ON_0, ON_1)).differs
    assert Row("x", (ON_0, ON_1)).alike
    assert Row("x", (A, ON_1)).differs
    assert Row("x", (A, A, ON_1)).odd() == (False, False, True)


@pytest.mark.parametrize(
    ("cells", "differs", "odd"),
    [
        ((ON_0, UNSEEN), False, (False, False)),
        ((UNSEEN, UNSEEN), False, (False, False)),
        ((ON_0, UNSEEN, replace(ON_0, fingerprint=b"b")), True, (False, False, False)),
        ((ON_0, UNSEEN, ON_1, replace(ON_0, fingerprint=b"b")), True, (False, False, False, True)),
        ((ON_0, ON_1, replace(UNSEEN, dtype="int8")), True, (False, False, True)),
        ((ON_0, ON_1, replace(UNSEEN, device="cpu")), True, (False, False, True)),
        ((UNSEEN, None), True, (False, True)),
        ((UNSEEN, ON_0, None), True, (False, False, True)),
        ((None, None, UNSEEN, ON_0), True, (False, False, True, True)),
    ],
)
def test_what_was_not_seen_may_be_equal_to_the_others(cells, differs, odd):
    row = Row("x", cells)
    assert (row.differs, row.odd()) == (differs, odd)
    assert not row.compared


def test_no_line_is_marked_where_it_is_only_not_known_whether_workers_differ():
    other = replace(UNSEEN, text="computed still")
    shown = repr(Row("x", (ON_0, other))).splitlines()
    assert [line.split()[:2] for line in shown] == [["x", "[0]"], ["[1]", "float32"]]


@pytest.mark.parametrize(
    ("cells", "alike"),
    [
        ((A, A), True),
        ((A, B), False),
        ((A, None), False),
        ((None, None), True),
        ((ON_0, UNSEEN), False),
        ((UNSEEN, UNSEEN), True),
    ],
)
def test_workers_are_alike_if_as_much_is_known_of_all(cells, alike):
    assert Row("x", cells).alike is alike


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


def test_a_snapshot_shows_itself_as_a_table_and_a_row_as_its_lines():
    other = replace(B, text="it")
    row = Row("x", (A, A, other))
    assert repr(row).splitlines() == [
        "  x  [0-1] float32 2 \u00b7 cpu \u00b7 8 B",
        "\u2260    [2] float32 2 \u00b7 cpu \u00b7 8 B \u00b7 it",
    ]
    shown = repr(merge(3, [[("x", A), ("y", None)], [("x", A)], [("x", other)]])).splitlines()
    assert shown[0] == "Disco session 3: 2 registers, 1 differs between workers (\u2260)"
    assert shown[1:3] == repr(row).splitlines()
    assert shown[3:] == ["  y  [0-2] no value", "total [0-2] 8 B each"]
    assert repr(merge(3, [[], []])) == "Disco session 3: 0 registers\ntotal [0-1] 0 B each"


# --- parts -----------------------------------------------------------------------------------------


def test_parts_are_counted_and_shown_with_what_matters_first():
    nan = replace(A, nans=1)
    rows = [Row(f"p.{n}", cells) for n, cells in enumerate([(A, A), (nan, nan), (A, B), (A, None)])]
    parts = RegisterParts(Row("p", (A, A)), tuple(rows), gaps={"p.2": "[1] in this"})
    assert (parts.num_workers, parts.differing, parts.bad) == (2, 2, 1)
    assert [row.name for row in parts.shown] == ["p.2", "p.3", "p.1", "p.0"]
    lines = repr(parts).splitlines()
    assert lines[0] == "p: 4 parts, 2 differ between workers (≠), 1 has NaN or Inf"
    assert lines[1].split()[0] == "p"
    assert lines[4].strip() == "[1] in this"


def test_of_many_parts_it_is_said_how_many_are_left_out():
    rows = tuple(Row(f"p.{n}", (replace(A, infs=1),)) for n in range(302))
    parts = RegisterParts(Row("p", (A,)), rows, is_all=False)
    lines = repr(parts).splitlines()
    assert lines[0] == "p: the first 302 parts, 302 have NaN or Inf"
    assert (len(lines), lines[-1]) == (303, "and 2 more, in its .rows")
    assert repr(RegisterParts(Row("p", (A,)), rows[:1])).startswith("p: 1 part, 1 has NaN or Inf\n")
    dull = tuple(Row(f"p.{n}", (A,)) for n in range(70))
    assert repr(RegisterParts(Row("p", (A,)), (*dull, *rows[:2]))).endswith("and 12 more, in its .rows")
    many = RegisterParts(Row("p", (A,)), (*dull, *rows[:65]))
    assert (len(many.listed), len(many.shown)) == (65, 135)


def test_workers_that_have_the_same_part_of_a_split_tensor_are_meant_to_agree():
    one, two = replace(A, part=("tp=0", (0, 1))), replace(B, part=("tp=1", (0, 1)))
    (row,) = merge(
        1, [[("w", one)], [("w", two)], [("w", one)], [], [("w", replace(one, fingerprint=b"c"))]]
    ).rows
    assert row.circles == ((0, 2, 4), (1,))
    assert row.odd() == (False, False, False, False, True)
    (mixed,) = merge(1, [[("w", one)], [("w", B)]]).rows
    assert mixed.circles == ()
    (marked,) = merge(1, [[("w", one)], [("w", two)]], {"w": ()}).rows
    assert marked.circles == ()
