"""Operands of several workers as one table."""

from __future__ import annotations

from disco_magic.errors import Failure
from disco_magic.errors.operands import Operands, operand_lines

WHERE = ("a @ b", "Cell In[3], line 5")


def failure(worker, operands):
    return Failure(worker, 1, "Cell In[3]", ValueError("x"), "", operands)


def lines(*operands):
    return operand_lines([failure(worker, each) for worker, each in enumerate(operands)])


def test_workers_with_equal_values_share_a_line():
    one = Operands(*WHERE, {"a": "float64 2x3", "self.weight": "float64 3"})
    two = Operands(*WHERE, {"a": "float64 2x3", "self.weight": "float64 4"})
    assert lines(one, two, one) == [
        "values in `a @ b` at Cell In[3], line 5:",
        "  a            [0-2] float64 2x3",
        "  self.weight  [0,2] float64 3",
        "               [1]   float64 4",
    ]


def test_workers_that_failed_elsewhere_or_say_nothing_are_left_out():
    here, elsewhere = Operands(*WHERE, {"a": "1"}), Operands("b", "Cell In[3], line 9", {"b": "2"})
    assert lines(here, elsewhere, None) == ["values in `a @ b` at Cell In[3], line 5:", "  a  [0] 1"]
    assert lines(None, here) == []
    assert lines() == []


def test_workers_where_it_did_not_fail_stand_below_and_share_the_lines():
    here = Operands(*WHERE, {"a": "1", "b": "x"}, others={0: {"a": "2"}, 3: {"a": "1", "b": "y"}})
    assert lines(None, here) == []
    assert operand_lines([failure(1, here), failure(2, Operands(*WHERE, {"a": "1"}))]) == [
        "values in `a @ b` at Cell In[3], line 5, which failed on workers [1-2]:",
        "  a  [1-3] 1",
        "     [0]   2",
        "  b  [1]   x",
        "     [3]   y",
    ]


def test_many_different_values_are_counted():
    many = lines(*(Operands(*WHERE, {"a": str(worker // 2)}, 3) for worker in range(12)))
    assert many[1:] == [
        "  a  [0-1]  0",
        "     [2-3]  1",
        "     [4-5]  2",
        "     [6-11] 3 others",
        "  and 3 more",
    ]


def test_a_long_name_is_cut_and_does_not_move_the_others_apart():
    long = f"batch['{'x' * 500}']"
    _, first, second = lines(Operands(*WHERE, {long: "1", "b": "2"}))
    assert first == f"  {long[:59]}…  [0] 1"
    assert second == f"  b{' ' * 59}  [0] 2"
