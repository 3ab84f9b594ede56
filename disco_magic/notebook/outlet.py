"""Where the lines of one cell leave: the stream that was current when the cell was sent, and its looks."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

from disco_magic.errors import ranges
from disco_magic.notebook.footer import FOOTER
from disco_magic.notebook.printing import over_the_prompt
from disco_magic.notebook.streams import unwrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

_COLOURS: Final = (36, 33, 35, 32, 34)
"""ANSI colours of workers 0, 1, 2, ...: cyan, yellow, magenta, green, blue. Red is for errors."""


class Outlet:
    """One channel of one cell.

    Holds the stream's `write` as it was at submit: IPython replaces it for the time of a cell to record the
    output in its history, so a late line of an asynchronous cell is recorded with that cell, too. Which cell
    shows it is decided by the context that the worker runs in, see `NotebookScope.context`.

    Attributes:
        notebook: whether the stream is a kernel's.
        terminal: whether it is a terminal.
        rich: whether it shows colours, and the user wants them.
    """

    def __init__(self, stream: Any) -> None:
        base = unwrapped(stream)
        self._write = stream.write
        self._base = base
        self.notebook = hasattr(base, "set_parent")
        self.terminal = not self.notebook and bool(getattr(base, "isatty", bool)())
        self.rich = (self.notebook or self.terminal) and not os.environ.get("NO_COLOR")

    def write(self, text: str) -> None:
        """Write whole lines in one piece, above the prompt if the user is at it, and above any live area."""
        if not self.terminal:
            self._write(text)
            return
        current = sys.stdout
        if over_the_prompt(current):
            current.write(text)
        else:
            FOOTER.above(self._write, text)

    def write_unrecorded(self, text: str) -> None:
        """Write at once what will not stay, past IPython's record of the output."""
        type(self._base).write(self._base, text)
        self._base.flush()

    def lines(self, workers: Sequence[int], lines: Sequence[str]) -> None:
        """Write whole lines, each under the workers' prefix."""
        prefix = self.prefix(workers)
        self.write("".join(f"{prefix}{line}\n" for line in lines))

    def flush(self) -> None:
        """Bring everything written before what is displayed next."""
        self._base.flush()

    def colour(self, workers: Sequence[int]) -> int:
        """ANSI number of the colour of their prefix."""
        return _COLOURS[workers[0] % len(_COLOURS)]

    def prefix(self, workers: Sequence[int]) -> str:
        """``[0] ``, coloured where colours are shown and NO_COLOR is not set."""
        label = ranges(tuple(workers))
        if not self.rich:
            return f"{label} "
        return f"\x1b[{self.colour(workers)}m{label}\x1b[0m "
