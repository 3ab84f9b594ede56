"""Registers as HTML tables, in light and dark themes. Waits a moment for workers at most."""

from __future__ import annotations

from dataclasses import replace
from html import escape
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from disco_magic.core.markup import MARK, MARKED, TableLook, head_cells
from disco_magic.core.register_parts import MOST_PARTS
from disco_magic.core.register_text import (
    NO_VALUE,
    absent,
    agreement,
    caption,
    content,
    first_of,
    further,
    left_out,
    parts_caption,
    snapshot_text,
    sums_of,
    table_text,
    together,
    totals,
    where,
)
from disco_magic.core.register_values import columns_of, heads_of, values_of, width_of
from disco_magic.errors import SessionClosed, UsageMistake
from disco_magic.phrases import ranges

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disco_magic.core.register_parts import RegisterParts
    from disco_magic.core.snapshot import RegisterInfo, Row, SessionSnapshot
    from disco_magic.session.dref import DRef


_CELLS: Final = 4_800
_LEAST: Final = 20
"""A still table has so many values at most, on all workers together, but so many registers at least."""
_LOOK: Final = TableLook(
    "disco-registers",
    "{} caption{width:max-content;max-width:min(60em,70vw)}",  # it may be wider than the table
    "{} tfoot td,{} tfoot th{background:var(--jp-layout-color2,rgba(128,128,128,.12))}",
    "{} .odd{border:2px dashed var(--jp-warn-color0,#b35900)}",
)


def snapshot_bundle(snapshot: SessionSnapshot) -> dict[str, str]:
    """MIME bundle of the registers of a session, of so many that a notebook's file stays small."""
    return {
        "text/plain": snapshot_text(snapshot, _most(snapshot.num_workers)),
        "text/html": snapshot_html(snapshot),
    }


def listing_bundle(snapshot: SessionSnapshot, rows: Sequence[Row], held: Mapping[str, str]) -> dict[str, str]:
    """The MIME bundle of the registers that are chosen from a session's, as an inspector lists them."""
    most, left_out = _most(snapshot.num_workers), len(snapshot.listed) - len(rows)
    first = rows if len(rows) <= most else sorted(rows, key=lambda row: not row.differs)[:most]
    title = f"{caption(snapshot)}, {len(rows):,} shown" if left_out else caption(snapshot)
    rest = further(rows, most)
    named = {name: f"{name} ({keeper})" for name, keeper in held.items()}
    said = [replace(row, name=named.get(row.name, row.name)) for row in first]
    table = table_text(said, snapshot.num_workers)
    text = "\n".join(filter(None, (title, table, rest, f"total {totals(snapshot)}")))
    return {"text/plain": text, "text/html": _listed_html(title, snapshot, list(first), rest, held)}


