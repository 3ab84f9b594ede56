"""NCCL's own errors: those that it reports later, and those that cupy has no name for.

A worker that waits for its GPU in our own functions looks for them itself (`flights`). One that waits in
cupy, as in ``float(y[0])``, is in C code until NCCL's kernel ends; after an error, only aborting the
communicator ends it. For these a watchdog thread looks for errors in collectives that have been on their way
for long.
"""

from __future__ import annotations

import threading
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from disco_magic.threads.own_threads import start_thread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.planes.flight import Flight
    from disco_magic.planes.flights import Flights

PERIOD_S: Final = 1.0
_IN_PROGRESS: Final = 7
_UNNAMED: Final = {  # ncclResult_t of nccl.h
    (_IN_PROGRESS,): "NCCL_IN_PROGRESS: the operation is not finished yet",
    (8,): "NCCL_TIMEOUT: NCCL has given up waiting for a member",
}


def async_error(communicator: Any, nccl: Any) -> Exception | None:
    """The error that NCCL reports since the last call; None if there is none."""
    try:
        communicator.check_async_error()
    except (nccl.NcclError, KeyError) as error:  # KeyError: a status that cupy has no name for, remote errors
        if isinstance(error, KeyError) and error.args == (_IN_PROGRESS,):
            return None
        return known(error)
    return None


def known(error: Exception) -> Exception:
    """`error`, or one with NCCL's name for it if cupy has none."""
    if isinstance(error, KeyError) and error.args in _UNNAMED:
        return RuntimeError(_UNNAMED[error.args])
    return error


class Watching:
    """A thread that looks at `flights` once per period, until it is ended or `flights` is garbage."""

    def __init__(self, flights: Flights) -> None:
        self._over = threading.Event()
        with suppress(RuntimeError):  # too many threads: waits through our own functions still look
            start_thread("nccl-watch", _watch, weakref.ref(flights), self._over)

    def end(self) -> None:
        """End the thread. Idempotent."""
        self._over.set()


def _watch(ref: weakref.ref[Flights], over: threading.Event) -> None:
    before: Sequence[Flight] = ()
    while not over.wait(PERIOD_S):
        flights = ref()
        if flights is None:
            return
        before = flights.survey(before)
        del flights  # the sleeping thread keeps nothing alive
