"""What a divergence check found, as a table. Never talks to workers."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from disco_magic.core.report import MARK

if TYPE_CHECKING:
    from disco_magic.core.divergence import CheckRow
    from disco_magic.core.report import CheckReport

_COLUMNS: Final = ("register", "verdict", "workers", "value")
# Important: JupyterLab aligns the cells of every table to the right, by a selector more specific than these.
_STYLE: Final = """<style>
.disco-check{border-collapse:collapse;font-size:12px;color:var(--jp-ui-font-color1,inherit)}
.disco-check caption{text-align:left;padding:2px 0 6px;color:var(--jp-ui-font-color2,inherit)}
.disco-check th,.disco-check td{border:1px solid var(--jp-border-color2,rgba(128,128,128,.4));
padding:3px 8px;text-align:left!important;vertical-align:top;color:inherit;
background:var(--jp-layout-color1,transparent)}
.disco-check thead th{background:var(--jp-layout-color2,rgba(128,128,128,.12))}
.disco-check .mark{font-weight:bold;color:var(--jp-warn-color0,#b35900)}
.disco-check .dim{color:var(--jp-ui-font-color2,inherit)}
.disco-check code{background:transparent;color:inherit}
</style>"""


def report_bundle(report: CheckReport, **_: object) -> dict[str, str]:
    """MIME bundle of a report; what differs is marked, not by colour alone."""
    heads = "".join(f'<th scope="col">{name}</th>' for name in _COLUMNS)
    body = "".join(map(_row_html, report.rows))
    caption = escape(f"{report.title}: {report.summary}")
    table = (
        f'{_STYLE}<table class="disco-check"><caption>{caption}</caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
    )
    return {"text/plain": repr(report), "text/html": table}


def _row_html(row: CheckRow) -> str:
    lines = row.lines()
    mark = f' <span class="mark" title="differs between workers">{MARK}</span>' if row.differs else ""
    name = f'<th scope="row" rowspan="{len(lines)}"><code>{escape(row.name)}</code>{mark}</th>'
    return "".join(
        f"<tr>{'' if number else name}{_cells(line, differs=row.differs)}</tr>"
        for number, line in enumerate(lines)
    )


def _cells(line: tuple[str, str, str], *, differs: bool) -> str:
    verdict, *rest = map(escape, line)
    told = verdict if differs else f'<span class="dim">{verdict}</span>'
    return f"<td>{told}</td>" + "".join(f"<td>{cell}</td>" for cell in rest)
