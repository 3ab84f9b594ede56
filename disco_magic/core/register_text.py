"""Registers as text: the repr of a snapshot, and the words that HTML tables share with it."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from disco_magic.core.brief_numbers import brief_numbers
from disco_magic.core.device import span
from disco_magic.core.markup import MARK
from disco_magic.core.register_values import FEW_WORKERS, held, values_of
from disco_magic.core.words import human_bytes, plural
from disco_magic.phrases import ranges, who_has

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disco_magic.core.register_parts import RegisterParts
    from disco_magic.core.register_values import Held
    from disco_magic.core.snapshot import RegisterInfo, Row, SessionSnapshot

NO_VALUE: Final = "no value"
"""A name that is not bound on a worker, or a reference whose command was not for this worker."""
DEFINITIONS: Final = frozenset(
    {
        "module",
        "function",
        "builtin_function_or_method",
        "method",
        "ufunc",
        "type",
        "CallersWorker",
    }
)
"""Types of what a cell imports and defines, as in `RegisterInfo.type`."""
# For longer names the rest of the line moves to the right.
_WIDTH: Final = 60
BY_TYPE: Final = " \u00b7 compared by type only"
COMING: Final = "not there yet"
"""A reference on a worker that still has commands to do."""


def snapshot_text(snapshot: SessionSnapshot) -> str:
    """The registers of a session: a line each if workers agree; if not, the odd ones are marked."""
    table = table_text(snapshot.listed, snapshot.num_workers)
    return "\n".join(filter(None, (caption(snapshot), table, f"total {totals(snapshot)}")))


def further(rows: Sequence[Row], most: int) -> str:
    """``and 100 more``, rows that are not shown, or ""."""
    left = len(rows) - most
    return f"and {left:,} more, in .rows of session.registers()" if left > 0 else ""


def parts_text(parts: RegisterParts) -> str:
    """A register and all its parts; those that differ come first."""
    listed = parts.listed
    table = table_text([parts.row, *listed], parts.num_workers, parts.gaps)
    return "\n".join(filter(None, (parts_caption(parts), table, left_out(parts, len(listed)))))


def left_out(parts: RegisterParts, shown: int) -> str:
    """``and 100 more``, parts not shown, or ""."""
    left = len(parts.rows) - shown
    return f"and {left:,} more, in its .rows" if left else ""


def parts_caption(parts: RegisterParts) -> str:
    """How many parts, how many of them differ, and how many have NaN or Inf."""
    if not parts.rows:
        said = [f"{parts.row.name} has no parts"]
        said += [f"differs between workers ({MARK})"] if parts.differing else []
        return ", ".join([*said, *(["has NaN or Inf"] if parts.bad else [])])
    count = plural(len(parts.rows), "part")
    said = [f"{parts.row.name}: {count if parts.is_all else f'the first {count}'}"]
    if parts.differing:
        said.append(f"{parts.differing} differ{'s' * (parts.differing == 1)} between workers ({MARK})")
    if parts.bad:
        said.append(f"{parts.bad} ha{'s' if parts.bad == 1 else 've'} NaN or Inf")
    if any(cell.sampled for row in parts.rows for cell in row.present):
        said.append("seen in samples of their elements")
    unknown = sum(not row.compared and not row.differs for row in parts.rows)
    if unknown and parts.num_workers > 1:
        said.append(f"{unknown} compared by type only")
    return ", ".join(said)


def totals(snapshot: SessionSnapshot) -> str:
    """How much memory the registers of each worker take: ``[0] 364 KiB, [1-3] 183 KiB each``."""
    return _each_total(snapshot.nbytes)


def sums_of(nbytes: Sequence[int], columns: Sequence[int] | None) -> list[str]:
    """The bytes of each worker as text, one for each of these columns; see `register_values.columns_of`."""
    return [_each_total(nbytes)] if columns is None else [human_bytes(nbytes[worker]) for worker in columns]


def _each_total(nbytes: Sequence[int]) -> str:
    alike = who_has(enumerate(map(human_bytes, nbytes)))
    return ", ".join(
        f"{ranges(workers)} {total}{' each' if len(workers) > 1 else ''}" for total, workers in alike.items()
    )


def table_text(rows: list[Row], num_workers: int, gaps: Mapping[str, str] = MappingProxyType({})) -> str:
    """A line per register if all workers agree, else a line per value; the odd ones, or all, are marked.

    Of numbers it has as many digits as HTML tables. `gaps` has the text to put below a register, by name.
    """
    width = min(_WIDTH, max((len(row.name) for row in rows), default=0))
    everybody, lines = ranges(range(num_workers)), []
    for row in map(_with_few_digits, rows):
        if row.alike:
            by = BY_TYPE if num_workers > 1 and is_unseen(row) else ""
            lines.append(f"  {row.name:<{width}}  {everybody} {line_of(together(row), absent(row, 0))}{by}")
        else:
            lines += _lines_apart(row, width)
            lines += [f"  {'':<{width}}  {gaps[row.name]}"] if row.name in gaps else []
    return "\n".join(lines)


def _with_few_digits(row: Row) -> Row:
    """`row`, with the numbers in it as `brief_numbers` writes them."""
    if not (brief := brief_numbers(row)):
        return row
    cells = (info and replace(info, text=brief.get(info.text, info.text)) for info in row.cells)
    return replace(row, cells=tuple(cells))


def _lines_apart(row: Row, width: int) -> list[str]:
    """A line per value; what differs but looks the same has lines of its own."""
    if len(row.cells) > FEW_WORKERS:
        values = values_of(row)
        lines = [(each.is_odd, each.workers, _said(row, each)) for each in values.shown]
        lines += [(values.is_odd, values.rest, values.said)] if values.rest else []
        if row.differs and not any(odd for odd, *_ in lines):  # as shards do, see below
            lines = [(True, workers, said) for _, workers, said in lines]
    else:
        marks = row.odd_if_differing()
        if row.differs and not any(marks):  # all values differ from each other, as shards do
            marks = tuple(cell is not None and bool(cell.fingerprint) for cell in row.cells)
        lines = [(each.is_odd, each.workers, _said(row, each)) for each in held(row, marks)]
    return [
        f"{MARK if odd else ' '} {row.name if not place else '':<{width}}  {ranges(workers)} {said}"
        for place, (odd, workers, said) in enumerate(lines)
    ]


def _said(row: Row, each: Held) -> str:
    return line_of(together(row.of(each.workers)), absent(row, each.workers[0]))


def is_unseen(row: Row) -> bool:
    """Whether it is a value, not a definition, that was not compared."""
    return not row.compared and any(cell.type not in DEFINITIONS for cell in row.present)


def together(row: Row) -> RegisterInfo | None:
    """The cell that represents all workers, with all their devices: ``cuda:[0-3]``."""
    first = row.cells[0]
    names = list(dict.fromkeys(cell.device or "" for cell in row.present))
    if first is None or len(names) == 1:
        return first
    numbers = [name.rpartition(":")[2] for name in names]
    if not all(map(str.isdigit, numbers)):
        return replace(first, device=", ".join(names))
    return replace(first, device=span(names[0].partition(":")[0], map(int, numbers)))


def agreement(row: Row) -> str:
    """How far all workers agree: ``the same on all``; "" if they are shown one by one."""
    first = row.cells[0]
    if not row.alike or len(row.cells) < 2 or first is None:
        return ""
    if not row.compared:
        return "of this type on all"
    # The text of a container says `(sample)` already.
    return "no difference in the sample" if first.sampled and first.dtype is not None else "the same on all"


def absent(row: Row, worker: int) -> str:
    """The words for a worker without a value."""
    return COMING if worker in row.coming else NO_VALUE


def line_of(info: RegisterInfo | None, missing: str = NO_VALUE) -> str:
    """One worker's value in a line; `missing` if there is none."""
    if info is None:
        return missing
    return " \u00b7 ".join(part for part in (info.kind, where(info), content(info)) if part)


