"""The table of registers x workers, of an inspector and of stills; compact enough to be sent every second.

The cells have as few tags as possible: 200 registers on 8 workers make 1,600 cells.
"""

from __future__ import annotations

from html import escape
from operator import add
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from disco_magic.core.brief_numbers import brief_numbers
from disco_magic.core.markup import LIGHT, MARK, MARKED, TIED, head_cells, ink, table_style
from disco_magic.core.register_text import NO_VALUE, absent, agreement, left_out, parts_caption, sums_of
from disco_magic.core.register_values import heads_of, values_of, width_of
from disco_magic.core.words import human_bytes, plural
from disco_magic.notebook.pictures.charts import spark
from disco_magic.phrases import ranges

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disco_magic.core.register_parts import RegisterParts
    from disco_magic.core.snapshot import RegisterInfo, Row, SessionSnapshot

NAME: Final = "disco-registers"
PIN: Final = "\u2022"
DOT: Final = " \u00b7 "
_BINS: Final = 8
_STYLE: Final = table_style(
    NAME,
    # Separate borders, because collapsed ones scroll away from the fixed head.
    # Automatic layout, because nbconvert's fixed one makes all columns equally wide, and texts overlap.
    "{}{border-collapse:separate;border-spacing:0;width:100%;table-layout:auto!important}",
    "@media print{.disco-scroll{max-height:none!important}}",
    # Rows of whole pixels: else some names, which stay in place, cover the line above them.
    "{} th,{} td{border-width:0 1px 1px 0;white-space:nowrap;padding:2px 8px;line-height:16px}",
    "{} thead th{position:sticky;top:0;z-index:2;border-top-width:1px}",
    "{} tfoot td,{} tfoot th{position:sticky;bottom:0;z-index:2;background:var(--jp-layout-color2,#eee)}",
    (
        "{} tr>:first-child{position:sticky;left:0;z-index:1;border-left-width:1px;max-width:22em;"
        "overflow:hidden;text-overflow:ellipsis}"
    ),
    "{} thead tr>:first-child,{} tfoot tr>:first-child{z-index:3}",
    "{} tr.sel>*{background:var(--jp-layout-color2,rgba(128,128,128,.2))}",
    "{} tr.sel>:first-child{box-shadow:inset 4px 0 var(--jp-brand-color1,#1976d2)}",
    "{} .o{outline:2px dashed var(--jp-warn-color0,#b35900);outline-offset:-3px}",
    "{} div.o{outline-offset:-1px;width:fit-content;padding:0 3px;margin-left:-3px}",
    f"{{}} b{{{ink('#ff5050', 50)}}}",
    f"{LIGHT} {{}} b{{color:var(--jp-error-color0,#b71c1c)}}",
    "{} i{font-style:normal;color:var(--jp-ui-font-color2,inherit)}",
    "{} tr.sel i{color:inherit}",
    # All room that the first columns do not need is for the workers, of whom four fit into 1000 pixels.
    "{} thead th:nth-child(-n+3){width:1px}",
    "{} td:not([colspan]){max-width:14em;overflow:hidden;text-overflow:ellipsis}",
    "{} td:nth-child(2):not([colspan]){max-width:26em}",  # a tensor's type ends with its shape
    # What all workers have would widen the columns of all; counts of NaN are never cut.
    "{} td[colspan]{max-width:0;overflow-wrap:anywhere}",
    "{} td[colspan],{} td:has(b){white-space:normal}",
    "{} b,{} .k{white-space:nowrap}",
    # Where four workers have less room than that, texts take more lines: in a table that is scrolled sideways
    # one would not see how the last worker differs.
    ".disco-scroll{container-type:inline-size}",
    "@container (max-width:1100px){{} td{white-space:normal;padding:2px 5px}}",
    # The first column stays when the others are scrolled: with the whole width, it would hide them all.
    "@container (max-width:800px){{} tr>:first-child:not([colspan]){max-width:14em}}",
    "@container (max-width:600px){{} tr>:first-child:not([colspan]){max-width:32cqw}}",
    "@media (max-width:600px){{} tbody th code{word-break:normal}}",  # else the column is a letter wide
)
# Longer texts may be cut, and are also tooltips.
_FITS: Final = 20
# With a width of its own, the table would widen the surrounding element, and be cut off there.
_SCROLL: Final = "max-height:460px;overflow:auto;width:0;min-width:100%"
_TITLE: Final = "font:12px/1.4 var(--jp-ui-font-family,sans-serif);padding:2px 0 6px"


