"""`print` in a worker's cell, for the one case in which replacing sys.stdout is not enough."""

from __future__ import annotations

from typing import Any, Final

from disco_magic.callers.module_classes import SYS
from disco_magic.isolation.own_streams import WholePrint
from disco_magic.isolation.streams import WorkerStream


def over_the_prompt(stream: object) -> bool:
    """Whether `stream` is prompt_toolkit's replacement of sys.stdout while IPython waits at its prompt.

    It prints above the line that the user types; writing past it would garble that line.
    """
    return type(stream).__module__.startswith("prompt_toolkit")


class _WorkerPrint(WholePrint):
    """A whole print that keeps the worker's prefix when a cell prints while the user types."""

    def __call__(self, *values: Any, file: Any = None, **options: Any) -> None:
        """See `print`."""
        stream = SYS.get("stdout") if file is None else file
        if over_the_prompt(stream):
            stream = WorkerStream(stream, "stdout")
        super().__call__(*values, file=stream, **options)


worker_print: Final = _WorkerPrint()
