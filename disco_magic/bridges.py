"""Calls of a library that calls back into Python over a bridge on which nothing may strike.

TVM's bridge (tvm_ffi 0.1.15) makes a Python object of each argument of a function that C++ calls, for some
in Python code of its own. What strikes there gives the argument's memory back twice. And an injection that
came while C++ computed strikes exactly there: it is the first bytecode that the thread executes. So:

  1. `cross` makes such a call. While the thread is in it, an injection is made only where it strikes before
     the thread is on the bridge again, see `on_a_bridge`.
  2. What was withheld is raised where code of ours goes on: in `land`, with which functions of ours begin
     that the library calls, or else when the call is over.
"""

from __future__ import annotations

import dis
import importlib
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from disco_magic.errors import WorkerInterrupt
from disco_magic.patience import pause
from disco_magic.stacks import frame_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from types import FrameType

# No thread is injected into again before that: what strikes while the last one is dealt with would end it.
# Shorter than the pauses between the interrupts of one stop (`injection.PAUSES_S`).
AGAIN_S: Final = 0.2
_A_MOMENT_S: Final = 1e-6
_OURS: Final = __name__.partition(".")[0]
# Whose Python code is on the bridge, and on the way to it when the library is imported.
_LIBRARIES: Final = ("tvm_ffi", "tvm", "importlib")
# Instructions behind which CPython looks for what is pending. Of a thread that was kept waiting in the look
# itself, 3.13 notices only in the next one what came meanwhile.
_LOOKS: Final = ("CALL", "CALL_FUNCTION_EX", "CALL_KW", "PRECALL")
_WAITS: Final = ("RESUME", "JUMP_BACKWARD") if sys.version_info < (3, 13) else ()
_JUMPS: Final = (0, 1)


class Hold(Protocol):
    """A thread's hold on a worker, as far as it matters here: a `disco_magic.lane.Lane`."""

    abandoned: bool
    crossing: int
    inject_at: float
    thread_id: int
    withheld: bool


class _Here(threading.local):
    """Of the calling thread: its hold on a worker, and what guards that."""

    lane: Hold | None = None
    mutex: AbstractContextManager[object] = threading.Lock()


_here: Final = _Here()


def serve(lane: Hold, mutex: AbstractContextManager[object]) -> None:
    """The calling thread has `lane` from now on; whoever injects holds `mutex`.

    A finalizer may cross a bridge while the thread holds that itself: it is reentrant.
    """
    _here.lane, _here.mutex = lane, mutex


def cross(function: Callable[..., Any], *given: Any) -> Any:
    """Call a library's `function`; an interrupt that could not strike meanwhile strikes at the end.

    Raises:
        WorkerInterrupt: that.
        Whatever the function raises.
    """
    lane, mutex = _here.lane, _here.mutex
    if lane is None:  # nobody injects here
        return function(*given)
    depth = lane.crossing  # only this thread writes it
    try:
        with mutex:
            lane.crossing = depth + 1
        for _ in _JUMPS:  # what is pending strikes here
            pass
        value = function(*given)
    except BaseException as error:
        with mutex:
            lane.crossing = depth
        if not issubclass(type(error), WorkerInterrupt):
            land()
        lane.withheld = False
        raise
    with mutex:
        lane.crossing = depth
    land()
    return value


def bring(library: str) -> None:
    """Import a library; an interrupt half-way would break it for the whole process."""
    if library not in sys.modules:
        cross(importlib.import_module, library)


def land() -> None:
    """Raise what was withheld from the calling thread; with this functions begin that a library calls."""
    lane = _here.lane
    if lane is not None and (lane.withheld or lane.abandoned):
        lane.withheld = False
        lane.inject_at = time.monotonic() + AGAIN_S
        raise WorkerInterrupt("interrupted in a call of a library")


def lands(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function that libraries call, and that looks for what is pending before it gives back."""
    _landings.add(function.__code__)
    return function


_landings: Final[set[object]] = set()


def on_a_bridge(lane: Hold) -> bool:
    """Whether an injection could strike the lane's thread on a bridge; with the mutex held.

    Not in a function that `lands`, nor in one of the user's that the library has called without it, where
    the thread is about to look for what is pending. On the bridge, or in C++, it could.

    The answer holds for as long as the calling thread keeps the interpreter's lock. It has taken it anew,
    and so is not asked for it for 5 ms.
    """
    if not lane.crossing:
        return False
    pause(_A_MOMENT_S)
    top = frame = frame_of(lane.thread_id)
    called = users = None  # the first that the library called, and the one that this called
    while frame is not None and frame.f_code is not cross.__code__:
        called, users, frame = frame, called, frame.f_back
    if called is None or top is None:
        return True
    if called.f_code in _landings:
        return users is None or _home(users) == _OURS
    return _home(called) in (_OURS, *_LIBRARIES) or not _looks(top)


def _home(frame: FrameType) -> str:
    """The package of its code."""
    name = frame.f_globals.get("__name__")
    return name.partition(".")[0] if type(name) is str else ""


def _looks(frame: FrameType) -> bool:
    """Whether the thread will look for what is pending before it executes anything else of this frame."""
    name = dis.opname[frame.f_code.co_code[max(frame.f_lasti, 0)]]
    return name in _LOOKS or name in _WAITS
