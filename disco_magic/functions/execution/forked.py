"""A process that a cell or a program has forked ends where that ends.

It has one thread, the one that has forked it, which is a worker's. Without this it would go on as that
worker: wait for commands that nobody sends, for ever, with the streams and pipes of its parent open.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from disco_magic.callers.tracebacks import error_text

_MOST = 255  # statuses are a byte


def end_if_forked(process: int, error: BaseException | None = None) -> None:
    """End this process if it is not the one of that id, with the status that `error` means to Python.

    Without what `atexit` is to call, which may wait for threads that are not here, and without flushing
    files that are open, which may be the parent's. Costs 0.1 us.

    Args:
        process: id of the process that began to execute the code which is over.
        error: what that has raised; None: nothing.
    """
    if os.getpid() == process:
        return
    status, told = _told(error)
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        if stream is not None:
            with suppress(OSError, ValueError):  # it is closed, or nobody reads it any more
                stream.flush()
    with suppress(OSError):
        os.write(2, told.encode(errors="backslashreplace"))
    os._exit(status)


def _told(error: BaseException | None) -> tuple[int, str]:
    """The status, and what is to be written to stderr."""
    if error is None:
        return 0, ""
    if not isinstance(error, SystemExit):
        return 1, error_text(error)
    if error.code is None or isinstance(error.code, int):
        return (error.code or 0) & _MOST, ""
    return 1, f"{error.code}\n"
