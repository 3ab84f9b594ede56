"""A process that a cell, a program or a function on a worker has forked ends where that ends.

It has one thread, the one that has forked it, which is a worker's. Without this it would go on as that
worker: wait for commands that nobody sends, for ever, with the streams and pipes of its parent open.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import NoReturn

from disco_magic.callers.tracebacks import error_text

_MOST = 255  # statuses are a byte


def end_if_forked(process: int, error: BaseException | None = None) -> None:
    """As `end_fork`, if this process is not the one of that id, which began what is over. Costs 0.1 us."""
    if os.getpid() != process:
        end_fork(error)


def end_fork(error: BaseException | None = None) -> NoReturn:
    """End this process, with the status that `error` means to Python; None: nothing was raised.

    Without what `atexit` is to call, which may wait for threads that are not here, and without flushing
    files that are open, which may be the parent's.
    """
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
