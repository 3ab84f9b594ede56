"""Waiting for a GPU so that an interrupt can end the wait.

A library's own ``synchronize()`` sits in C code until the device is done, or for ever. So we look again and
again: at once a few times, since most work is over in microseconds, then at growing distances.
"""

from __future__ import annotations

from _thread import allocate_lock
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

# Looks without a pause; one takes about 1 us, and several workers take turns at the interpreter meanwhile.
_LOOKS: Final = 30
_FIRST_S: Final = 20e-6
# Long enough that eight waiting workers take 1 % of a core, short beside what takes that long.
_LONGEST_S: Final = 1e-3
_NOT_READY: Final = 600  # cudaErrorNotReady, and hipErrorNotReady


def has_passed(cupy: Any, event: Any) -> bool:
    """Whether a stream has come to `event`; costs 1 us.

    Not ``event.done``: where the device has failed that is False, for ever, for cupy looks at nothing but
    whether the answer is success.

    Raises:
        CUDARuntimeError: the device has failed.
    """
    runtime = cupy.cuda.runtime
    status = runtime.eventQuery(event.ptr)
    if status not in (0, _NOT_READY):
        raise runtime.CUDARuntimeError(status)
    return bool(status == 0)


def wait_until(is_done: Callable[[], bool]) -> None:
    """Return when ``is_done()`` is true; what it raises comes out, and so does what is injected."""
    for _ in range(_LOOKS):
        if is_done():
            return
    closed = allocate_lock()
    closed.acquire()
    pause = _FIRST_S
    while not is_done():
        closed.acquire(timeout=pause)  # nobody opens it: a pause without the interpreter's lock
        pause = min(pause * 1.5, _LONGEST_S)
