"""Lets a cell fail if displaying a value fails on a worker, as with any other error.

IPython's formatters print the traceback and go on: four workers would print four tracebacks without labels,
in a cell that succeeds.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from disco_magic.notebook.output.streams import current_sink

if TYPE_CHECKING:
    from disco_magic.notebook.shell import Shell

_FORMATTERS: Final = "IPython.core.formatters"


class WorkerFormatting:
    """Wraps the shell's `showtraceback`, on the instance."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._below = shell.showtraceback
        self._before = shell.__dict__.get("showtraceback")
        shell.showtraceback = self._show

    def remove(self) -> None:
        """Remove the wrapper, unless something else has been installed over it."""
        if self._shell.__dict__.get("showtraceback") != self._show:
            return
        if self._before is not None:
            self._shell.showtraceback = self._before
        else:
            del self._shell.__dict__["showtraceback"]

    def _show(self, exc_tuple: Any = None, *args: Any, **options: Any) -> None:
        asked_by = sys._getframe(1).f_globals.get("__name__")  # noqa: SLF001 - inspect.currentframe is the same call
        if exc_tuple is not None and asked_by == _FORMATTERS and current_sink.get() is not None:
            raise exc_tuple[1]
        self._below(exc_tuple, *args, **options)
