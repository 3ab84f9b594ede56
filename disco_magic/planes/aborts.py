"""Threads that abort communicators of NCCL, of all planes of the process."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Final

from disco_magic.threads.locks import new_lock
from disco_magic.threads.own_threads import start_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

goes_on: Final = attrgetter("goes_on")


class Abort:
    """A thread that aborts.

    Attributes:
        thread: for whoever waits for its end.
        goes_on: whether it has not ended. All workers of a plane ask that, again and again.

    Raises:
        RuntimeError: no thread can be started.
    """

    def __init__(self, work: Callable[[], object]) -> None:
        self.goes_on = True
        self.thread = start_thread("nccl-abort", self._run, work)
        with _of_all:
            _aborting[:] = [*filter(goes_on, _aborting), self]

    def _run(self, work: Callable[[], object]) -> None:
        try:
            work()
        finally:
            self.goes_on = False


# One left behind by a former plane frees memory, which waits for every GPU that NCCL has connected: it and a
# part that starts meanwhile may deadlock.
_aborting: Final[list[Abort]] = []
_of_all: Final = new_lock()


def others_abort(own: Sequence[Abort]) -> bool:
    """Whether any but a plane's `own` have not ended."""
    return any(each.goes_on for each in list(_aborting) if each not in own)
