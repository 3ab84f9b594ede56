"""Where the lines of one cell leave: the stream that was current when the cell was sent, and its looks."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

from disco_magic.errors import ranges
from disco_magic.notebook.printing import over_the_prompt
from disco_magic.notebook.streams import unwrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

_COLOURS: Final = (36, 33, 35, 32, 34)
"""ANSI colours of workers 0, 1, 2, ...: cyan, yellow, magenta, green, blue. Red is for errors."""


class Outlet:
    r"""One channel of one cell.

    Holds the stream's `write` as it was at submit: IPython replaces it for the time of a cell to record the
    output in its history, so a late line of an asynchronous cell is recorded with that cell, too. Which cell
    shows it is decided by the context that the worker runs in, see `NotebookScope.context`.

    Attributes:
        rich: whether the stream shows colours and understands ``\r``: a notebook or a terminal.
    """

    def __init__(self, stream: Any) -> None:
        base = unwrapped(stream)
        self._write = stream.write
        self._base = base
        notebook = hasattr(base, "set_parent")
        terminal = not notebook and bool(getattr(base, "isatty", bool)())
        self.rich = (notebook or terminal) and not os.environ.get("NO_COLOR")
        self._terminal = terminal
        self._frame = 0

    def write(self, text: str) -> None:
        """Write `text` in one piece, above the prompt if the user is at it."""
        current = sys.stdout
        if self._terminal and over_the_prompt(current):
            current.write(text)
        else:
            self._write(text)

    def lines(self, workers: Sequence[int], lines: Sequence[str]) -> None:
        """Write whole lines, each under the workers' prefix."""
        prefix = self.prefix(workers)
        text = "".join(f"{prefix}{line}\n" for line in lines)
        self.write(self._wipe() + text)

    def frame(self, worker: int, text: str) -> None:
        r"""Show an unfinished line in place of the previous one; nothing where ``\r`` means nothing."""
        if self.rich:
            wipe = self._wipe()
            self.write(f"{wipe or chr(13)}{self.prefix((worker,))}{text}")
            self._frame = len(text) + len(ranges((worker,))) + 1

    def flush(self) -> None:
        """Bring everything written before what is displayed next."""
        wipe = self._wipe()
        if wipe:
            self.write(wipe)
        self._base.flush()

    def _wipe(self) -> str:
        """What erases the unfinished line that is shown now. Blanks: not every front end knows ESC[K."""
        width, self._frame = self._frame, 0
        return f"\r{' ' * width}\r" if width else ""

    def prefix(self, workers: Sequence[int]) -> str:
        """``[0] ``, coloured where colours are shown and NO_COLOR is not set."""
        label = ranges(tuple(workers))
        if not self.rich:
            return f"{label} "
        return f"\x1b[{_COLOURS[workers[0] % len(_COLOURS)]}m{label}\x1b[0m "
