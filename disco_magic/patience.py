"""Waiting for a GPU so that an interrupt, or a limit, can end the wait.

A library's own ``synchronize()`` sits in C code until the device is done, or for ever. So we look again and
again: at once a few times, since most work is over in microseconds, then at growing distances.
"""

from __future__ import annotations

import time
from _thread import allocate_lock
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

# Looks without a pause; one takes about 1 us, and several workers take turns at the interpreter meanwhile.
_LOOKS: Final = 30
_FIRST_S: Final = 20e-6
# Long enough that eight waiting workers take 1 % of a core, short beside what takes that long.
_LONGEST_S: Final = 1e-3


def wait_until(is_done: Callable[[], bool], timeout_s: float | None = None) -> bool:
    """Return when ``is_done()`` is true, or after `timeout_s` seconds; whether it is.

    What it raises comes out, and so does what is injected.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    for _ in range(_LOOKS):
        if is_done():
            return True
    closed = allocate_lock()
    closed.acquire()
    pause = _FIRST_S
    while not is_done():
        if deadline is not None and time.monotonic() > deadline:
            return False
        closed.acquire(timeout=pause)  # nobody opens it: a pause without the interpreter's lock
        pause = min(pause * 1.5, _LONGEST_S)
    return True
