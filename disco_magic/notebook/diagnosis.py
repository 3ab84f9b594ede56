"""`session.doctor()` as a table; who keeps others waiting stands out. Never talks to workers."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from disco_magic.core.doctor import HEADER

if TYPE_CHECKING:
    from disco_magic.core.doctor import Diagnosis

_STYLE: Final = """<style>
.disco-doctor{border-collapse:collapse;font-size:12px;color:var(--jp-ui-font-color1,inherit)}
.disco-doctor caption{text-align:left;padding:2px 0 6px;color:inherit}
.disco-doctor th,.disco-doctor td{border:1px solid var(--jp-border-color2,rgba(128,128,128,.4));
padding:3px 8px;text-align:left!important;color:inherit;background:var(--jp-layout-color1,transparent)}
.disco-doctor thead th{background:var(--jp-layout-color2,rgba(128,128,128,.12))}
.disco-doctor td.number{text-align:right!important;white-space:nowrap}
.disco-doctor tr.blocking th{border-left:4px solid #d0452c}
.disco-doctor tr.waiting th{border-left:4px solid #d08a2c}
</style>"""
_NUMBER: Final = ' class="number"'


def diagnosis_bundle(diagnosis: Diagnosis, **_: object) -> dict[str, str]:
    """MIME bundle of who is where."""
    blocking = set(diagnosis.blocking())
    heads = "".join(f'<th scope="col">{name}</th>' for name in HEADER)
    body = []
    for group, row in zip(diagnosis.groups(), diagnosis.rows(), strict=True):
        kind = "blocking" if blocking & {each.worker for each in group} else group[0].state
        cells = "".join(
            f"<td{_NUMBER if column >= 2 else ''}>{escape(cell)}</td>" for column, cell in enumerate(row[1:])
        )
        body.append(f'<tr class="{kind}"><th scope="row">{row[0]}</th>{cells}</tr>')
    html = (
        f'{_STYLE}<table class="disco-doctor"><caption>Disco session {diagnosis.session_id}: '
        f"{escape(diagnosis.sentence)}</caption><thead><tr>{heads}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table>"
    )
    return {"text/plain": repr(diagnosis), "text/html": html}
