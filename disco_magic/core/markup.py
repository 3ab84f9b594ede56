"""The style of our HTML tables, in light and dark themes: common rules, and each table's own on top."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

MARK: Final = "\u2260"  # "not equal to": what differs between workers
UNKNOWN: Final = "?"  # what was compared by its type only
MARKED: Final = f'\u00a0<span class="mark" title="differs between workers">{MARK}</span>'
"""HTML that follows the name of something that differs; no line ends before it."""
TIED: Final = "\u00a0"
"""The blank after a mark: a mark has no line of its own."""

NUMBERS: Final = "{} td.number{text-align:right!important;white-space:nowrap}"
"""A rule for `TableLook`: cells of class ``number``."""
_ROOM: Final = "@container disco-room (max-width:"
FAILED: Final = "{} tr.failed th{border-left:4px solid #d0452c}"
"""A rule for `table_style`: rows of class ``failed``."""


LINE_FONT: Final = (
    "font-family:var(--jp-code-font-family,monospace);font-size:var(--jp-code-font-size,13px);"
    "line-height:var(--jp-code-line-height,1.3)"
)
"""CSS of a line that looks like those that are printed."""
LINE_INDENT: Final = "padding-left:calc(var(--jp-code-padding,-3px) + 3px)"
"""CSS of what begins where printed lines begin: front ends show them a little further right than HTML."""


def ink(colour: str, percent: int) -> str:
    """CSS for text in `percent` of `colour`, and for the rest in that of the text around it.

    So it is readable in light and in dark themes of all front ends. A fixed colour cannot have a contrast of
    4.5 (WCAG AA) both to white and to the background of JupyterLab's dark theme. Old browsers show `colour`.
    """
    return f"color:{colour};color:color-mix(in srgb,{colour} {percent}%,currentColor)"


LIGHT: Final = '[data-jp-theme-light="true"]'
"""What is inside of this is in a light theme of JupyterLab, where colours can be more vivid than `ink` is."""
MARK_RULES: Final = (
    # Bootstrap, in the classic notebook and in many web pages, marks elements of this class by a background.
    f"{{}} .mark{{font-weight:bold;background:none;padding:0;{ink('#ff8000', 50)}}}",
    f"{LIGHT} {{}} .mark{{color:#b34100}}",
)
"""Rules for `MARK`; readable in a selected row, too, which is gray."""


def in_room(table: str) -> str:
    """HTML of a table that has rules of `narrow`; it is scrolled where it does not fit at all."""
    return f'<div style="container:disco-room/inline-size;overflow-x:auto">{table}</div>'


def narrow(width: int, rule: str) -> str:
    """A rule for `TableLook` that holds where a table has at most `width` pixels, whatever the window has.

    What is beside a notebook takes room, and a widget may stand in a part of it.
    """
    return f"{_ROOM}{width}px){{{rule}}}"


SMALLEST: Final = narrow(420, "{} td{white-space:normal!important}")
"""A rule for `TableLook`: on a telephone's width, numbers take two lines rather than be scrolled to."""


def upright(width: int) -> str:
    """A rule for `TableLook`: up to `width` pixels, columns are as wide as their numbers, not the heads."""
    return narrow(width, "{} thead th:not(:first-child){writing-mode:vertical-rl}")


def head_cells(names: Iterable[str]) -> str:
    """The cells of a table's head; `names` must not contain text of the user's."""
    return "".join(f'<th scope="col">{name}</th>' for name in names)


def cells(texts: Iterable[str], kind: str = "") -> str:
    """Cells of a table's body, of class `kind` if there is one."""
    opening = f'<td class="{kind}">' if kind else "<td>"
    return "".join(f"{opening}{escape(text)}</td>" for text in texts)


def row_head(name: str, rows: int, mark: str) -> str:
    """The head cell of `rows` rows: a register's `name`, with its mark in HTML."""
    return f'<th scope="row" rowspan="{rows}"><code>{escape(name)}</code>{mark}</th>'


def foot_lines(columns: int, lines: Iterable[str]) -> str:
    """The foot of a table: lines of text across all `columns`; empty without any."""
    rows = "".join(
        f'<tr><td class="dim" colspan="{columns}">{escape(line)}</td></tr>' for line in lines if line
    )
    return f"<tfoot>{rows}</tfoot>" if rows else ""


def table_style(name: str, *rules: str) -> str:
    """The style element of tables of class `name`; `rules` come last, with ``{}`` in place of the class."""
    return "\n".join(
        [
            "<style>",
            *(rule.replace("{}", f".{name}") for rule in (*_COMMON, *rules)),
            "</style>",
        ]
    )


class TableLook:
    """The look of one kind of table."""

    def __init__(self, name: str, *rules: str) -> None:
        self._name = name
        self._style = table_style(name, *rules)
        self._adapts = any(rule.startswith(_ROOM) for rule in rules)

    def html(self, caption: str, head: str, body: str, foot: str = "") -> str:
        """A table with its style; the arguments are HTML. Without a head, the caption alone."""
        above = f"<caption>{caption}</caption>" if caption else ""
        table = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>{foot}" if head else ""
        whole = f'<table class="{self._name}">{above}{table}</table>'
        return f"{self._style}{in_room(whole) if self._adapts else whole}"


# `!important`, because a more specific selector of JupyterLab's aligns all table cells to the right.
_COMMON: Final = (
    "{}{border-collapse:collapse;font-size:12px;line-height:1.4;color:var(--jp-ui-font-color1,inherit)}",
    "{} caption{text-align:left;padding:2px 0 6px;color:var(--jp-ui-font-color2,inherit)}",
    (
        "{} th,{} td{border:1px solid var(--jp-border-color2,rgba(128,128,128,.4));padding:3px 8px;"
        "text-align:left!important;vertical-align:top;color:inherit;background:var(--jp-layout-color1,transparent)}"
    ),
    "{} thead th{background:var(--jp-layout-color2,rgba(128,128,128,.12))}",
    *MARK_RULES,
    "{} .dim{color:var(--jp-ui-font-color2,inherit)}",
    "{} code{background:transparent!important;color:inherit;padding:0!important}",
    "{} tbody th{max-width:28em;overflow-wrap:break-word}",  # leave room for the values beside a long name
    # What is scrolled sideways is not seen: in a narrow window, texts take more lines.
    "@media (max-width:600px){{} th,{} td{padding:2px 4px;white-space:normal!important}}",
    # Else a long name begins below its mark, where the line would have room for most of it.
    "@media (max-width:600px){{} tbody th code{word-break:break-all}}",
)
