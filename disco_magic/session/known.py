"""Remembers what differed after earlier cells: what is new is listed first, and `%disco log` tells of all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from disco_magic.core.registers import register_of

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from disco_magic.core.check_row import CheckRow
    from disco_magic.core.circles import Workers
    from disco_magic.core.held import Held

KEPT: Final = 1000
"""Of how many cells it is kept that something differed after them."""


class Known:
    """What the checks of a session's cells have found so far.

    Attributes:
        diverged: number of a cell -> what differed after it, in a sentence; of the last `KEPT` of them.
    """

    def __init__(self) -> None:
        self.diverged: dict[int, str] = {}
        # (register or part, workers) -> the first cell after which it differed as it does now, and how.
        self._differed: dict[tuple[str, Workers], tuple[str, Mapping[int, Held | None]]] = {}

    def note(self, seq: int, what: str) -> None:
        """Keep what differed after the cell with that number."""
        self.diverged = dict([*self.diverged.items(), (seq, what)][-KEPT:])

    def told(self, label: str, rows: tuple[CheckRow, ...], bound: Container[str]) -> tuple[CheckRow, ...]:
        """Return `rows` with those last that differ as before; these get the label of the first such cell.

        Registers in `bound`, which the cell itself has bound, count as new.
        """
        new: list[CheckRow] = []
        old: list[CheckRow] = []
        for row in rows:
            key = row.name, tuple(row.cells)
            first, cells = self._differed.pop(key, ("", None))
            as_before = row.differs and cells == row.cells and register_of(row.name) not in bound
            before = first if as_before else ""
            if before:
                old.append(replace(row, before=before))
            else:
                new.append(row)
            if row.differs:
                self._differed[key] = before or label, row.cells
        return *new, *old
