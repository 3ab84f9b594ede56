"""Waiting for a GPU in a way that an interrupt or a limit can end.

A library's own ``synchronize()`` stays in C code until the device is done, or for ever. So we poll: without a
pause for a moment, since most work is over in microseconds, then with pauses that are short compared to the
time already waited.
"""

from __future__ import annotations

import sys
import time
from _thread import allocate_lock
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

# This long without a pause: a look takes about 1 us, and several workers take turns at the interpreter.
_AT_ONCE_S: Final = 50e-6
_SHORTEST_S: Final = 20e-6
# Long enough that eight waiting workers take 1 % of a core.
_LONGEST_S: Final = 1e-3
# A pause is this part of the time waited so far: the end of a 10 ms wait is noticed within a third of a ms.
_PART: Final = 1 / 32
_SET_TIMER_SLACK: Final = 29  # prctl(2)
_SLACK_NS: Final = 1000


def pause_precisely() -> None:
    """Make pauses of the calling thread precise from now on.

    Linux lets them take up to 50 us longer, to wake processors less often. Measured: pauses of 20 us take
    77 us, after this 28. No effect on other systems.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_SET_TIMER_SLACK, _SLACK_NS, 0, 0, 0)


def pause(seconds: float) -> None:
    """Let other threads have the interpreter; what is injected meanwhile is raised at the end."""
    closed = allocate_lock()
    closed.acquire()
    closed.acquire(timeout=seconds)  # no thread releases it


def wait_until(is_done: Callable[[], bool], timeout_s: float | None = None) -> bool:
    """Wait until ``is_done()`` is true, or for `timeout_s` seconds; return whether it is.

    Exceptions of `is_done`, and injected ones, propagate.
    """
    if is_done():
        return True
    begin = time.monotonic()
    while not is_done():
        waited = time.monotonic() - begin
        if timeout_s is not None and waited > timeout_s:
            return False
        if waited >= _AT_ONCE_S:
            pause(min(max(waited * _PART, _SHORTEST_S), _LONGEST_S))
    return True
