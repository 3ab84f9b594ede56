"""Lets a cell fail if displaying a value fails on a worker, as with any other error.

IPython's formatters print the traceback and go on: four workers would print four tracebacks without labels,
in a cell that succeeds.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.replaced import Replaced, replacing
from disco_magic.notebook.output.streams import current_sink

if TYPE_CHECKING:
    from disco_magic.notebook.shell import Shell

_FORMATTERS: Final = "IPython.core.formatters"


def worker_formatting(shell: Shell) -> Replaced:
    """The replacement of the shell's `showtraceback`, on the instance."""

    @replacing(shell, "showtraceback")
    def show(exc_tuple: Any = None, *args: Any, **options: Any) -> None:
        asked_by = sys._getframe(1).f_globals.get("__name__")  # noqa: SLF001 - inspect.currentframe is the same call
        if exc_tuple is not None and asked_by == _FORMATTERS and current_sink.get() is not None:
            raise exc_tuple[1]
        show.below(exc_tuple, *args, **options)

    return show
