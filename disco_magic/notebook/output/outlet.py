"""Writes the lines of one cell to the stream that was current when the cell was sent, with prefixes."""

from __future__ import annotations

import os
import re
import sys
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from IPython import get_ipython

from disco_magic.callers.tracebacks import frames_of
from disco_magic.core.markup import ink
from disco_magic.isolation.streams import WorkerStream, unwrapped
from disco_magic.notebook.output.footer import FOOTER, over_the_prompt
from disco_magic.phrases import padded, ranges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_COLOURS: Final = (30, 130, 164, 64, 63)
"""Colours of workers 0, 1, 2, ... in a palette of 256: cyan, brown, magenta, green, blue. Red is for errors.

JupyterLab and terminals show these as they are, each with a contrast of 4 to 5 to black, to white and to the
dark theme's background; 4.35 is the most that one colour can have to all of them. The sixteen named colours
have less, down to 1.9 for yellow on white, and each terminal has its own.
"""
_HTML_COLOURS: Final = {30: "#008787", 130: "#af5f00", 164: "#d700d7", 64: "#5f8700", 63: "#5f5fff"}
# With this much of these, and the rest of the text's colour, the contrast is at least 4.5.
_PERCENT: Final = 80
_PREFIX: Final = re.compile(r"\x1b\[38;5;(\d+)m(\[[\d,:-]+\])\x1b\[0m")
_RECORDER: Final = "InteractiveShell._tee.<locals>.write"


@contextmanager
def collected(outlets: Iterable[Outlet]) -> Iterator[None]:
    """In the ``with`` block, let each outlet collect its lines until another one writes, or until a display.

    A kernel sends written text when a timer fires. So the number of messages, and whether a line of stderr
    comes before an earlier line of stdout, would change from run to run.
    """
    all_of_them = list(outlets)
    for outlet in all_of_them:
        outlet.collect([other for other in all_of_them if other is not outlet])
    try:
        yield
    finally:
        for outlet in all_of_them:
            outlet.end_collecting()


def split_prefix(line: str) -> tuple[str, str]:
    """The prefix of a line as HTML in its colour, if it has one, and the rest."""
    found = _PREFIX.match(line)
    if found is None:
        return "", line
    colour = ink(_HTML_COLOURS[int(found[1])], _PERCENT)
    return f'<span style="{colour}">{found[2]}</span>', line[found.end() :]


def put_above(stream: Any, text: str, write: Callable[[str], int | None]) -> int | None:
    """Write text of a cell that prints by itself, or of the notebook; in a terminal, above any live area."""
    return FOOTER.above(write, text) if getattr(stream, "isatty", bool)() else write(text)


class Outlet:
    """One channel of one cell.

    Holds the stream's `write` as it was when the cell was sent: IPython replaces it during a cell to record
    output in its history, so late lines of an asynchronous cell are recorded with that cell too. Which cell
    shows them is decided by the context that the worker runs in, see `NotebookScope.context`.

    Attributes:
        notebook: whether the stream is a kernel's.
        terminal: whether it is a terminal.
        rich: whether the stream shows colours and what is drawn anew, and NO_COLOR does not forbid it.
    """

    def __init__(self, stream: Any, among: int = 1) -> None:
        base = unwrapped(stream)
        self._among = among
        self._stream_write = stream.plain_write if isinstance(stream, WorkerStream) else stream.write
        self._base = base
        self._collected: list[str] | None = None
        self._others: Sequence[Outlet] = ()
        self.notebook = hasattr(base, "set_parent")
        self.terminal = not self.notebook and bool(getattr(base, "isatty", bool)())
        self.rich = (self.notebook or self.terminal) and not os.environ.get("NO_COLOR")
        self._coloured: bool | None = None if self.rich else False
        self._prefixes: dict[tuple[int, ...], str] = {}  # nothing that they are made of changes any more

    @property
    def coloured(self) -> bool:
        """Whether to use colours: it is rich, and IPython shows some (``%colors nocolor``).

        Asked when the first prefix is made, and not again: most cells write nothing to one of their channels,
        many nothing at all.
        """
        if self._coloured is None:
            self._coloured = str(getattr(get_ipython(), "colors", "")).lower() != "nocolor"
        return self._coloured

    def write(self, text: str) -> None:
        """Write whole lines in one piece, above IPython's prompt and above any live area."""
        if self._collected is None:
            self._put(text)
            return
        for other in self._others:
            other.flush()
        self._collected.append(text)

    def _write(self, text: str) -> None:
        try:
            self._stream_write(text)
        except IndexError as error:
            # IPython's recorder, after it has written the text: 1. another thread, such as the notebook's for
            # `Out[n]`, makes the cell's empty list of outputs; 2. the recorder looks at the last one in it.
            if frames_of(error.__traceback__)[-1].f_code.co_qualname != _RECORDER:
                raise

    def _put(self, text: str) -> None:
        if not self.terminal:
            self._write(text)
            return
        current = sys.stdout
        if over_the_prompt(current):
            current.write(text)
        else:
            FOOTER.above(self._write, text)

    @property
    def is_closed(self) -> bool:
        """Whether the stream was closed, such as a file that had replaced `sys.stdout`."""
        return bool(getattr(self._base, "closed", False))

    def write_unrecorded(self, text: str) -> None:
        """Write temporary text at once, without recording it in IPython's history."""
        type(self._base).write(self._base, text)
        self._base.flush()

    def lines(self, workers: Sequence[int], lines: Sequence[str]) -> None:
        """Write whole lines, each with the workers' prefix."""
        prefix = self.prefix(workers)
        text = f"\n{prefix}".join(lines)
        self.write(f"{prefix}{text}\n" if lines else "")

    def flush(self) -> None:
        """Write everything that was collected, before the next display."""
        if self._collected is not None:
            if not self._collected:
                return
            self._put("".join(self._collected))
            self._collected.clear()
        self._base.flush()

    def collect(self, others: Sequence[Outlet]) -> None:
        """Collect lines until `flush`, or until one of `others` writes."""
        self._collected, self._others = [], others

    def end_collecting(self) -> None:
        """Write what was collected, and collect no more."""
        self.flush()
        self._collected, self._others = None, ()

    def label_html(self, workers: Sequence[int]) -> str:
        """``[0]`` as HTML, in the colour of the prefix."""
        colour = ink(_HTML_COLOURS[_colour(workers)], _PERCENT) if self.coloured else ""
        return f'<span style="{colour}">{ranges(tuple(workers))}</span>'

    def label(self, workers: Sequence[int]) -> str:
        """``[0]``, padded to the width of the widest label in the session."""
        return padded(workers, self._among)

    def prefix(self, workers: Sequence[int]) -> str:
        """``[0] ``, coloured if colours are shown."""
        key = tuple(workers)
        made = self._prefixes.get(key)
        if made is None:
            made = self._prefixes[key] = _prefix(key, self._among, self.coloured)
        return made


@lru_cache(maxsize=1000)  # every cell that prints needs the same ones
def _prefix(workers: tuple[int, ...], among: int, coloured: bool) -> str:  # noqa: FBT001 - as a key
    padded_label = padded(workers, among)
    if not coloured:
        return f"{padded_label} "
    label = ranges(workers)
    return f"\x1b[38;5;{_colour(workers)}m{label}\x1b[0m{padded_label.removeprefix(label)} "


def _colour(workers: Sequence[int]) -> int:
    """The number, in a palette of 256, of the colour of the workers' prefix."""
    return _COLOURS[workers[0] % len(_COLOURS)]
