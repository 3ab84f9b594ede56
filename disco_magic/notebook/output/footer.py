r"""The last lines of a terminal, below all printed output, while a cell is waited for.

::

    [0] a line            <- printed above: wipe the footer, print, draw it again
    [1]  40%|####    |    <- the footer; the cursor stays after its last character
    [2]  60%|######  |
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from disco_magic.threads.locks import new_rlock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

REDRAW_S: Final = 0.05
"""While output comes faster than this, the footer is hidden; the next look draws it again."""


def over_the_prompt(stream: object) -> bool:
    """Whether `stream` is prompt_toolkit's replacement of sys.stdout while IPython waits at its prompt.

    It prints above the line that the user types; writing past it would garble that line.
    """
    return type(stream).__module__.startswith("prompt_toolkit")


@dataclass(eq=False, slots=True)
class Question:
    """A question to the user; see `Footer.aside`. Compared by identity: two workers may ask the same."""

    out: Callable[[str], None] | None
    text: str


class Footer:
    """One per terminal, for all that print: lines of another cell must not be printed into it either."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = new_rlock()  # reentrant, because a finalizer may print while it is held
        self._clock = clock
        self._out: Callable[[str], None] | None = None
        self._lines: Sequence[str] = ()
        self._height = 0  # number of lines on the screen now
        self._drawn_at = float("-inf")
        self._asking: list[Question] = []  # nested; the last one is being asked
        self._is_in_line = False  # what was printed last has not ended its line, and nothing is drawn

    @property
    def covered(self) -> bool:
        """Whether there are lines and they are not on the screen now."""
        return bool(self._lines) and not self._height

    def show(self, out: Callable[[str], None], lines: Sequence[str], columns: int = 0) -> None:
        """Replace the lines; each must be shorter than the width of the terminal, which is `columns`.

        Where others may have written before, in the middle of a line, they begin in the next one: as many
        blanks as there are columns end in the same line only if that was empty.
        """
        with self._lock:
            begin = f"{' ' * columns}\r\x1b[J" if columns and not self._lines else ""
            if self._asking:
                self._out, self._lines = out, tuple(lines)
                return
            wipe = self._wipe()
            self._out, self._lines = out, tuple(lines)
            drawn = self._draw()
            self._put(wipe + (drawn and begin + drawn))

    def above(self, write: Callable[[str], int | None], text: str) -> int | None:
        """Write `text` above the footer, which is hidden until the last line of the text has an end."""
        with self._lock:
            self._put(self._wipe())
            count = write(text)
            self._is_in_line = not text.endswith("\n") if text else self._is_in_line
            if self._asking or (self.covered and self._clock() - self._drawn_at >= REDRAW_S):
                self._put(self._draw())
        return count

    def begin_line(self, *_: object) -> None:
        """Note that the user has ended the last line, at IPython's prompt; a stuck thread never ends its own.

        Without the lock, which such a thread may hold.
        """
        self._is_in_line = False

    @contextmanager
    def aside(self, out: Callable[[str], None] | None = None, question: str = "") -> Iterator[Question]:
        """Hide the footer while the user answers a question, which is then the last line.

        Args:
            out: writes to the terminal, unbuffered.
            question: written to `out`, and again below whatever is printed meanwhile. The terminal then does
                not show what was typed so far, but keeps it. Without `out` the caller asks.

        Yields the argument for `withdraw`.
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
        """Drop a question whose answer is no longer awaited; the thread that asks may be stuck."""
        with self._lock:
            if asked in self._asking:
                self._asking.remove(asked)
                self._height = 0  # the cursor has left the line

    def _put(self, text: str) -> None:
        out = self._asking[-1].out if self._asking else self._out
        if text and out is not None:
            out(text)

    def _wipe(self) -> str:
        """The control codes that move to the first column of the first line and clear from there."""
        height, self._height = self._height, 0
        return f"\r\x1b[{height - 1}A\x1b[J" if height > 1 else "\r\x1b[J" * height

    def _draw(self) -> str:
        if self._asking:
            self._height = bool(self._asking[-1].text)
            begin, self._is_in_line = "\n" * self._is_in_line, False
            return begin + self._asking[-1].text
        if self._is_in_line:
            return ""
        self._height = len(self._lines)
        self._drawn_at = self._clock()
        return "\n".join(self._lines)


FOOTER: Final = Footer()