def table_html(
    rows: Sequence[Row],
    columns: Sequence[int] | None,
    totals: Sequence[int] | None = None,
    *,
    title: str = "",
    rest: str = "",
    selected: str = "",
    pinned: frozenset[str] = frozenset(),
    held: Mapping[str, str] = MappingProxyType({}),
    places: Sequence[str] = (),
) -> str:
    """The table as HTML.

    Args:
        rows: the registers.
        columns: the workers that have a column each; None: one column, with a line per value.
        totals: bytes per worker, of all registers, for a last row; None: no such row.
        title: a line above the table.
        rest: a line below the registers, about those that are left out.
        selected: name of the selected register.
        pinned: names of the rows that stay on top.
        held: name -> what keeps it, for numbered registers.
        places: coordinates of each worker in the session's mesh, in words.
    """
    body = "".join(
        _row(
            row,
            columns,
            is_selected=row.name == selected,
            is_pinned=row.name in pinned,
            held=held.get(row.name),
        )
        for row in rows
    )
    body += "" if rows else _across("no register to show", columns)
    foot = ""
    if totals is not None:
        cells = "".join(f"<td>{total}</td>" for total in sums_of(totals, columns))
        foot = f'<tfoot><tr><th scope="row">total</th><td></td><td></td>{cells}</tr></tfoot>'
    head = _heads("register", columns, places)
    return _framed("registers", title, head, body + _across(rest, columns), foot)


def parts_html(parts: RegisterParts, columns: Sequence[int] | None, places: Sequence[str] = ()) -> str:
    """The table of the parts of one register, at most 300; `columns` and `places` as in `table_html`."""
    name = parts.row.name
    body = "".join(
        _row(row, columns, shown=row.name.removeprefix(name) or name)
        + _gap(parts.gaps.get(row.name, ""), columns)
        for row in (parts.row, *parts.shown)
    )
    body += _across(left_out(parts, len(parts.shown)), columns)
    return _framed(f"parts of {name}", parts_caption(parts), _heads("part", columns, places), body, "")


def _heads(first: str, columns: Sequence[int] | None, places: Sequence[str]) -> str:
    """The table's head; `first` is the title of the first column, the others as in `table_html`."""
    heads = heads_of(columns)
    if columns is not None and places:
        heads = [f"{who}<br><i>{escape(places[at])}</i>" for at, who in zip(columns, heads, strict=True)]
    return head_cells([first, "type", "bytes", *heads])


def _gap(text: str, columns: Sequence[int] | None) -> str:
    return (
        f'<tr><td colspan="3"></td><td colspan="{width_of(columns)}">{escape(text)}</td></tr>' if text else ""
    )


def _across(text: str, columns: Sequence[int] | None) -> str:
    return f'<tr><th scope="row" colspan="{width_of(columns) + 3}">{escape(text)}</th></tr>' if text else ""


def _framed(label: str, title: str, head: str, body: str, foot: str) -> str:
    above = f'<div style="{_TITLE}">{escape(title)}</div>' if title else ""
    return (
        f'{_STYLE}{above}<div class="disco-scroll" style="{_SCROLL}" tabindex="0" role="region" '
        f'aria-label="{escape(label)}">'
        f'<table class="{NAME}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody>{foot}</table></div>'
    )


def _row(
    row: Row,
    columns: Sequence[int] | None,
    *,
    is_selected: bool = False,
    is_pinned: bool = False,
    held: str | None = None,
    shown: str = "",
) -> str:
    """A row; `shown` is displayed instead of the name, which becomes a tooltip."""
    # Before the name, because the end of a long name is cut off.
    signs = MARKED.lstrip() if row.differs else ""
    signs += f'<span title="pinned">{PIN}</span>' if is_pinned else ""
    title = f' title="{escape(row.name)}"' if shown else ""
    name = f"{signs}{TIED if signs else ''}<code{title}>{escape(shown or row.name)}</code>"
    name += f"<br><i>{escape(held)}</i>" if held else ""
    opening = '<tr class="sel" aria-current="true">' if is_selected else "<tr>"
    kinds = {info.kind for info in row.present}
    common = "" if len(kinds) > 1 else "".join(kinds)
    kind = _kind(common) if len(kinds) < 2 else "<i>differs</i>"
    sizes = [info.nbytes for info in row.present]
    return (
        f'{opening}<th scope="row">{name}</th><td>{kind}{_device(row)}</td>'
        f"<td>{_bytes(sizes)}</td>{_cells(row, columns, with_kind=not common)}</tr>"
    )


def _kind(kind: str) -> str:
    """Type and shape; ``0-d`` would be broken at its hyphen."""
    return escape(kind).replace("0-d", '<span class="k">0-d</span>')


def _device(row: Row) -> str:
    devices = {info.device for info in row.present if info.device not in (None, "cpu")}
    return f"<br><i>{escape(', '.join(sorted(map(str, devices))))}</i>" if devices else ""


def _bytes(sizes: Sequence[int]) -> str:
    if not any(sizes):
        return ""
    least, most = human_bytes(min(sizes)), human_bytes(max(sizes))
    # In a narrow window, no line ends before a unit.
    return " to ".join(f'<span class="k">{size}</span>' for size in dict.fromkeys((least, most)))


