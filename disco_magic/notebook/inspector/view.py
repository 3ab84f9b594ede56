"""Filters and sorts the registers of an inspector: plain data, without widgets or a session."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from disco_magic.core.register_text import DEFINITIONS
from disco_magic.core.words import shape_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from disco_magic.core.snapshot import RegisterInfo, Row, SessionSnapshot

ANY: Final = ""
FEW_NBYTES: Final = 32 << 20
"""Registers, or parts of one, with at most so many bytes at the last look are read completely."""

KINDS: Final[Mapping[str, Callable[[Row], bool]]] = {
    "variables": lambda row: row.differs or any(info.type not in DEFINITIONS for info in row.present),
    "everything": lambda _: True,
    "differs between workers": lambda row: row.differs,
    "has NaN or Inf": lambda row: row.is_bad,
    "arrays": lambda row: any(info.shape is not None for info in row.present),
    "failed": lambda row: any(info.type == "failed" for info in row.present),
}
SIZES: Final[Mapping[str, int]] = {
    "any size": 0,
    "1 KiB or more": 1 << 10,
    "1 MiB or more": 1 << 20,
    "64 MiB or more": 1 << 26,
}
ORDERS: Final[Mapping[str, Callable[[Row], tuple[object, ...]]]] = {
    "as bound": lambda _: (),
    "name": lambda row: (row.name.lower(),),
    "largest first": lambda row: (-largest(row),),
    "differing first": lambda row: (not row.differs,),
    "dtype": lambda row: min(((info.dtype or "~", info.type) for info in row.present), default=("~", "")),
}


@dataclass(frozen=True, slots=True)
class View:
    """The settings of the controls above a table.

    Attributes:
        search: words; a register is shown if every word is part of its name, type, dtype or shape, or matches
            its name as a pattern (``w_*``). Case does not matter.
        kind: a key of `KINDS`.
        dtype: show only this element type, on any worker; `ANY` for all.
        size: a key of `SIZES`: bytes on the worker that has most.
        order: a key of `ORDERS`; equal ones stay in the order in which they were bound.
        pinned: names that are shown first, regardless of the filters.
    """

    search: str = ""
    kind: str = "everything"
    dtype: str = ANY
    size: str = "any size"
    order: str = "as bound"
    pinned: frozenset[str] = frozenset()

    def rows(self, snapshot: SessionSnapshot) -> list[Row]:
        """The rows to show, in order."""
        chosen = [row for row in snapshot.listed if row.name not in self.pinned and self.shows(row)]
        pinned = [row for row in snapshot.rows if row.name in self.pinned]
        order = ORDERS[self.order]
        return sorted(pinned, key=order) + sorted(chosen, key=order)

    def shows(self, row: Row) -> bool:
        """Whether `row` passes all filters."""
        return (
            KINDS[self.kind](row)
            and largest(row) >= SIZES[self.size]
            and (self.dtype == ANY or any(info.dtype == self.dtype for info in row.present))
            and all(_found(word, row) for word in self.search.lower().split())
        )


def largest(row: Row) -> int:
    """Bytes on the worker that has most of it."""
    return max((info.nbytes for info in row.present), default=0)


def dtypes(rows: Iterable[Row]) -> list[str]:
    """The element types that occur, sorted."""
    return sorted({info.dtype for row in rows for info in row.present if info.dtype})


def _found(word: str, row: Row) -> bool:
    name = row.name.lower()
    return word in name or fnmatchcase(name, word) or any(word in _text(info) for info in row.present)


def _text(info: RegisterInfo) -> str:
    shape = shape_text(info.shape) if info.shape else ""  # not "0-d": "0" would find it
    plain = shape.replace("\u00d7", "x")
    return f"{info.type} {info.dtype or ''} {shape} {plain}".lower()
