"""A watchdog thread that looks for NCCL errors in collectives that have been on their way for long.

A worker that waits for its GPU in our own functions looks at NCCL itself (`flights`). One that waits in cupy,
as in ``float(y[0])``, is in C code until NCCL's kernel ends; after an error, only aborting the communicator
ends it.
"""

from __future__ import annotations

import threading
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from disco_magic.threads.own_threads import start_thread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.planes.flight import Flight
    from disco_magic.planes.flights import Flights

PERIOD_S: Final = 1.0


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
    before: Sequence[Flight | None] = ()
    while not over.wait(PERIOD_S):
        flights = ref()
        if flights is None:
            return
        before = flights.survey(before)
        del flights  # the sleeping thread keeps nothing alive
