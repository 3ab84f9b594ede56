"""Calls of a library that calls back into Python over a bridge on which nothing may strike.

TVM's bridge (tvm_ffi 0.1.15) makes a Python object of each argument of a function that C++ calls, for some
in Python code of its own. What strikes there gives the argument's memory back twice. And an injection that
came while C++ computed strikes exactly there: it is the first bytecode that the thread executes. So:

  1. `Bridge.cross` makes such a call. From there on nothing is injected but into code of the user's, which
     the library has called: that strikes where it is, before the thread is on the bridge again.
  2. What was withheld is raised where Python code of ours goes on: in `land`, with which functions begin that
     the library calls, or else when the call is over.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from disco_magic.errors import WorkerInterrupt
from disco_magic.injection import AGAIN_S, let_strike
from disco_magic.patience import pause

if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable

_OURS: Final = __name__.partition(".")[0]
# Whose Python code is on the bridge itself.
_LIBRARIES: Final = ("tvm_ffi", "tvm")
_A_MOMENT_S: Final = 1e-6


class Hold(Protocol):
    """A thread's hold on a worker, as far as it matters here: a `disco_magic.lane.Lane`."""

    abandoned: bool
    crossing: int
    inject_at: float
    thread_id: int
    withheld: bool


class Holder(Protocol):
    """Whoever injects, and only with its mutex held: a worker."""

    @property
    def lane(self) -> Hold:
        """The hold of the thread that serves."""

    @property
    def mutex(self) -> LockType:
        """Guards it."""


class Bridge:
    """Calls of a library, made by a worker's thread."""

    def __init__(self, worker: Holder) -> None:
        self._worker = worker

    def cross(self, function: Callable[..., Any], *given: Any) -> Any:
        """Call a library's `function`; an interrupt that could not strike meanwhile strikes at the end."""
        lane, mutex = self._worker.lane, self._worker.mutex
        if lane.thread_id != threading.get_ident():
            return function(*given)  # nobody injects here
        depth = lane.crossing  # only this thread writes it
        try:
            with mutex:
                lane.crossing = depth + 1
            let_strike()
            value = function(*given)
        except BaseException:
            with mutex:  # what comes out ends the command, or the next injection does
                lane.crossing, lane.withheld = depth, False
            raise
        with mutex:
            lane.crossing = depth
        self.land(lane)
        return value

    def land(self, lane: Hold | None = None) -> None:
        """Raise what was withheld from the calling thread; a function begins that a library has called."""
        lane = lane or self._worker.lane
        if (lane.withheld or lane.abandoned) and lane.thread_id == threading.get_ident():
            with self._worker.mutex:
                lane.withheld = False
                lane.inject_at = time.monotonic() + AGAIN_S
            raise WorkerInterrupt("interrupted in a call of a library")


def on_a_bridge(lane: Hold) -> bool:
    """Whether an injection could strike the lane's thread on a bridge; with the mutex held.

    The answer holds for as long as the calling thread keeps the interpreter's lock. It has taken it anew,
    and so keeps it for 5 ms.
    """
    if not lane.crossing:
        return False
    pause(_A_MOMENT_S)
    frame = sys._current_frames().get(lane.thread_id)  # noqa: SLF001 - the documented way
    while frame is not None and frame.f_code is not Bridge.cross.__code__:
        library = str(frame.f_globals.get("__name__")).partition(".")[0]
        if library in _LIBRARIES:
            return True
        if library != _OURS:
            return False
        frame = frame.f_back
    return True
