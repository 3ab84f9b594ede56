"""Matrices that are tried in part, and whole by ``make test-all``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

EVERY_CASE = bool(os.environ.get("DISCO_EVERY_CASE"))


def in_turn(rows: Sequence[Any], columns: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Each of `rows` with one of `columns`, taken in turn; or all with all."""
    if EVERY_CASE:
        return [(row, column) for row in rows for column in columns]
    return [(row, columns[number % len(columns)]) for number, row in enumerate(rows)]


def one_in(count: int, cases: Sequence[Any]) -> Sequence[Any]:
    """The first of `cases` and each that follows `count` after; or all of them."""
    return cases if EVERY_CASE else cases[::count]
