"""Formats figures as Markdown, for both the terminal and the README."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.row import quantity, spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.row import Row
    from benchmarks.side import Figures, Side

HEAD = ("what", "ours", "peer", "peer / ours", "floor", "target", "met?")
VERDICT = {True: "yes", False: "**no**", None: ""}


def table(rows: Sequence[Row], sides: Sequence[Side], figures: Figures, *, judge: bool) -> str:
    """Return the rows as an aligned Markdown table; without `judge` the last two columns are empty."""
    titles = {side.tag: side.title for side in sides}
    lines = [HEAD, *(cells(row, titles, figures, judge=judge) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = [
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) + " |"
        for line in lines
    ]
    rule = "|" + "|".join("-" * (w + 2) for w in widths) + "|"
    return "\n".join([texts[0], rule, *texts[1:]])


def cells(row: Row, titles: dict[str, str], figures: Figures, *, judge: bool) -> tuple[str, ...]:
    """Return one row's texts."""
    peer = figure(row.peer_key, row.unit, figures)
    ratio = row.ratio(figures)
    return (
        row.what,
        figure(row.ours_key, row.unit, figures),
        f"{titles.get(row.peer_key.partition(':')[0], '')} {peer}".strip() if peer else "",
        "" if ratio is None else quantity(ratio, ""),
        figure(row.floor, row.unit, figures),
        ", ".join(bound.text(row.unit, titles) for bound in row.bounds) if judge else "",
        VERDICT[row.met(figures)] if judge else "",
    )


def figure(key: str, unit: str, figures: Figures) -> str:
    """Return median and quartiles; ``failed`` if there is a reason instead of a figure."""
    if key in figures.samples:
        return spread(figures.samples[key], unit)
    return "failed" if key in figures.problems else ""


def legend(rows: Sequence[Row]) -> str:
    """Say what is measured, with one entry for all rows that share the text."""
    named: dict[str, list[str]] = {}
    for row in rows:
        named.setdefault(row.measured, []).append(row.what)
    return "\n".join(f"* *{'; '.join(names)}*: {measured}" for measured, names in named.items())


def problems(figures: Figures) -> str:
    """Return what was skipped or failed, a line each."""
    return "\n".join(f"* {key}: {reason}" for key, reason in sorted(figures.problems.items()))
