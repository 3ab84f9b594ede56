"""The result of a divergence check as a table. Never talks to workers."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from disco_magic.core.markup import MARKED, TableLook, head_cells, row_head

if TYPE_CHECKING:
    from disco_magic.core.check_row import CheckRow
    from disco_magic.core.report import CheckReport

_COLUMNS: Final = ("register", "verdict", "workers", "value")
_LOOK: Final = TableLook("disco-check")


def report_bundle(report: CheckReport) -> dict[str, str]:
    """The MIME bundle of a report; differences are marked not only by colour."""
    body = "".join(map(_row_html, report.shown))
    html = _LOOK.html(escape(f"{report.title}: {report.summary}"), head_cells(_COLUMNS), body)
    return {"text/plain": repr(report), "text/html": html}


def _row_html(row: CheckRow) -> str:
    lines = row.lines()
    name = row_head(row.name, len(lines), MARKED if row.differs else "")
    return "".join(
        f"<tr>{'' if number else name}{_cells(line, differs=row.differs)}</tr>"
        for number, line in enumerate(lines)
    )


def _cells(line: tuple[str, str, str], *, differs: bool) -> str:
    verdict, *rest = map(escape, line)
    told = verdict if differs else f'<span class="dim">{verdict}</span>'
    return f"<td>{told}</td>" + "".join(f"<td>{cell}</td>" for cell in rest)
