r"""Unfinished lines of one channel of a worker, interpreted as a terminal would.

Progress bars redraw a line (``\r``), and several bars move between lines (``\n``, and ``ESC [ A``: one up).
tqdm counts its bars per process, so the only bar of worker 2 may be in the third line::

    "\n\n"   "\r 10%|#  "   "\x1b[A\x1b[A"            and at the end            "\r100%|###"   "\n"

While there are such bars, a newline after one either ends it or leads to the next bar: the following text
shows which. Such lines, and blank ones, are held back until then.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

HELD_LIMIT: Final = 50
"""Most lines that are held back; a thousand blank lines are not a movement of the cursor."""

_PIECE: Final = re.compile("\r|\n|\x1b\\[[0-9]*[AK]|\x1b|[^\r\n\x1b]+")


class _Row:
    """One line of the screen: its text in pieces, which makes appending cheap, and whether it is a bar."""

    __slots__ = ("bar", "pieces")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.bar = False

    def put(self, text: str, *, bar: bool) -> None:
        self.pieces[:] = [text] if text else []
        self.bar = bar

    @property
    def text(self) -> str:
        if len(self.pieces) > 1:
            self.pieces[:] = ["".join(self.pieces)]
        return self.pieces[0] if self.pieces else ""


class Unfinished:
    """The lines of one channel that may still change, and the position in them for the next text.

    Attributes:
        size: number of characters in these lines.
        resting: whether the last text was a newline of which the meaning is not known yet.
        visible: whether the lines should be shown before they end: there is a bar, or they were flushed.
    """

    # Class attributes until they change: most channels of most cells never write anything.
    size = 0
    resting = False
    visible = False
    _at = 0
    _anew = False  # the next text replaces that of the line
    _returned = False  # ... because of a carriage return
    _up = False  # the line was reached from below
    _drawn = False  # there was text since it was reached
    _moving = False  # there is more than one line of text without a bar
    _flushed = False

    def __init__(self) -> None:
        self._rows = [_Row()]

    @property
    def shown(self) -> list[str]:
        """The lines to show now."""
        return [row.text for row in self._rows if row.text.strip()] if self.visible else []

    def flush(self) -> None:
        """Make the lines visible, bar or not."""
        self._flushed = self.visible = True

    def feed(self, text: str, has_bars: Callable[[], bool]) -> list[str]:
        """Add `text`; return the lines that are complete now.

        `has_bars` says whether there are bars that may move between lines.
        """
        ordinary = "\r" not in text and "\x1b" not in text
        if ordinary and not self._anew and "\n" not in text:
            self._rows[self._at].pieces.append(text)
            self.size += len(text)
            self._drawn = True
            return []
        if self._moving or not ordinary:
            return self._slowly(text, has_bars)
        pieces = self._rows[0].pieces
        pieces.append(text)
        *lines, rest = "".join(pieces).split("\n")
        pieces[:] = [rest] if rest else []
        self.size = len(rest)
        if self._flushed:
            self._flushed = self.visible = False
        if rest or lines[-1] or not has_bars():
            return lines
        blank = next((count for count, line in enumerate(reversed(lines)) if line), len(lines))
        return lines[: len(lines) - blank] + self._slowly("\n" * blank, has_bars)

    def _slowly(self, text: str, has_bars: Callable[[], bool]) -> list[str]:
        """Interpret `text` like a terminal, one control code or run of characters at a time."""
        lines: list[str] = []
        piece = ""
        for piece in _PIECE.findall(text):
            if piece == "\n":
                self._down(lines, may_return=has_bars())
            elif piece == "\r":
                self._anew = self._returned = True
            elif piece[0] != "\x1b" or len(piece) == 1:
                self._draw(piece, lines)
            elif piece[-1] == "A":
                self._at = max(0, self._at - int(piece[2:-1] or 1))
                self._reach(up=True)
                self.resting = False
            elif self._anew or piece == "\x1b[2K":
                self._rows[self._at].put("", bar=False)
        if self._up and not self._drawn and piece.endswith("A"):
            self._hand_over(self._at, lines)  # the bar is done: the lines above cannot be reached any more
        self.size = sum(len(row.text) for row in self._rows)
        is_bar = any(row.bar for row in self._rows)
        self._moving = is_bar or self._anew or len(self._rows) > 1
        self.visible = is_bar or self._flushed
        return lines

    def _reach(self, *, up: bool) -> None:
        self._anew, self._returned, self._up, self._drawn = True, False, up, False

    def _down(self, lines: list[str], *, may_return: bool) -> None:
        row = self._rows[self._at]
        if self._at + 1 == len(self._rows):
            self._rows.append(_Row())
        self._at += 1
        self._reach(up=False)
        if not may_return:
            self._hand_over(self._at, lines)
            self._rows[:] = [_Row()]  # drop lines below, which a bar may have left at its old place
            self._anew = False
        elif self._at > HELD_LIMIT or (row.text and not row.bar):
            self._hand_over(self._at, lines)
        self.resting = self._at > 0

    def _draw(self, text: str, lines: list[str]) -> None:
        self.resting = False
        row = self._rows[self._at]
        if not self._anew:
            row.pieces.append(text)
        elif self._returned and not text.strip():
            row.put("", bar=False)  # blanks that erase a bar
            return
        else:
            if self._drawn or not (self._returned or self._up):
                self._hand_over(self._at, lines)  # the cursor stays here, so the newline ended a line
            row.put(text, bar=self._returned)
        self._anew = self._returned = False
        self._drawn = True

    def _hand_over(self, count: int, lines: list[str]) -> None:
        rows = self._rows[:count]
        del self._rows[:count]  # before any call: a finalizer that prints may run in one
        self._at -= count
        lines += [row.text for row in rows]
        self._flushed = self._flushed and not count

    def rest(self) -> list[str]:
        """Return all lines and begin anew.

        Without lines below the end, which a bar may have left at its old place, and blanks between bars.
        """
        rows = self._rows[: self._at] if self.resting else [row for row in self._rows if row.text]
        self._rows = [_Row()]
        self._at = self.size = 0
        self._anew = self._returned = self._up = self._drawn = self._moving = False
        self._flushed = self.visible = self.resting = False
        return [row.text for row in rows]
