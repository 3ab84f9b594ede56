"""An IPython shell in this process, its output captured: what a cell costs before any kernel is involved."""

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
    """The one shell of the process, without history file and colours."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    return InteractiveShell.instance(config=config)


def run(source: str) -> tuple[float, str]:
    """Seconds that ``run_cell(source)`` took, and what it printed; a cell that fails is an error here too."""
    ours, text = shell(), StringIO()
    with redirect_stdout(text):
        start = perf_counter()
        result = ours.run_cell(source)
        seconds = perf_counter() - start
    result.raise_error()
    return seconds, text.getvalue()


def samples(source: str, repeat: int, *, prints: int = 0) -> list[float]:
    """Seconds of each of `repeat` runs after five that warm up; each must print "line" `prints` times.

    Only the word is counted: ipyparallel adds headings, and a line may be torn by another engine's.
    """
    taken = []
    for i in range(repeat + 5):
        seconds, text = run(source)
        if text.count("line") != prints:
            raise RuntimeError(f"{source!r}: expected {prints} lines of output, got {text[:200]!r}")
        if i >= 5:
            taken.append(seconds)
    return taken
