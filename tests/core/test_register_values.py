"""Registers of more workers than tables have columns for: a line per value."""

from __future__ import annotations

import pytest

from disco_magic.core.register_values import columns_of, lines_of, values_of
from disco_magic.core.snapshot import RegisterInfo, Row


def info(value, print_=None, **more):
    return RegisterInfo("int", text=str(value), fingerprint=print_ or str(value).encode(), **more)


def lines(row):
    values = values_of(row)
    found = [(each.is_odd, each.workers, each.info and each.info.text) for each in values.shown]
    return found + ([(values.is_odd, values.rest, values.said)] if values.rest else [])


def test_up_to_eight_workers_have_a_column_each():
    assert columns_of(8) == range(8)
    assert columns_of(9) is None


def test_equal_values_are_one_line_and_the_few_that_differ_are_marked():
    row = Row("w", tuple(info(1 if worker in (5, 7) else 0) for worker in range(12)))
    assert lines(row) == [
        (False, (0, 1, 2, 3, 4, 6, 8, 9, 10, 11), "0"),
        (True, (5, 7), "1"),
    ]


def test_values_that_equally_many_workers_hold_are_all_right():
    row = Row("shard", tuple(info(worker // 4) for worker in range(12)))
    assert [odd for odd, *_ in lines(row)] == [False] * 3


def test_unless_they_are_meant_to_agree():
    row = Row("w", tuple(info(worker // 6) for worker in range(12)), circles=(tuple(range(12)),))
    assert [odd for odd, *_ in lines(row)] == [False, True]


def test_of_many_values_the_last_line_says_how_many_are_left_and_between_which_numbers():
    row = Row("g", tuple(info(worker, minimum=float(worker), maximum=2.0 * worker) for worker in range(64)))
    assert lines(row)[3] == (False, tuple(range(3, 64)), "61 other values, 3 \u2026 126")
    assert [text for _, _, text in lines(row)[:3]] == ["0", "1", "2"]


def test_odd_values_and_the_usual_one_come_before_all_others():
    held = [info(0)] * 50 + [info(worker) for worker in range(50, 54)]
    row = Row("w", (*held[50:], *held[:50]))
    assert lines(row)[0] == (True, (0,), "50")
    assert lines(row)[2] == (False, tuple(range(4, 54)), "0")
    assert lines(row)[3] == (True, (2, 3), "2 other values")


@pytest.mark.parametrize(("coming", "count"), [(frozenset(), 2), (frozenset({3}), 3)])
def test_workers_without_a_value_are_a_line_and_those_that_may_still_bind_it_another(coming, count):
    cells = [info(0)] * 10
    cells[3] = cells[4] = None
    assert len(lines(Row("x", tuple(cells), coming))) == count


def test_in_a_table_of_lines_up_to_eight_workers_have_one_each_and_of_more_those_that_hold_the_same():
    few = Row("w", tuple(info(worker == 2) for worker in range(4)))
    assert [(each.workers, each.is_odd) for each in lines_of(few)] == [
        ((0,), False),
        ((1,), False),
        ((2,), True),
        ((3,), False),
    ]
    many = Row("w", tuple(info(min(worker // 4, 2)) for worker in range(9)))
    assert [(each.workers, each.is_odd) for each in lines_of(many)] == [
        ((0, 1, 2, 3), False),
        ((4, 5, 6, 7), False),
        ((8,), True),
    ]
