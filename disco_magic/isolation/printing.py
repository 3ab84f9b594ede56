"""`print` on workers: what one call writes comes in one piece."""

from __future__ import annotations

from functools import update_wrapper
from typing import Any, Final

from disco_magic.callers.module_classes import SYS
from disco_magic.isolation.streams import WorkerStream


class WholePrint:
    """As `print`; a worker's text and its end are one write.

    Python's own writes value by value, and the end apart: between a line that is complete by a value and the
    rest of the same call come lines of other workers. It is pickled as Python's own.
    """

    def __init__(self) -> None:
        update_wrapper(self, print)

    def __call__(
        self, *values: Any, sep: Any = None, end: Any = None, file: Any = None, flush: bool = False
    ) -> None:
        """See `print`."""
        # The process's, as Python's own has it: what a worker has put in its place is called from there.
        stream = SYS.get("stdout") if file is None else file
        between, last = " " if sep is None else sep, "\n" if end is None else end
        is_text = isinstance(between, str) and isinstance(last, str)  # else the error is Python's own
        if not (is_text and isinstance(stream, WorkerStream) and stream.names_worker):
            print(*values, sep=sep, end=end, file=stream, flush=flush)
            return
        stream.write(between.join(map(str, values)) + last)
        if flush:
            stream.flush()

    def __repr__(self) -> str:
        return repr(print)

    def __reduce__(self) -> tuple[Any, ...]:
        return eval, ("print",)

    def __copy__(self) -> WholePrint:
        return self

    def __deepcopy__(self, _: object) -> WholePrint:
        return self


WholePrint.__call__.__qualname__ = "print"  # what Python calls it where arguments are wrong
whole_print: Final = WholePrint()
