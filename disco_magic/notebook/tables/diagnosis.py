"""`session.doctor()` as a table; workers that keep others waiting stand out. Never talks to workers."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from disco_magic.core.doctor import WORDS
from disco_magic.core.markup import NUMBERS, head_cells, table_style

if TYPE_CHECKING:
    from disco_magic.core.doctor import Diagnosis

_STYLE: Final = table_style(
    "disco-doctor",
    "{} caption{color:inherit}",
    NUMBERS,
    "{} tr.blocking th{border-left:4px solid #d0452c}",
    "{} tr.waiting th{border-left:4px solid #d08a2c}",
)
_NUMBER: Final = ' class="number"'


def diagnosis_bundle(diagnosis: Diagnosis, **_: object) -> dict[str, str]:
    """The MIME bundle of a diagnosis."""
    blocking = set(diagnosis.blocking())
    heads = head_cells(diagnosis.header)
    body = []
    for group, row in zip(diagnosis.groups(), diagnosis.rows(), strict=True):
        kind = "blocking" if blocking & {each.worker for each in group} else group[0].state
        cells = "".join(
            f"<td{_NUMBER if column >= WORDS else ''}>{escape(cell)}</td>"
            for column, cell in enumerate(row[1:], 1)
        )
        body.append(f'<tr class="{kind}"><th scope="row">{row[0]}</th>{cells}</tr>')
    html = (
        f'{_STYLE}<table class="disco-doctor"><caption>Disco session {diagnosis.session_id}: '
        f"{escape(diagnosis.sentence)}</caption><thead><tr>{heads}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table>"
    )
    return {"text/plain": repr(diagnosis), "text/html": html}
