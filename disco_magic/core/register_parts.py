"""One register with all its parts, on all workers: a frozen picture, like those of `snapshot`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from disco_magic.core.register_text import parts_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disco_magic.core.snapshot import Row

_AS_TEXT: Final = 60
MOST_PARTS: Final = 300
"""How many parts of a register are shown."""


@dataclass(frozen=True, slots=True, repr=False)
class RegisterParts:
    """One register and all its parts; its repr is a table.

    Attributes:
        row: the register itself.
        rows: its parts in their order, ``model.0.weight``: arrays, numbers and texts, objects that are not
            looked into; 1,000 at most.
        is_all: whether these are all.
        gaps: name of a part, or of a register without parts -> how the first worker whose value is not the
            most frequent one differs, in words; for the first few that differ.
    """

    row: Row
    rows: tuple[Row, ...]
    is_all: bool = True
    gaps: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return parts_text(self)

    @property
    def num_workers(self) -> int:
        """Number of workers of the session."""
        return len(self.row.cells)

    @property
    def shown(self) -> list[Row]:
        """The parts that tables show: first what differs, then what has NaN or Inf; 300 at most."""
        return sorted(self.rows, key=lambda row: (not row.differs, not row.is_bad))[:MOST_PARTS]

    @property
    def listed(self) -> list[Row]:
        """Those of `shown` in the text table: all that differ or have NaN or Inf, and at least 60."""
        shown = self.shown
        return shown[: max(sum(row.differs or row.is_bad for row in shown), _AS_TEXT)]

    @property
    def differing(self) -> int:
        """How many parts differ between workers that are meant to agree; without parts, the register."""
        return sum(row.differs for row in self.rows or (self.row,))

    @property
    def bad(self) -> int:
        """How many parts have NaN or Inf among the elements that were looked at; without parts, as above."""
        return sum(row.is_bad for row in self.rows or (self.row,))
