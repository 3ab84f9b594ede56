"""The workers' last commands as a table. Never talks to workers."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from disco_magic.core.history import HEADER
from disco_magic.core.markup import FAILED, NUMBERS, TableLook, foot_lines, head_cells

if TYPE_CHECKING:
    from disco_magic.core.history import Entry, History

_LOOK: Final = TableLook(
    "disco-log",
    NUMBERS,
    FAILED,
    "{} tr.interrupted th,{} tr.diverged th{border-left:4px solid #d08a2c}",
    "{} tr.failed td.ended,{} tr.interrupted td.ended,{} tr.diverged td.ended{font-weight:bold}",
)


def history_bundle(history: History) -> dict[str, str]:
    """The MIME bundle of a history."""
    heads = head_cells(HEADER) if history.entries else ""
    body = "".join(map(_row_html, history.entries))
    html = _LOOK.html(escape(history.title), heads, body, foot_lines(len(HEADER), history.remark.split("\n")))
    return {"text/plain": repr(history), "text/html": html}


def _row_html(entry: Entry) -> str:
    workers, command, took, began, ended = map(escape, entry.row())
    return (
        f'<tr class="{entry.state}"><th scope="row">{workers}</th><td>{command}</td>'
        f'<td class="number">{took}</td><td class="number">{began}</td><td class="ended">{ended}</td></tr>'
    )
