"""`session.stats()` as a table with a bar of each worker's time. Never talks to workers."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from disco_magic.core.markup import TableLook, foot_lines, head_cells
from disco_magic.core.stats import HEADER
from disco_magic.core.words import human_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.core.stats import SessionStats, WorkerStats

# They also differ in texture, not in colour alone.
RUNNING: Final = "#2e8b57"
WAITING: Final = "repeating-linear-gradient(45deg,#d08a2c 0 3px,transparent 3px 6px)"
_PARTS: Final = (("running", RUNNING), ("waiting", WAITING), ("idle", "transparent"))
_BAR: Final = "display:inline-flex;width:14em;height:.9em;border:1px solid currentColor;vertical-align:middle"
_LOOK: Final = TableLook(
    "disco-stats",
    "{} th,{} td{text-align:right!important}",
    "{} td{white-space:nowrap}",
    "{} tfoot td{text-align:left!important}",
)


def stats_bundle(stats: SessionStats) -> dict[str, str]:
    """The MIME bundle of a session's statistics."""
    body = "".join(
        f'<tr><th scope="row">{row[0]}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in row[1:])}'
        f"<td>{_bar_of(group)}</td></tr>"
        for row, group in zip(stats.rows(), stats.groups(), strict=True)
    )
    legend = ", ".join(f"{swatch(paint)} {name}" for name, paint in _PARTS)
    caption = f"Disco session {stats.session_id}: {legend}"
    heads = (*HEADER, "time")
    html = _LOOK.html(caption, head_cells(heads), body, foot_lines(len(heads), map(str, stats.devices)))
    return {"text/plain": repr(stats), "text/html": html}


def swatch(paint: str) -> str:
    """A sample of a bar's fill, for a legend."""
    style = f"display:inline-block;width:1em;height:.8em;border:1px solid;background:{paint}"
    return f'<span style="{style}"></span>'


def _bar_of(group: Sequence[WorkerStats]) -> str:
    """The bar of the mean of workers that hardly differ."""
    times = ((each.running_s, each.waiting_s, each.idle_s) for each in group)
    spent = [sum(column) / len(group) for column in zip(*times, strict=True)]
    return bar([(*part, seconds) for part, seconds in zip(_PARTS, spent, strict=True)], sum(spent))


def bar(parts: Sequence[tuple[str, str, float]], whole_s: float) -> str:
    """A bar of parts (name, fill, seconds) side by side; `whole_s` seconds would be its full length."""
    said = ", ".join(f"{name} {human_seconds(seconds)}" for name, _, seconds in parts)
    segments = "".join(
        f'<span style="width:{100 * seconds / (whole_s or 1.0):.1f}%;background:{paint}"></span>'
        for _, paint, seconds in parts
    )
    return f'<span role="img" aria-label="{said}" title="{said}" style="{_BAR}">{segments}</span>'
