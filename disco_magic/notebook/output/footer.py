r"""The last lines of the terminal, below everything that is printed, while somebody waits for a cell.

::

    [0] a line            <- printed above: wipe the footer, print, draw it again
    [1]  40%|####    |    <- the footer; the cursor stays behind its last character
    [2]  60%|######  |
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from disco_magic.locks import new_rlock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

REDRAW_S: Final = 0.05
"""Who prints more often than this prints without the footer; it comes back with the next look."""


class Question:
    """One that the user is asked; see `Footer.aside`. Two workers may ask the same: it equals itself only."""

    __slots__ = ("out", "text")

    def __init__(self, out: Callable[[str], None] | None, text: str) -> None:
        self.out = out
        self.text = text


class Footer:
    """One per terminal, whoever prints: the lines of another cell must not land in it either."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = new_rlock()  # as a page's: a finalizer may print while it is held
        self._clock = clock
        self._out: Callable[[str], None] | None = None
        self._lines: Sequence[str] = ()
        self._height = 0  # lines that are on the screen now
        self._drawn_at = float("-inf")
        self._asking: list[Question] = []  # within each other; the last one is asked now

    @property
    def covered(self) -> bool:
        """Whether there are lines that are not on the screen now."""
        return bool(self._lines) and not self._height

    def show(self, out: Callable[[str], None], lines: Sequence[str]) -> None:
        """Show `lines` in place of the present ones; each must be shorter than the terminal is wide.

        Args:
            out: writes to the terminal, at once.
            lines: none wipe the footer.
        """
        with self._lock:
            if self._asking:
                self._out, self._lines = out, tuple(lines)
                return
            wipe = self._wipe()
            self._out, self._lines = out, tuple(lines)
            self._put(wipe + self._draw())

    def above(self, write: Callable[[str], object], text: str) -> None:
        """``write(text)`` where the footer is, which goes down; `text` ends with a newline."""
        with self._lock:
            self._put(self._wipe())
            write(text)
            if self._asking or (self.covered and self._clock() - self._drawn_at >= REDRAW_S):
                self._put(self._draw())

    @contextmanager
    def aside(self, out: Callable[[str], None] | None = None, question: str = "") -> Iterator[Question]:
        """Keep the footer away while a user answers a question, which is the last line by then.

        Args:
            out: writes to the terminal, at once.
            question: written with it, and again below what is printed meanwhile; of what was typed so far the
                terminal shows nothing then, but knows it. Without `out` the caller asks.

        Yields what `withdraw` takes.
        """
        asked = Question(out, question)
        try:
            with self._lock:
                self._put(self._wipe())
                self._asking.append(asked)
                self._put(self._draw())
            yield asked
        finally:
            self.withdraw(asked)

    def withdraw(self, asked: Question) -> None:
        """Nobody waits for the answer any more; whoever asked may be stuck."""
        with self._lock:
            if asked in self._asking:
                self._asking.remove(asked)
                self._height = 0  # the user has left the line

    def _put(self, text: str) -> None:
        out = self._asking[-1].out if self._asking else self._out
        if text and out is not None:
            out(text)

    def _wipe(self) -> str:
        """To its first column, up to its first line, and clear from there."""
        height, self._height = self._height, 0
        return f"\r\x1b[{height - 1}A\x1b[J" if height > 1 else "\r\x1b[J" * height

    def _draw(self) -> str:
        if self._asking:
            self._height = bool(self._asking[-1].text)
            return self._asking[-1].text
        self._height = len(self._lines)
        self._drawn_at = self._clock()
        return "\n".join(self._lines)


FOOTER: Final = Footer()
