"""`print` on workers: the output of one call comes in one piece."""

from __future__ import annotations

from functools import update_wrapper
from typing import Any, Final

from disco_magic.callers.module_classes import SYS
from disco_magic.isolation.streams import WorkerStream


class WholePrint:
    """Like `print`, but a worker's text and its end are one write.

    Python's own writes each value and the end separately: if a value ends a line, lines of other workers can
    come before the rest of the same call. It is pickled as Python's own `print`.
    """

    def __init__(self) -> None:
        update_wrapper(self, print)

    def __call__(
        self, *values: Any, sep: Any = None, end: Any = None, file: Any = None, flush: bool = False
    ) -> None:
        """See `print`."""
        # The process's stream, as in Python's own: from there, a stream that a worker has assigned is called.
        stream = SYS.get("stdout") if file is None else file
        between, last = " " if sep is None else sep, "\n" if end is None else end
        is_text = isinstance(between, str) and isinstance(last, str)  # otherwise Python's own raises
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


WholePrint.__call__.__qualname__ = "print"  # the name in Python's errors about wrong arguments
whole_print: Final = WholePrint()