def caption(snapshot: SessionSnapshot) -> str:
    """How many registers, and how many of them differ."""
    count = len(snapshot.rows)
    differing = snapshot.differing
    text = f"Disco session {snapshot.session_id}: {plural(count, 'register')}"
    if differing:
        text += f", {differing} differ{'s' if differing == 1 else ''} between workers ({MARK})"
    # Objects: looking into them would run the user's code.
    unknown = sum(is_unseen(row) and not row.differs for row in snapshot.rows)
    return text + (f", {unknown} compared by type only" if unknown and snapshot.num_workers > 1 else "")


def where(info: RegisterInfo) -> str:
    """Device and size, as far as there is anything to say."""
    parts = [info.device or "", human_bytes(info.nbytes) if info.nbytes else ""]
    return " \u00b7 ".join(part for part in parts if part)


def content(info: RegisterInfo) -> str:
    """Statistics of an array (from a sample if it is large), else the value or a description of it."""
    if info.text and info.shape in ((), (1,)):
        return info.text
    odd = [f"{count:,} {name}" for count, name in ((info.nans, "NaN"), (info.infs, "Inf")) if count]
    told = f"{info.text} (sample)" if info.sampled and info.dtype is None and info.text else info.text
    if info.minimum is not None and info.mean is not None and info.maximum is not None:
        about = " (sample)" if info.sampled else ""
        told = f"{info.measure}min {info.minimum:.4g} mean {info.mean:.4g} max {info.maximum:.4g}{about}"
    return " \u00b7 ".join(part for part in (told, *odd) if part)
