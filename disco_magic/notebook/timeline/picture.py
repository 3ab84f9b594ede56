"""A timeline as an SVG with a lane per worker, and a table below. Never talks to workers.

In each lane, commands are above and collectives below. Kinds of bars differ in texture, height and text, not
only in colour; the tooltip says what a bar was, where, and how long it took.
"""

from __future__ import annotations

import zlib
from html import escape
from typing import TYPE_CHECKING, Final

from disco_magic.core.markup import SMALLEST, cells, head_cells, in_room, table_style, upright
from disco_magic.core.named_blocks import more_names, named_rows
from disco_magic.core.spending import HEADER
from disco_magic.core.timeline import COMMANDS
from disco_magic.core.words import human_seconds
from disco_magic.notebook.pictures.kept import kept
from disco_magic.notebook.timeline.bars import LOOKS, lane_bars
from disco_magic.notebook.timeline.frame import LEFT, PAUSED, TOP, WIDTH, Frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.core.named_blocks import Named
    from disco_magic.core.timeline import Timeline
    from disco_magic.notebook.timeline.bars import Bar, Look

    _Pair = tuple[float, float]

MOST_BARS: Final = 600
MOST_OF_LANE: Final = 120
MOST_OF_ALL: Final = 2000
"""Bars in one picture of few workers; of each of many workers; and of all of these. Each bar has up to three
elements, with its tooltip and text."""
_LANE: Final = 42
_NAMED: Final = 16
"""Additional height of a lane for named blocks, between commands and collectives."""
_CHARACTER: Final = 6.2
_TEXT_FROM: Final = 36
_LEAST: Final = 3
_FIT: Final = 7  # columns of names that are read in a narrow window

_STYLE: Final = table_style(
    "disco-timeline",
    "{}{margin:4px 0}",
    "{} td,{} th{text-align:right!important}",
    "{} td{white-space:nowrap!important}",  # no line ends before a unit
    "{} caption{color:inherit}",
    upright(380),
    SMALLEST,
    upright(960).replace("{}", "{}.many"),
)

_LEGEND: Final = ("cell", "call", "copy", "collective", "waiting", "error")
_MERGED: Final = "several that stand close are one bar, as high as their share of the time"
_COLOURS: Final = ("#7d6fb0", "#b0627d", "#5b8f9c", "#9c8a3f", "#6a8f4f")
_NO_DIGITS: Final = dict.fromkeys(map(ord, "0123456789#"))
# Foreground of a 6 x 6 tile, over a background of the same colour.
_PATTERNS: Final = {
    "bars": '<path d="M1 0V6M4 0V6" stroke="{0}" stroke-opacity=".7"/>',
    "dots": '<circle cx="3" cy="3" r="1.4" fill="{0}"/>',
    "hatch": '<path d="M-1 1L1 -1M0 6L6 0M5 7L7 5" stroke="{0}" stroke-width="1.6"/>',
}


def timeline_bundle(timeline: Timeline) -> dict[str, str]:
    """The MIME bundle of a timeline."""
    return {"text/plain": repr(timeline), "text/html": kept(timeline_html(timeline, place="still"))}


