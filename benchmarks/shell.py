"""An IPython shell in this process, with captured output: what a cell costs without any kernel."""

from __future__ import annotations

from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


@cache
def shell() -> InteractiveShell:
    """Return the process's only shell, without history file and colours."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    return InteractiveShell.instance(config=config)


def run(source: str) -> tuple[float, str]:
    """Return the seconds that ``run_cell(source)`` took, and its output; an error in the cell is raised."""
    ours, text = shell(), StringIO()
    with redirect_stdout(text):
        start = perf_counter()
        result = ours.run_cell(source)
        seconds = perf_counter() - start
    result.raise_error()
    return seconds, text.getvalue()


def samples(source: str, repeat: int, *, prints: int = 0) -> list[float]:
    """Return the seconds of `repeat` runs, after five for warm-up; each must print "line" `prints` times.

    Only the word is counted: ipyparallel adds headings, and another engine's output may split a line.
    """
    taken = []
    for i in range(repeat + 5):
        seconds, text = run(source)
        if text.count("line") != prints:
            raise RuntimeError(f"{source!r}: expected {prints} lines of output, got {text[:200]!r}")
        if i >= 5:
            taken.append(seconds)
    return taken
