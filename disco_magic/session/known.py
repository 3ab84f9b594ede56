"""Which registers were found to differ after cells before: what is new is told first, what is not says so."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disco_magic.core.divergence import CheckRow
    from disco_magic.core.held import Held


class Known:
    """What the checks of a session's cells have found so far."""

    def __init__(self) -> None:
        # Register or part -> the first cell after which it differed as it does now, and how.
        self._differed: dict[str, tuple[str, Mapping[int, Held | None]]] = {}

    def told(self, label: str, rows: tuple[CheckRow, ...]) -> tuple[CheckRow, ...]:
        """`rows` of the check after a cell; those that differ as before come last, and say since when."""
        new: list[CheckRow] = []
        old: list[CheckRow] = []
        for row in rows:
            first, cells = self._differed.pop(row.name, ("", None))
            since = first if row.differs and cells == row.cells else ""
            (old if since else new).append(replace(row, since=since))
            if row.differs:
                self._differed[row.name] = since or label, row.cells
        return *new, *old
