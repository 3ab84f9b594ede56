"""Matrices that are tried in part, and whole by ``make test-all``."""

from __future__ import annotations

import os
from itertools import combinations
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

EVERY_CASE = bool(os.environ.get("DISCO_EVERY_CASE"))


def in_turn(rows: Sequence[Any], columns: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Each of `rows` with one of `columns`, taken in turn; or all with all."""
    if EVERY_CASE:
        return [(row, column) for row in rows for column in columns]
    return [(row, columns[number % len(columns)]) for number, row in enumerate(rows)]


def one_in(count: int, cases: Sequence[Any]) -> Sequence[Any]:
    """The first of `cases` and each that follows `count` after; or all of them."""
    return cases if EVERY_CASE else cases[::count]


def every_pair(cases: Sequence[Any], facts: Callable[[Any], Sequence[Hashable]]) -> Sequence[Any]:
    """So many of `cases` that any two of the `facts` that meet in one of them meet in one of these; or all.

    One case after the other is taken that has a pair which none before it has.
    """
    if EVERY_CASE:
        return cases
    taken, seen = [], set()
    for case in cases:
        pairs = set(combinations(enumerate(facts(case)), 2))
        if pairs - seen:
            taken.append(case)
            seen |= pairs
    return taken