def timeline_html(timeline: Timeline, *, place: str = "live") -> str:
    """HTML with the picture, its legend and its table.

    Args:
        timeline: what to show.
        place: part of the patterns' names. A browser uses the first pattern of a name on the page, and draws
            nothing if that one is hidden: so a hidden picture of the same timeline needs other names.
    """
    summary = timeline.summary()
    picture, name, notes = _svg(timeline, summary.sentence, place)
    kinds = [*_LEGEND, *(["span"] if has_names(timeline) else [])]
    looks = [f"{_swatch(kind, name)} {escape(LOOKS[kind].said)}" for kind in kinds]
    legend = " &#160; ".join([*looks, *notes])
    blocks = timeline.named()
    words = (more_names(blocks), summary.sentence, timeline.remark)
    said = "<br/>".join(escape(text) for text in words if text)
    took = human_seconds(timeline.end_s - timeline.start_s)
    return (
        f'{_STYLE}<div style="font-size:12px;color:var(--jp-ui-font-color1,inherit)">'
        f"<div>Disco session {timeline.session_id}: {took}, {timeline.num_workers} workers</div>"
        # A width of its own would make the surrounding element as wide as the picture, which is cut off.
        f'<div style="overflow-x:auto;width:0;min-width:100%">{picture}</div>'
        f'<div style="padding:2px 0 4px {LEFT}px;line-height:1.6">{legend}</div>'
        f"{said and f'<div><b>{said}</b></div>'}"
        f"{_table(HEADER, summary.rows())}{_blocks_table(blocks, timeline)}</div>"
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with one row per worker; `heads` are HTML."""
    body = "".join(f'<tr><th scope="row">{row[0]}</th>{cells(row[1:])}</tr>' for row in rows)
    head = f"<thead><tr>{head_cells(heads)}</tr></thead>"
    many = " many" if len(heads) > _FIT else ""
    return in_room(f'<table class="disco-timeline{many}">{head}<tbody>{body}</tbody></table>')


def _blocks_table(blocks: Sequence[Named], timeline: Timeline) -> str:
    """The table of named blocks, each name in the colour of its bars; empty without such blocks."""
    head, *rows = named_rows(blocks, timeline) or [()]
    coloured = [
        f'<span style="border-bottom:3px solid {colour_of(block.label)}">{escape(text)}</span>'
        for block, text in zip(blocks, head[1:], strict=False)
    ]
    return _table([*head[:1], *coloured], rows) if rows else ""


def _svg(timeline: Timeline, label: str, place: str) -> tuple[str, str, list[str]]:
    """The picture, the prefix of its patterns' names, and what its legend says of it besides, in HTML.

    Two pictures of a page differ in that prefix.
    """
    extra = _NAMED if has_names(timeline) else 0
    lane = _LANE + extra
    height = TOP + lane * len(timeline.workers) + 2
    frame = Frame.of(timeline, extra)
    parts = [frame.axis(height)]
    bars = _bars(timeline, frame)
    for row, worker in enumerate(timeline.workers):
        top = TOP + row * lane
        parts.append(frame.rail(timeline, worker, top))
        parts += [_drawn(bar, frame, top) for bar in bars[worker]]
    body = "".join(parts)
    name = f"disco-{place}-{zlib.crc32(body.encode(errors='surrogatepass')):08x}"
    patterns = "".join(_pattern(kind, name) for kind in ("call", "copy", "waiting"))
    aria = escape(f"timeline of {len(timeline.workers)} workers. {label}".strip())
    body = body.replace("url(#", f"url(#{name}-")
    room = f"display:block;width:100%;height:auto;min-width:{WIDTH * 4 // 5}px;max-width:{WIDTH}px"
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" role="img" '
        f'aria-label="{aria}" font-family="var(--jp-ui-font-family,sans-serif)" font-size="11" '
        f'viewBox="0 0 {WIDTH} {height}" style="{room}"><defs>{patterns}</defs>{body}</svg>'
    )
    merged = [bar.first.kind for each in bars.values() for bar in each if bar.count > 1]
    notes = [_MERGED] if {"collective", "waiting"}.intersection(merged) else []
    return svg, name, notes + ([PAUSED] if frame.scale.pauses else [])


def has_names(timeline: Timeline) -> bool:
    """Whether there are named blocks in its lanes."""
    return any(span.kind == "span" for worker in timeline.workers for span in timeline.lane(worker))


def _bars(timeline: Timeline, frame: Frame) -> dict[int, list[Bar]]:
    """Worker -> its bars; neighbours are merged up to the width at which there are few enough bars."""
    pixels = 0.5
    while True:
        narrow = pixels * frame.step_s
        bars = {worker: lane_bars(timeline.lane(worker), narrow) for worker in timeline.workers}
        most = max(MOST_BARS, 8 * len(bars), min(MOST_OF_ALL, MOST_OF_LANE * len(bars)))
        if sum(map(len, bars.values())) <= most or pixels > WIDTH:
            return bars
        pixels *= 2


def _drawn(bar: Bar, frame: Frame, top: int) -> str:
    kind, look = bar.first.kind, LOOKS[bar.first.kind]
    left, right = frame.x(bar.start_s), frame.x(bar.end_s)
    title = f"<title>{escape(bar.title)}</title>"
    if kind == "error":
        return (
            f'<path d="M{left:.1f} {top + 20}l-5 -14h10z" fill="{look.colour}" stroke="currentColor" '
            f'stroke-width=".6">{title}</path>'
        )
    above = kind in COMMANDS
    y, height = (top + 4.0, 17.0) if above else (top + 23.0 + frame.extra, 13.0)
    if kind == "span":
        y, height, look = top + 22.0, 14.0, look._replace(colour=colour_of(bar.first.label))
    elif not above and bar.count > 1:
        # Work is drawn from the top and waiting from the bottom, each as high as its share of the time.
        share = max(0.7, height * min(1.0, bar.sum_s / (bar.end_s - bar.start_s or 1.0)))
        y, height = (y if kind == "collective" else y + height - share), share
    width = max(right - left, 0.7)
    said = bar.first.label if bar.count == 1 else bar.said
    if len(bar.names) > 1:
        rect, said, (y, height) = _bands(bar, look, (left, width), (y, height), title)
    else:
        rect = _rect(look, (left, width), (y, height), title)
    room = int((width - 6) / _CHARACTER)
    # A name may be as short as F3.
    is_narrow = room < min(len(said), _LEAST) if kind == "span" else width < _TEXT_FROM
    if is_narrow or kind == "waiting" or height < (9 if kind == "span" else 12):
        return rect
    said = said if len(said) <= room else f"{said[: room - 1]}…"
    base = y + (height / 2 + 3 if kind == "span" else height - 4)
    return (
        f'{rect}<text x="{left + 4:.1f}" y="{round(base, 1):.6g}" fill="currentColor" pointer-events="none" '
        f'font-size="{11 if above else 9}">{escape(said)}</text> '
    )


def _rect(look: Look, across: _Pair, down: _Pair, title: str) -> str:
    (left, width), (y, height) = across, down
    return (
        f'<rect x="{left:.2f}" y="{round(y, 1):.6g}" width="{width:.2f}" height="{height:.3g}" '
        f'{_paint(look)} stroke="{look.colour}" stroke-width="{0.8 if width > 2 else 0}">{title}</rect>'
    )


def _bands(bar: Bar, look: Look, across: _Pair, down: _Pair, title: str) -> tuple[str, str, _Pair]:
    """Named blocks that take turns: a band per name, as high as its share; and the highest, with its name."""
    (y, height), drawn, most = down, "", ("", (0.0, 0.0))
    for name, took_s in bar.names.items():
        share = height * took_s / (sum(bar.names.values()) or 1.0)
        drawn += _rect(look._replace(colour=colour_of(name)), across, (y, share), title)
        most = max(most, (name, (y, share)), key=lambda each: each[1][1])
        y += share
    return drawn, *most


def colour_of(name: str) -> str:
    """One of a few colours for a name, without its digits: F1 and F2 have the same one."""
    kind = name.translate(_NO_DIGITS)
    return _COLOURS[zlib.crc32(kind.encode("utf-8", "surrogatepass")) % len(_COLOURS)]


def _paint(look: Look) -> str:
    if isinstance(look.fill, str):
        return f'fill="url(#{look.fill})"'
    return f'fill="{look.colour}" fill-opacity="{look.fill:g}"'


def _pattern(kind: str, name: str) -> str:
    look = LOOKS[kind]
    return (
        f'<pattern id="{name}-{look.fill}" width="6" height="6" patternUnits="userSpaceOnUse">'
        f'<rect width="6" height="6" fill="{look.colour}" fill-opacity=".15"/>'
        f"{_PATTERNS[str(look.fill)].format(look.colour)}</pattern>"
    )


def _swatch(kind: str, name: str) -> str:
    look = LOOKS[kind]
    if kind == "error":
        shape = f'<path d="M9 12l-5 -11h10z" fill="{look.colour}" stroke="currentColor" stroke-width=".6"/>'
    else:
        paint = _paint(look).replace("url(#", f"url(#{name}-")
        shape = f'<rect x=".5" y=".5" width="21" height="11" {paint} stroke="{look.colour}"/>'
    return f'<svg width="22" height="12" aria-hidden="true" style="vertical-align:-1px">{shape}</svg>'