def _most(num_workers: int) -> int:
    """How many registers of so many workers a still table shows."""
    return min(MOST_PARTS, max(_LEAST, _CELLS // max(1, num_workers)))


def parts_bundle(parts: RegisterParts) -> dict[str, str]:
    """The MIME bundle of one register with its parts, which `Session.look_into` returns."""
    title, left = escape(parts_caption(parts)), left_out(parts, len(parts.shown))
    foot = f"<tfoot>{_across(left, parts.num_workers)}</tfoot>" if left else ""
    return {
        "text/plain": repr(parts),
        "text/html": _table_html(title, [parts.row, *parts.shown], foot, gaps=parts.gaps),
    }


def row_bundle(row: Row) -> dict[str, str]:
    """The MIME bundle of one register, which `DRef.info` returns."""
    return {"text/plain": repr(row), "text/html": _table_html("", [row], "")}


def dref_bundle(dref: DRef) -> dict[str, str]:
    """The MIME bundle of a reference, with what is known of its register without asking a worker."""
    text = repr(dref)
    html = f"<code>{escape(text)}</code>"
    try:
        row = dref.info()
    except (SessionClosed, UsageMistake):  # its session has ended or was restarted
        return {"text/plain": text, "text/html": html}
    return {"text/plain": f"{text}\n{row!r}", "text/html": f"{html}{_table_html('', [row], '')}"}


def snapshot_html(snapshot: SessionSnapshot) -> str:
    """The table of all registers; differing cells are marked not only by colour."""
    most = _most(snapshot.num_workers)
    first, left = first_of(snapshot, most), further(snapshot.listed, most)
    return _listed_html(caption(snapshot), snapshot, first, left)


def _listed_html(
    title: str,
    snapshot: SessionSnapshot,
    rows: list[Row],
    left: str,
    held: Mapping[str, str] = MappingProxyType({}),
) -> str:
    columns = columns_of(snapshot.num_workers)
    sums = "".join(f"<td>{total}</td>" for total in sums_of(snapshot.nbytes, columns))
    rest = _across(left, snapshot.num_workers) if left else ""
    foot = f'<tfoot>{rest}<tr><th scope="row">total</th>{sums}</tr></tfoot>'
    return _table_html(escape(title), rows, foot, snapshot.num_workers, held=held)


def _table_html(
    title: str,
    rows: list[Row],
    foot: str,
    num_workers: int | None = None,
    *,
    gaps: Mapping[str, str] = MappingProxyType({}),
    held: Mapping[str, str] = MappingProxyType({}),
) -> str:
    count = num_workers if num_workers is not None else len(rows[0].cells)
    heads = head_cells(["register", *heads_of(columns_of(count))])
    body = "".join(
        _row_html(row, held.get(row.name, "")) + _gap_html(gaps.get(row.name, ""), count) for row in rows
    )
    return _LOOK.html(title, heads, body, foot)


def _gap_html(gap: str, num_workers: int) -> str:
    return f'<tr><td></td><td colspan="{_count(num_workers)}">{escape(gap)}</td></tr>' if gap else ""


def _across(text: str, num_workers: int) -> str:
    return f'<tr><td colspan="{1 + _count(num_workers)}">{text}</td></tr>'


def _count(num_workers: int) -> int:
    """How many columns there are besides that of the names."""
    return width_of(columns_of(num_workers))


def _row_html(row: Row, held: str) -> str:
    name = f"<code>{escape(row.name)}</code>"
    keeper = f'<br><span class="dim">{escape(held)}</span>' if held else ""
    if about := agreement(row):
        told = " \u00b7 ".join([*_parts(together(row)), f'<span class="dim">{about}</span>'])
        count = _count(len(row.cells))
        return f'<tr><th scope="row">{name}{keeper}</th><td colspan="{count}">{told}</td></tr>'
    mark = MARKED if row.differs else ""
    if columns_of(len(row.cells)) is None:
        return f'<tr><th scope="row">{name}{mark}{keeper}</th><td>{_by_value(row)}</td></tr>'
    odd = row.odd_if_differing()
    cells = "".join(
        _cell_html(info, absent(row, worker), odd=strange)
        for worker, (info, strange) in enumerate(zip(row.cells, odd, strict=True))
    )
    return f'<tr><th scope="row">{name}{mark}{keeper}</th>{cells}</tr>'


def _by_value(row: Row) -> str:
    """A line per value: ``[0-4,6-63] float64 3 · 24 B · min 0 mean 0 max 0``."""
    values, lines = values_of(row), []
    for each in values.shown:
        said = " \u00b7 ".join(_parts(together(row.of(each.workers)), absent(row, each.workers[0])))
        opening = f'<div class="odd"><span class="mark">{MARK}</span> ' if each.is_odd else "<div>"
        lines.append(f"{opening}{ranges(each.workers)} {said}</div>")
    if values.rest:
        mark = f'<span class="mark">{MARK}</span> ' if values.is_odd else ""
        lines.append(f'<div class="dim">{mark}{ranges(values.rest)} {values.said}</div>')
    return "".join(lines)


def _cell_html(info: RegisterInfo | None, missing: str, *, odd: bool) -> str:
    opening = '<td class="odd" title="differs from the other workers">' if odd else "<td>"
    mark = f'<span class="mark">{MARK}</span> ' if odd else ""
    return f"{opening}{mark}{'<br>'.join(_parts(info, missing))}</td>"


def _parts(info: RegisterInfo | None, missing: str = NO_VALUE) -> list[str]:
    if info is None:
        return [f'<span class="dim">{missing}</span>']
    place = escape(where(info))
    dim = f'<span class="dim">{place}</span>' if place else ""
    parts = [escape(info.kind), dim, escape(content(info))]
    return [part for part in parts if part]
