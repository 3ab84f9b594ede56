"""A look now and then at what has been on its way for long, by nobody who waits for it.

Who waits for a GPU in our own way looks at NCCL himself (`flights`). In cupy's, ``float(y[0])`` for one, a
thread is in C code until NCCL's kernel ends; where NCCL has met with an error it does not end before the
communicator is aborted.
"""

from __future__ import annotations

import threading
import weakref
from contextlib import suppress
from contextvars import Context
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.planes.flight import Flight
    from disco_magic.planes.flights import Flights

PERIOD_S: Final = 1.0


class Watching:
    """A thread that looks once a period, until it is ended or nobody has `flights` any more."""

    def __init__(self, flights: Flights) -> None:
        self._over = threading.Event()
        work = (weakref.ref(flights), self._over)
        with suppress(RuntimeError):  # too many threads: then who waits in our own way looks, as ever
            watch = threading.Thread(target=_watch, args=work, name="nccl-watch", daemon=True)
            Context().run(watch.start)  # a session may be made on a worker of another one

    def end(self) -> None:
        """It looks no more; idempotent."""
        self._over.set()


def _watch(ref: weakref.ref[Flights], over: threading.Event) -> None:
    before: Sequence[Flight | None] = ()
    while not over.wait(PERIOD_S):
        flights = ref()
        if flights is None:
            return
        before = flights.survey(before)
        del flights  # while it sleeps it keeps nothing alive
