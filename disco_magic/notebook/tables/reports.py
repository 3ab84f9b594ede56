"""What a session says of its workers, as tables: times spent, positions, last commands, checks.

Each function returns HTML for plain data, and never talks to workers.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from disco_magic.core import history as last_commands
from disco_magic.core.doctor import WORDS
from disco_magic.core.markup import (
    FAILED,
    MARKED,
    NUMBERS,
    SMALLEST,
    TableLook,
    cells,
    foot_lines,
    head_cells,
    narrow,
    row_head,
    upright,
)
from disco_magic.core.stats import HEADER
from disco_magic.core.words import human_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.core.check_row import CheckRow
    from disco_magic.core.doctor import Diagnosis
    from disco_magic.core.history import Entry, History
    from disco_magic.core.report import CheckReport
    from disco_magic.core.stats import SessionStats, WorkerStats

# --- `session.stats()`, with a bar of each worker's time -------------------------------------------

# They also differ in texture, not in colour alone.
RUNNING: Final = "#2e8b57"
WAITING: Final = "repeating-linear-gradient(45deg,#d08a2c 0 3px,transparent 3px 6px)"
_PARTS: Final = (("running", RUNNING), ("waiting", WAITING), ("idle", "transparent"))
_BAR: Final = "display:inline-flex;height:.9em;border:1px solid currentColor;vertical-align:middle"
# Pixels of the columns beside the bars.
_BESIDE: Final = 620
_STATS: Final = TableLook(
    "disco-stats",
    "{} th,{} td{text-align:right!important}",
    "{} td{white-space:nowrap!important}",  # no line ends before a unit
    "{} tfoot td{text-align:left!important}",
    narrow(860, "{} th,{} td{padding:3px 4px}"),
    upright(670),
    SMALLEST,
    "{} thead th:nth-child(2){writing-mode:horizontal-tb!important}",  # its bars are wider than the word
)


def stats_html(stats: SessionStats) -> str:
    """A session's statistics."""
    body = "".join(
        f'<tr><th scope="row">{row[0]}</th><td>{_bar_of(group)}</td>{cells(row[1:])}</tr>'
        for row, group in zip(stats.rows(), stats.groups(), strict=True)
    )
    legend = ", ".join(f"{swatch(paint)} {name}" for name, paint in _PARTS)
    caption = f"Disco session {stats.session_id}: {legend}"
    heads = (HEADER[0], "time", *HEADER[1:])  # first what is drawn: not all columns fit into a narrow window
    return _STATS.html(caption, head_cells(heads), body, foot_lines(len(heads), map(str, stats.devices)))


def swatch(paint: str) -> str:
    """A sample of a bar's fill, for a legend."""
    style = f"display:inline-block;width:1em;height:.8em;border:1px solid;background:{paint}"
    return f'<span style="{style}"></span>'


def _bar_of(group: Sequence[WorkerStats]) -> str:
    """The bar of the mean of workers that hardly differ."""
    times = ((each.running_s, each.waiting_s, each.idle_s) for each in group)
    spent = [sum(column) / len(group) for column in zip(*times, strict=True)]
    return bar([(*part, seconds) for part, seconds in zip(_PARTS, spent, strict=True)], sum(spent), _BESIDE)


def bar(parts: Sequence[tuple[str, str, float]], whole_s: float, beside: int) -> str:
    """A bar of parts (name, fill, seconds) side by side; `whole_s` seconds would be its full length.

    It is as wide as there is room, if the table's other columns take `beside` pixels.
    """
    said = ", ".join(f"{name} {human_seconds(seconds)}" for name, _, seconds in parts)
    segments = "".join(
        f'<span style="width:{100 * seconds / (whole_s or 1.0):.1f}%;background:{paint}"></span>'
        for _, paint, seconds in parts
    )
    room = f"width:clamp(3em,100cqw - {beside}px,14em)"
    return f'<span role="img" aria-label="{said}" title="{said}" style="{_BAR};{room}">{segments}</span>'


# --- `session.doctor()`, in which workers that keep others waiting stand out -----------------------

_DOCTOR: Final = TableLook(
    "disco-doctor",
    "{} caption{color:inherit;width:max-content;max-width:min(60em,70vw)}",  # it is wider than a short table
    NUMBERS,
    "{} tr.blocking th{border-left:4px solid #d0452c}",
    "{} tr.waiting th{border-left:4px solid #d08a2c}",
)


def diagnosis_html(diagnosis: Diagnosis) -> str:
    """A diagnosis."""
    blocking = set(diagnosis.blocking())
    body = []
    for group, row in zip(diagnosis.groups(), diagnosis.rows(), strict=True):
        kind = "blocking" if blocking & {each.worker for each in group} else group[0].state
        told = cells(row[1:WORDS]) + cells(row[WORDS:], "number")
        body.append(f'<tr class="{kind}"><th scope="row">{row[0]}</th>{told}</tr>')
    said = [f"Disco session {diagnosis.session_id}: {diagnosis.sentence}", *diagnosis.unread()]
    return _DOCTOR.html("<br>".join(map(escape, said)), head_cells(diagnosis.header), "".join(body))


# --- the workers' last commands --------------------------------------------------------------------

_LOG: Final = TableLook(
    "disco-log",
    NUMBERS,
    FAILED,
    "{} tr.interrupted th,{} tr.diverged th{border-left:4px solid #d08a2c}",
    "{} tr.failed td.ended,{} tr.interrupted td.ended,{} tr.diverged td.ended{font-weight:bold}",
)


def history_html(history: History) -> str:
    """A history."""
    header = last_commands.HEADER
    heads = head_cells(header) if history.entries else ""
    body = "".join(map(_entry, history.entries))
    return _LOG.html(escape(history.title), heads, body, foot_lines(len(header), history.remark.split("\n")))


def _entry(entry: Entry) -> str:
    workers, command, *times, ended = entry.row()
    told = cells([command]) + cells(times, "number") + cells([ended], "ended")
    return f'<tr class="{entry.state}"><th scope="row">{escape(workers)}</th>{told}</tr>'


# --- a divergence check ----------------------------------------------------------------------------

_CHECK: Final = TableLook("disco-check", "{} td:last-child{overflow-wrap:anywhere}")


def report_html(report: CheckReport) -> str:
    """A report; differences are marked not only by colour."""
    body = "".join(map(_checked, report.shown))
    heads = head_cells(("register", "verdict", "workers", "value"))
    return _CHECK.html(escape(f"{report.title}: {report.summary}"), heads, body)


def _checked(row: CheckRow) -> str:
    lines = row.lines()
    name = row_head(row.name, len(lines), MARKED if row.differs else "")
    rows = ""
    for verdict, *rest in lines:
        told = escape(verdict) if row.differs else f'<span class="dim">{escape(verdict)}</span>'
        rows += f"<tr>{'' if rows else name}<td>{told}</td>{cells(rest)}</tr>"
    return rows
