r"""What one channel of a worker has written and not ended with a newline, read as a terminal would read it.

Progress bars draw a line again and again (``\r``), and several of them move between lines (``\n``, and
``ESC [ A``: one up). tqdm counts its bars per process, so that worker 2's only bar is the third line::

    "\n\n"   "\r 10%|#  "   "\x1b[A\x1b[A"            and at the end            "\r100%|###"   "\n"

While there are such bars a newline behind one ends it or leads to the next one; what comes next tells. Such
lines are held back until then, and so are blank ones.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

HELD_LIMIT: Final = 50
"""Lines that are held back at most; a thousand blank lines are no movement."""

_PIECE: Final = re.compile("\r|\n|\x1b\\[[0-9]*[AK]|\x1b|[^\r\n\x1b]+")


class _Row:
    """One line of the screen: its text in pieces, so that adding costs nothing, and whether it is a bar."""

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
    """The lines of one channel that may still change, and the place in them where the next text goes.

    Attributes:
        size: characters of these lines.
        resting: the last thing that came was a newline, and it is not known yet what that meant.
        visible: whether it is meant to be seen before it ends: there is a bar, or it was flushed.
    """

    # Of an object's own once they differ: most channels of most cells never write anything.
    size = 0
    resting = False
    visible = False
    _at = 0
    _anew = False  # the next text takes the place of the line's
    _returned = False  # ... because of a carriage return
    _up = False  # the line was reached from below
    _drawn = False  # there was text since it was reached
    _moving = False  # there is more to it than one line of text without a bar
    _flushed = False

    def __init__(self) -> None:
        self._rows = [_Row()]

    @property
    def shown(self) -> list[str]:
        """Lines to show now."""
        return [row.text for row in self._rows if row.text.strip()] if self.visible else []

    def flush(self) -> None:
        """Show what is there, bar or not."""
        self._flushed = self.visible = True

    def feed(self, text: str, has_bars: Callable[[], bool]) -> list[str]:
        """Add `text`; the lines that are complete by it.

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
        """As a terminal: character by character, as far as that matters."""
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
            self._hand_over(self._at, lines)  # a bar's turn is over: what is above is not reached any more
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
            self._rows[:] = [_Row()]  # below may be what a bar has left at its old place
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
            row.put("", bar=False)  # blanks over a bar that goes
            return
        else:
            if self._drawn or not (self._returned or self._up):
                self._hand_over(self._at, lines)  # it stays here, so that newline was the end of a line
            row.put(text, bar=self._returned)
        self._anew = self._returned = False
        self._drawn = True

    def _hand_over(self, count: int, lines: list[str]) -> None:
        rows = self._rows[:count]
        del self._rows[:count]  # before anything is called: a finalizer that prints would come in here
        self._at -= count
        lines += [row.text for row in rows]
        self._flushed = self._flushed and not count

    def rest(self) -> list[str]:
        """The lines as they stand; there are none left.

        Below the end of the last one may be what a bar has left at its old place; blanks between bars are no
        lines either.
        """
        rows = self._rows[: self._at] if self.resting else [row for row in self._rows if row.text]
        self._rows = [_Row()]
        self._at = self.size = 0
        self._anew = self._returned = self._up = self._drawn = self._moving = False
        self._flushed = self.visible = self.resting = False
        return [row.text for row in rows]
