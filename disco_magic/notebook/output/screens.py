"""Shows the live area of a cell: in the notebook, at the bottom of a terminal, or nowhere."""

from __future__ import annotations

import os
import re
import shutil
import sys
import unicodedata
from bisect import bisect_right
from html import escape
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from disco_magic.core.markup import LINE_FONT, LINE_INDENT
from disco_magic.notebook.output.displays import displays_of
from disco_magic.notebook.output.footer import FOOTER, over_the_prompt
from disco_magic.notebook.output.livearea import Screen
from disco_magic.notebook.shell import is_watched
from disco_magic.phrases import ranges

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.notebook.output.footer import Footer
    from disco_magic.notebook.output.livearea import Row
    from disco_magic.notebook.output.outlet import Outlet

# Control codes of bars: colours and movements. They take effect when the bar has become a line.
_CONTROL: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x1f\x7f]")
_BOX: Final = (
    f"{LINE_FONT};white-space:pre;margin:0;{LINE_INDENT};color:var(--jp-content-font-color1,inherit)"
)
SPARE: Final = 6
"""Columns that stay free at the end of a row: the cursor may wrap in the last one, and a terminal shows ^C at
the cursor."""
# Characters of an unfinished line that are sent to a notebook at every update.
_LONGEST: Final = 500
_LINE: Final = "overflow:hidden;text-overflow:ellipsis"
_DIM: Final = f"{_LINE};color:var(--jp-ui-font-color2,inherit)"


def screen_for(outlet: Outlet, publisher: Any) -> Screen | None:
    """The screen for the live area of a cell whose lines go to `outlet`; None if it has none.

    There is none in a file, in captured text (``%%capture`` replaces stream, publisher or both), on a
    terminal that cannot move its cursor, and where the user wants plain text.
    """
    if outlet.notebook:
        if not hasattr(publisher, "set_parent"):
            return None
        watched = is_watched(getattr(publisher, "shell", None))
        return NotebookScreen(outlet, publisher) if watched else Screen()
    if outlet.terminal and outlet.rich and os.environ.get("TERM") != "dumb":
        return TerminalScreen(outlet, FOOTER)
    return None


class NotebookScreen(Screen):
    """A display of the cell, made when there is something to show and updated in place.

    A display stays where it was made, with later lines below it. So after it was emptied, a new one is made
    for the next rows, unless there is nothing below it (`displays`). The last state of each is empty: it
    takes no space, and a saved notebook, or one that a tool has executed, contains no text of it.
    """

    PLACES: Final = 8
    """Largest number of displays that are left empty."""

    def __init__(self, outlet: Outlet, publisher: Any) -> None:
        self._outlet = outlet
        self._publisher = publisher
        self._displays = displays_of(publisher)
        self._display_id = ""
        self._places = self.PLACES
        self._empty = True

    def show(self, rows: Sequence[Row]) -> None:
        """See `Screen`."""
        if self._empty and (not rows or self._is_held_back(rows)):
            return
        first = self._empty and self._begin()
        if not self._empty:
            self._displays.change()
        self._empty = not rows
        self._publisher.publish(
            {"text/plain": "\n".join(self._plain_lines(rows)), "text/html": self._html(rows)},
            metadata={},
            transient={"display_id": self._display_id},
            update=not first,
        )
        self._displays.sent()
        if not rows:
            self._displays.leave(self._display_id)

    def _is_held_back(self, rows: Sequence[Row]) -> bool:
        """Whether the rows, all of them ours, would carry out a clear that waits for the user's output."""
        return all(row.status for row in rows) and self._displays.is_about_to_clear(self._publisher)

    def _begin(self) -> bool:
        """Choose the display for the next rows; return whether it has to be made."""
        chosen = self._displays.begin(self._publisher, goes_on=0 < self._places < self.PLACES)
        if chosen or not self._places:
            self._display_id = chosen or self._display_id
            return False
        self._display_id = uuid4().hex
        self._displays.make(self._display_id)
        self._places -= 1
        return True

    def cleared(self) -> None:
        """Note that the display is gone, as all of the cell are: the next rows need a new one."""
        self._displays.clear(wait=False)  # a worker has done it, and so the hook was not called
        if not self._empty:
            self._empty = True
            self._places += 1

    def _plain_lines(self, rows: Sequence[Row]) -> list[str]:
        width = _label_width(self._outlet, rows)
        return [f"{ranges(row.workers):<{width}} {clean(row.text)[:_LONGEST]}" for row in rows]

    def _html(self, rows: Sequence[Row]) -> str:
        if not rows:
            return ""
        width = _label_width(self._outlet, rows)
        lines = []
        for row in rows:
            gap = " " * (width - len(ranges(row.workers)) + 1)
            lines.append(
                f'<div style="{_DIM if row.status else _LINE}">{self._outlet.label_html(row.workers)}{gap}'
                f"{escape(clean(row.text)[:_LONGEST])}</div>"
            )
        return f'<div class="disco-live" style="{_BOX}">{"".join(lines)}</div>'


class TerminalScreen(Screen):
    """The terminal's last lines, while the cell is waited for; see `footer`."""

    waited = True
    stopped_by = "Ctrl-C"

    def __init__(self, outlet: Outlet, footer: Footer) -> None:
        self._outlet = outlet
        self._footer = footer

    def show(self, rows: Sequence[Row]) -> None:
        """See `Screen`."""
        if over_the_prompt(sys.stdout):
            rows = ()
        columns, height = shutil.get_terminal_size()
        kept = rows[: max(1, height - 2)]
        width = _label_width(self._outlet, kept)
        lines = []
        for row in kept:
            gap = " " * (width - len(self._outlet.label(row.workers)))
            text = _cut(clean(row.text), columns - width - SPARE)
            lines.append(f"{self._outlet.prefix(row.workers)}{gap}{text}")
        self._footer.show(self._outlet.write_unrecorded, lines, columns)

    def covered(self) -> bool:
        """See `Screen`."""
        return self._footer.covered


def _label_width(outlet: Outlet, rows: Sequence[Row]) -> int:
    return max((len(outlet.label(row.workers)) for row in rows), default=0)


def clean(text: str) -> str:
    """`text` without codes that move the cursor or change the style of the following text."""
    return _CONTROL.sub(lambda found: "" if found[0][0] == "\x1b" else " ", text)


def _cut(text: str, columns: int) -> str:
    """`text` cut to `columns` of a terminal, with an ellipsis if it is longer."""
    ends = list(accumulate(map(_columns, text)))
    if not ends or ends[-1] <= columns:
        return text
    return text[: bisect_right(ends, columns - 1)] + "\u2026" if columns > 0 else ""


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
