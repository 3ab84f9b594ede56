"""A short list of registers: a row per value, with the workers that hold it. Never talks to workers."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final

from disco_magic.core.markup import (
    MARK,
    MARKED,
    MARKED_UNKNOWN,
    NUMBERS,
    UNKNOWN,
    TableLook,
    head_cells,
    row_head,
)
from disco_magic.core.register_text import caption, content, is_unseen, together
from disco_magic.core.register_values import held
from disco_magic.core.snapshot import RegisterInfo, Row, SessionSnapshot
from disco_magic.core.words import aligned, human_bytes, plural
from disco_magic.phrases import ranges

if TYPE_CHECKING:
    from collections.abc import Sequence

HEADER: Final = ("register", "workers", "type", "value", "size")
SHOWN: Final = 4
"""Most values of one register that are shown; the last row says how many more there are."""

_MARKS: Final = {MARK: MARKED, UNKNOWN: MARKED_UNKNOWN}
_LOOK: Final = TableLook("disco-whos", NUMBERS, "{} td.value{max-width:36em}")


@dataclass(frozen=True, slots=True)
class Holding:
    """The value that some workers hold under one name, equal as far as is known."""

    workers: tuple[int, ...]
    info: RegisterInfo

    @property
    def kind(self) -> str:
        """Type, shape and dtype; the device, if it is not the CPU."""
        away = self.info.device if self.info.device not in (None, "cpu") else None
        return f"{self.info.kind} \u00b7 {away}" if away else self.info.kind

    def cells(self) -> tuple[str, ...]:
        """Workers, type, value and size as text."""
        size = human_bytes(self.info.nbytes) if self.info.nbytes else ""
        return ranges(self.workers), self.kind, content(self.info), size


@dataclass(frozen=True, slots=True)
class Register:
    """One register on the selected workers.

    Attributes:
        name: its name.
        holders: the workers that have it.
        holdings: their values, equal ones once, in the order of their first workers.
        differs: whether any worker is known to hold another value, or none.
        is_unseen: whether that is not known, because values were compared by type only.
    """

    name: str
    holders: tuple[int, ...]
    holdings: tuple[Holding, ...]
    differs: bool
    is_unseen: bool

    @property
    def mark(self) -> str:
        """What is written after its name: ``≠``, ``?`` or nothing."""
        return MARK if self.differs else UNKNOWN if self.is_unseen else ""

    def rows(self) -> list[tuple[str, ...]]:
        """Workers, type, value and size as text, a row per value that is shown."""
        if len(self.holdings) <= SHOWN:
            return [each.cells() for each in self.holdings]
        shown, rest = self.holdings[: SHOWN - 1], self.holdings[SHOWN - 1 :]
        workers = tuple(sorted(worker for each in rest for worker in each.workers))
        kinds = {each.kind for each in rest}
        kind = kinds.pop() if len(kinds) == 1 else plural(len(kinds), "type")
        return [each.cells() for each in shown] + [(ranges(workers), kind, f"{len(rest)} other values", "")]


@dataclass(frozen=True, slots=True, repr=False)
class Listing:
    """The registers of some workers by name; shows itself as a table, what ``%disco whos`` prints."""

    title: str
    workers: tuple[int, ...]
    registers: tuple[Register, ...]

    def __repr__(self) -> str:
        table: list[tuple[str, ...]] = [HEADER]
        for register in self.registers:
            name = f"{register.name}{register.mark}"
            table += [(name if not place else "", *row) for place, row in enumerate(register.rows())]
        return "\n".join([self.title, *(aligned(table, words=4) if self.registers else ())])

    def _repr_mimebundle_(self, *_: object, **__: object) -> dict[str, str]:
        heads = head_cells(HEADER) if self.registers else ""
        html = _LOOK.html(escape(self.title), heads, "".join(map(_register_html, self.registers)))
        return {"text/plain": repr(self), "text/html": html}


def listing_of(snapshot: SessionSnapshot, workers: Sequence[int], types: Sequence[str] = ()) -> Listing:
    """List the registers of some workers, by name."""
    rows = [row.of(workers) for row in snapshot.rows]
    held = [row for row in rows if any(_is_of(cell, types) for cell in row.cells)]
    held.sort(key=lambda row: row.name)
    title = caption(SessionSnapshot(snapshot.session_id, len(workers), tuple(held)))
    if types and not held:
        title = f"Disco session {snapshot.session_id}: no register is of type {' or '.join(types)}"
    return Listing(title, tuple(workers), tuple(_register(row, workers) for row in held))


def _is_of(cell: RegisterInfo | None, types: Sequence[str]) -> bool:
    return cell is not None and (not types or cell.type in types or cell.dtype in types)


def _register(row: Row, workers: Sequence[int]) -> Register:
    holdings = [
        Holding(tuple(workers[place] for place in each.workers), together(row.of(each.workers)) or each.info)
        for each in held(row, [False] * len(row.cells))
        if each.info is not None
    ]
    holders = tuple(worker for worker, cell in zip(workers, row.cells, strict=True) if cell is not None)
    return Register(row.name, holders, tuple(holdings), row.differs, len(workers) > 1 and is_unseen(row))


def _register_html(register: Register) -> str:
    rows = register.rows()
    head = row_head(register.name, len(rows), _MARKS.get(register.mark, ""))
    return "".join(
        f"<tr>{head if not place else ''}<td>{row[0]}</td><td>{escape(row[1])}</td>"
        f'<td class="value">{escape(row[2])}</td><td class="number">{row[3]}</td></tr>'
        for place, row in enumerate(rows)
    )