def _cells(row: Row, columns: Sequence[int] | None, *, with_kind: bool) -> str:
    brief = brief_numbers(row)
    if about := agreement(row):
        cell, title = _cell(row.cells[0], brief=brief), _whole(row.cells[0], brief)
        return f'<td colspan="{width_of(columns)}"{title}>{cell}{cell and DOT}<i>{about}</i></td>'
    if columns is None:
        return f'<td colspan="1">{_by_value(row, brief, with_kind=with_kind)}</td>'
    odd = row.odd_if_differing()
    cells = []
    for worker in columns:
        info = row.cells[worker]
        first = f"{_kind(info.kind)}<br>" if with_kind and info is not None else ""
        opening, mark = ('<td class="o"', f"{MARK}{TIED}") if odd[worker] else ("<td", "")
        said = _cell(info, absent(row, worker), brief)
        title = _tooltip(info, with_kind=with_kind) or _whole(info, brief)
        cells.append(f"{opening}{title}>{mark}{first}{said}</td>")
    return "".join(cells)


def _by_value(row: Row, brief: Mapping[str, str], *, with_kind: bool) -> str:
    """A line per value: ``[0-4,6-63] all 0``, ``≠ [5] all 1``."""
    values, lines = values_of(row), []
    for workers, info, odd in values.shown:
        kind = f"{_kind(info.kind)}{DOT}" if with_kind and info is not None else ""
        cell = _cell(info, absent(row, workers[0]), brief).replace("<br>", " ")
        said, title = f"<i>{ranges(workers)}</i> {kind}{cell}", _whole(info, brief)
        lines.append(f'<div class="o"{title}>{MARK} {said}</div>' if odd else f"<div{title}>{said}</div>")
    if values.rest:
        mark = f"{MARK} " if values.is_odd else ""
        lines.append(f"<div>{mark}<i>{ranges(values.rest)} {values.said}</i></div>")
    return "".join(lines)


def _tooltip(info: RegisterInfo | None, *, with_kind: bool) -> str:
    """A title with the texts of a cell, if any of them may be cut; few have one, to keep the table small."""
    if info is None:
        return ""
    texts = [info.kind] if with_kind else []
    texts += [info.text] if info.text else []
    if info.measure and info.mean is not None:  # beside a histogram, and then too long
        texts.append(f"{info.measure}{_short(info.mean)}")
    elif max(map(len, texts), default=0) <= _FITS:
        return ""
    said = escape("\n".join(texts))
    return f' title="{said}"'


def _whole(info: RegisterInfo | None, brief: Mapping[str, str]) -> str:
    """A title with all digits of a number of which fewer are shown."""
    return f' title="{escape(info.text)}"' if info is not None and info.text in brief else ""


def _cell(
    info: RegisterInfo | None, missing: str = NO_VALUE, brief: Mapping[str, str] = MappingProxyType({})
) -> str:
    if info is None:
        return f"<i>{missing}</i>"
    if info.minimum is None or info.mean is None or info.maximum is None:
        about = " (sample)" if info.sampled and info.dtype is None and info.text else ""
        return escape(brief.get(info.text, info.text)) + about + _bad(info)
    if info.shape in ((), (1,)) and info.text:
        return escape(brief.get(info.text, info.text))
    about = "\u2248" if info.sampled else ""
    if info.minimum == info.maximum:
        bad = _bad(info)
        value = f"{info.measure}{about}{_short(info.mean)}"
        return f"{value} except{bad}" if bad else f"all {value}"
    first = f"{spark(_coarse(info.histogram))} {info.measure}{about}{_short(info.mean)}{_bad(info)}"
    return f"{first}<br><i>{_short(info.minimum)} \u2026 {_short(info.maximum)}</i>"


def _bad(info: RegisterInfo) -> str:
    """The number of NaN and infinite elements, approximate if sampled; as text."""
    about = "\u2248" if info.sampled else ""
    said = [f"{about}{count:,} {what}" for count, what in ((info.nans, "NaN"), (info.infs, "Inf")) if count]
    return f" <b>{', '.join(said)}</b>" if said else ""


def _short(number: float) -> str:
    return f"{number:.3g}"


def _coarse(counts: Sequence[int]) -> Sequence[int]:
    """Reduce a histogram to eight bins, which fit into a cell."""
    while len(counts) > _BINS:
        counts = list(map(add, counts[::2], counts[1::2]))
    return counts


def status(snapshot: SessionSnapshot, shown: int) -> str:
    """The line above the table, of which `shown` rows of the snapshot are shown."""
    differing = snapshot.differing
    said = f"{plural(len(snapshot.rows), 'register')} on {ranges(range(snapshot.num_workers))}"
    said += f", {shown:,} shown" if shown != len(snapshot.listed) else ""
    return said + (f", {differing:,} differ{'s' * (differing == 1)} {MARK}" if differing else "")
