"""Rows of tables of many workers."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from disco_magic.core.gathered import gathered


class Figures(NamedTuple):
    worker: int
    one: float
    other: float = 0.0


def rows(workers, alone=None):
    found = gathered(workers, lambda each: (each.one, each.other), 1.0, alone)
    return [[each.worker for each in group] for group in found]


def test_few_workers_have_a_row_each():
    assert rows([Figures(worker, 5.0) for worker in range(8)]) == [[worker] for worker in range(8)]


def test_of_many_those_alike_are_one_row_and_rows_are_in_the_order_of_their_first_workers():
    workers = [Figures(worker, 50.0 if worker % 2 else 0.1 * worker) for worker in range(10)]
    assert rows(workers) == [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]]


def test_those_that_differ_in_any_figure_are_apart():
    workers = [Figures(worker, 5.0, 9.0 * (worker == 4)) for worker in range(10)]
    assert rows(workers) == [[0, 1, 2, 3, 5, 6, 7, 8, 9], [4]]


def test_one_may_be_alone_though_others_are_like_it():
    workers = [Figures(worker, 5.0) for worker in range(10)]
    assert rows(workers, workers[3]) == [[0, 1, 2, 4, 5, 6, 7, 8, 9], [3]]


@pytest.mark.parametrize("n", [16, 256])
def test_each_is_compared_once(n):
    asked = []
    workers = [Figures(worker, 5.0 * (worker % 7)) for worker in range(n)]
    found = gathered(workers, lambda each: asked.append(each) or (each.one,), 1.0)
    assert len(found) == 7
    assert len(asked) <= 2 * n
