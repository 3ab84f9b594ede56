"""End a forked process where the cell, program or function that forked it on a worker ends.

Its only thread is the one that has forked it, a worker's. Otherwise it would go on as that worker: wait
forever for commands that never come, with the streams and pipes of its parent open.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import NoReturn

from disco_magic.callers.tracebacks import error_text

_MOST = 255  # statuses are a byte


def end_if_forked(process: int, error: BaseException | None = None) -> None:
    """Call `end_fork` unless this is the process of that id, which began the work. Costs 0.1 us."""
    if os.getpid() != process:
        end_fork(error)


def end_fork(error: BaseException | None = None) -> NoReturn:
    """End this process with the exit status that Python gives for `error`; None: nothing was raised.

    Does not call `atexit` functions, which may wait for threads that do not exist here, and flushes only the
    standard streams: other open files may be the parent's.
    """
    status, told = _told(error)
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        if stream is not None:
            with suppress(OSError, ValueError):  # it is closed, or no longer read
                stream.flush()
    with suppress(OSError):
        os.write(2, told.encode(errors="backslashreplace"))
    os._exit(status)


def _told(error: BaseException | None) -> tuple[int, str]:
    """The exit status, and the text to write to stderr."""
    if error is None:
        return 0, ""
    if not isinstance(error, SystemExit):
        return 1, error_text(error)
    if error.code is None or isinstance(error.code, int):
        return (error.code or 0) & _MOST, ""
    return 1, f"{error.code}\n"
