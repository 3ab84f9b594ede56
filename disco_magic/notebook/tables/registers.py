"""Registers as tables: HTML for light and dark themes, text for terminals. Never talks to workers."""

from __future__ import annotations

from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Final

from disco_magic.core.device import span
from disco_magic.core.markup import MARK, MARKED, head_cells, table_style
from disco_magic.core.words import human_bytes, plural

if TYPE_CHECKING:
    from disco_magic.core.snapshot import RegisterInfo, Row, SessionSnapshot
    from disco_magic.session.dref import DRef

_STYLE: Final = table_style(
    "disco-registers",
    "{} tfoot td,{} tfoot th{background:var(--jp-layout-color2,rgba(128,128,128,.12))}",
    "{} .odd{border:2px dashed var(--jp-warn-color0,#b35900)}",
)

# A name that is not bound there, or a reference whose command has not been executed yet.
_ABSENT: Final = "no value"


def snapshot_bundle(snapshot: SessionSnapshot, **_: object) -> dict[str, str]:
    """MIME bundle of all registers of a session."""
    return {"text/plain": snapshot_text(snapshot), "text/html": snapshot_html(snapshot)}


def row_bundle(row: Row, **_: object) -> dict[str, str]:
    """MIME bundle of one register, what `DRef.info` returns."""
    return {"text/plain": _table_text([row], len(row.cells)), "text/html": _table_html("", [row], "")}


def dref_bundle(dref: DRef, **_: object) -> dict[str, str]:
    """MIME bundle of a reference: what the controller itself knows; `.info()` looks at the registers."""
    text = repr(dref)
    hint = (
        '<span style="opacity:.7">.info() for its type and shape per worker, .get(worker) for a copy</span>'
    )
    return {"text/plain": text, "text/html": f"<code>{escape(text)}</code> {hint}"}


# --- HTML ------------------------------------------------------------------------------------------


def snapshot_html(snapshot: SessionSnapshot) -> str:
    """The table of all registers; cells that differ from the others are marked, not by colour alone."""
    title = f"<caption>{escape(caption(snapshot))}</caption>"
    totals = "".join(f"<td>{human_bytes(total)}</td>" for total in snapshot.nbytes)
    foot = f'<tfoot><tr><th scope="row">total</th>{totals}</tr></tfoot>'
    return _table_html(title, list(snapshot.rows), foot, snapshot.num_workers)


def _table_html(title: str, rows: list[Row], foot: str, num_workers: int | None = None) -> str:
    count = num_workers if num_workers is not None else len(rows[0].cells)
    heads = head_cells(["register", *(f"worker {worker}" for worker in range(count))])
    body = "".join(map(_row_html, rows))
    return (
        f'{_STYLE}<table class="disco-registers">{title}<thead><tr>{heads}'
        f"</tr></thead><tbody>{body}</tbody>{foot}</table>"
    )


def _row_html(row: Row) -> str:
    mark = MARKED if row.differs else ""
    odd = row.odd() if row.differs else (False,) * len(row.cells)
    cells = "".join(_cell_html(info, odd=strange) for info, strange in zip(row.cells, odd, strict=True))
    return f'<tr><th scope="row"><code>{escape(row.name)}</code>{mark}</th>{cells}</tr>'


def _cell_html(info: RegisterInfo | None, *, odd: bool) -> str:
    opening = '<td class="odd" title="differs from the other workers">' if odd else "<td>"
    mark = f'<span class="mark">{MARK}</span> ' if odd else ""
    if info is None:
        return f'{opening}{mark}<span class="dim">{_ABSENT}</span></td>'
    where = escape(_where(info))
    dim = f'<span class="dim">{where}</span>' if where else ""
    lines = [escape(info.kind), dim, escape(content(info))]
    return f"{opening}{mark}{'<br>'.join(line for line in lines if line)}</td>"


# --- text ------------------------------------------------------------------------------------------


def snapshot_text(snapshot: SessionSnapshot) -> str:
    """The same table in text."""
    totals = ", ".join(f"[{worker}] {human_bytes(total)}" for worker, total in enumerate(snapshot.nbytes))
    table = _table_text(list(snapshot.rows), snapshot.num_workers)
    return "\n".join(part for part in (caption(snapshot), table, f"total {totals}") if part)


def _table_text(rows: list[Row], num_workers: int) -> str:
    """A line per register where all workers agree, else a line per worker, the odd ones marked."""
    width = max((len(row.name) for row in rows), default=0)
    lines = []
    for row in rows:
        if row.alike:
            everybody = "[0]" if num_workers == 1 else f"[0-{num_workers - 1}]"
            lines.append(f"  {row.name:<{width}}  {everybody} {line_of(together(row))}")
            continue
        marks = row.odd() if row.differs else (False,) * len(row.cells)
        for worker, (info, odd) in enumerate(zip(row.cells, marks, strict=True)):
            name = row.name if worker == 0 else ""
            lines.append(f"{MARK if odd else ' '} {name:<{width}}  [{worker}] {line_of(info)}")
    return "\n".join(lines)


def together(row: Row) -> RegisterInfo | None:
    """The cell that tells of all, with the devices of all: ``cuda:[0-3]``."""
    first = row.cells[0]
    names = sorted({cell.device or "" for cell in row.cells if cell is not None})
    if first is None or len(names) == 1:
        return first
    numbers = [name.rpartition(":")[2] for name in names]
    if not all(map(str.isdigit, numbers)):
        return replace(first, device=", ".join(names))
    return replace(first, device=span(names[0].partition(":")[0], map(int, numbers)))


def line_of(info: RegisterInfo | None) -> str:
    """One worker's value in a line."""
    if info is None:
        return _ABSENT
    return " \u00b7 ".join(part for part in (info.kind, _where(info), content(info)) if part)


# --- parts of both ---------------------------------------------------------------------------------


def caption(snapshot: SessionSnapshot) -> str:
    """How many registers, and how many of them differ."""
    count = len(snapshot.rows)
    differing = sum(row.differs for row in snapshot.rows)
    text = f"Disco session {snapshot.session_id}: {plural(count, 'register')}"
    if differing:
        text += f", {differing} differ{'s' if differing == 1 else ''} between workers ({MARK})"
    unknown = sum(not row.compared and not row.differs for row in snapshot.rows)
    # Lists, objects, functions: looking into them would run code of theirs.
    return text + (f", {unknown} compared by type only" if unknown and snapshot.num_workers > 1 else "")


def _where(info: RegisterInfo) -> str:
    parts = [info.device or "", human_bytes(info.nbytes) if info.nbytes else ""]
    return " \u00b7 ".join(part for part in parts if part)


def content(info: RegisterInfo) -> str:
    """Statistics of an array (on a sample where it is large), else the value or what it is."""
    if info.text and info.shape in ((), (1,)):
        return info.text
    odd = [f"{count:,} {name}" for count, name in ((info.nans, "NaN"), (info.infs, "Inf")) if count]
    told = info.text
    if info.minimum is not None and info.mean is not None and info.maximum is not None:
        about = " (sample)" if info.sampled else ""
        told = f"min {info.minimum:.4g} mean {info.mean:.4g} max {info.maximum:.4g}{about}"
    return " \u00b7 ".join(part for part in (told, *odd) if part)
