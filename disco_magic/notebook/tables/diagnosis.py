"""`session.doctor()` as a table; workers that keep others waiting stand out. Never talks to workers."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from disco_magic.core.doctor import WORDS
from disco_magic.core.markup import NUMBERS, TableLook, head_cells

if TYPE_CHECKING:
    from disco_magic.core.doctor import Diagnosis

_LOOK: Final = TableLook(
    "disco-doctor",
    "{} caption{color:inherit;width:max-content;max-width:min(60em,70vw)}",  # it is wider than a short table
    NUMBERS,
    "{} tr.blocking th{border-left:4px solid #d0452c}",
    "{} tr.waiting th{border-left:4px solid #d08a2c}",
)
_NUMBER: Final = ' class="number"'


def diagnosis_bundle(diagnosis: Diagnosis) -> dict[str, str]:
    """The MIME bundle of a diagnosis."""
    blocking = set(diagnosis.blocking())
    body = []
    for group, row in zip(diagnosis.groups(), diagnosis.rows(), strict=True):
        kind = "blocking" if blocking & {each.worker for each in group} else group[0].state
        cells = "".join(
            f"<td{_NUMBER if column >= WORDS else ''}>{escape(cell)}</td>"
            for column, cell in enumerate(row[1:], 1)
        )
        body.append(f'<tr class="{kind}"><th scope="row">{row[0]}</th>{cells}</tr>')
    said = [f"Disco session {diagnosis.session_id}: {diagnosis.sentence}", *diagnosis.unread()]
    caption = "<br>".join(map(escape, said))
    html = _LOOK.html(caption, head_cells(diagnosis.header), "".join(body))
    return {"text/plain": repr(diagnosis), "text/html": html}
