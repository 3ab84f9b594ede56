"""Calls of a library that calls back into Python through a bridge, in which no interrupt may strike.

TVM's bridge (tvm_ffi 0.1.15) makes a Python object of each argument when C++ calls a Python function, for
some types in Python code of its own. An interrupt that strikes there frees the argument's memory twice. And
an injection made while C++ computes strikes exactly there, at the first bytecode that the thread executes.
So:

  1. `cross` makes such a call. While the thread is in it, an injection is made only if it strikes before
     the thread is on the bridge again, see `on_a_bridge`.
  2. What was withheld is raised where our own code goes on: in `land`, which our functions that the library
     calls begin with, or else at the end of the call.
"""

from __future__ import annotations

import importlib
import sys
import threading
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final, Protocol

from disco_magic.callers.sites import package_of
from disco_magic.errors import WorkerInterrupt
from disco_magic.threads.patience import pause
from disco_magic.threads.stacks import frame_of, instruction_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from types import FrameType

# No thread is injected into again before this time, because that would end its handling of the last
# injection. Shorter than the pauses between the interrupts of one stop (`injection.PAUSES_S`).
AGAIN_S: Final = 0.2
_A_MOMENT_S: Final = 1e-6
_OURS: Final = __name__.partition(".")[0]
# Packages with Python code on the bridge, and on the way to it while the library is imported.
_LIBRARIES: Final = ("tvm_ffi", "tvm", "importlib")
# Instructions after which CPython looks for pending exceptions. If a thread was kept waiting in that look,
# 3.13 notices only at the next one what arrived meanwhile.
_LOOKS: Final = ("CALL", "CALL_FUNCTION_EX", "CALL_KW", "PRECALL")
_WAITS: Final = ("RESUME", "JUMP_BACKWARD") if sys.version_info < (3, 13) else ()
_JUMPS: Final = (0, 1)


class Hold(Protocol):
    """The state of a thread's hold on a worker that functions need: a `disco_magic.workers.lane.Lane`."""

    abandoned: bool
    crossing: int
    inject_at: float
    shielded: int
    thread_id: int
    told: bool
    withheld: bool

    @property
    def interrupted(self) -> Any:
        """The command that an interrupt has claimed; None: none has."""

    def tell(self) -> None:
        """Note that the interrupt is about to be raised, see `Lane.tell`; with the mutex held."""


class _Here(threading.local):
    """The calling thread's hold on a worker, and the mutex that guards it."""

    lane: Hold | None = None
    mutex: AbstractContextManager[object] = nullcontext()


_here: Final = _Here()


def serve(lane: Hold, mutex: AbstractContextManager[object]) -> None:
    """Give the calling thread its `lane`; threads that inject into it hold `mutex`.

    `mutex` is reentrant: a finalizer may cross a bridge while the thread holds it.
    """
    _here.lane, _here.mutex = lane, mutex


def cross(function: Callable[..., Any], *given: Any) -> Any:
    """Call a library's `function`; an interrupt that could not strike meanwhile strikes at the end.

    Raises:
        WorkerInterrupt: that.
        Whatever the function raises.
    """
    lane, mutex = _here.lane, _here.mutex
    if lane is None:  # no thread injects into this one
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
    """Import a library in `cross`: an interrupt half-way would break it for the whole process."""
    if library not in sys.modules:
        cross(importlib.import_module, library)


def land() -> None:
    """Raise what was withheld from the calling thread; our functions that a library calls begin with it."""
    lane = _here.lane
    if lane is not None and (lane.withheld or lane.abandoned):
        lane.withheld = False
        lane.inject_at = time.monotonic() + AGAIN_S
        raise WorkerInterrupt("interrupted in a call of a library")


def claimed() -> int | None:
    """The number of the calling thread's command if an interrupt has claimed that, else None."""
    command = None if _here.lane is None else _here.lane.interrupted
    return None if command is None else int(command.seq)


def tell() -> None:
    """Note that the calling thread is about to raise its interrupt: it is not struck then, too."""
    lane, mutex = _here.lane, _here.mutex
    if lane is not None:
        with mutex:
            lane.tell()


def lands(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function that libraries call, and in which what is pending strikes before it returns."""
    _landings.add(function.__code__)
    return function


_landings: Final[set[object]] = set()


def on_a_bridge(lane: Hold) -> bool:
    """Whether an injection could strike the lane's thread on a bridge; call it with the mutex held.

    Not in user code called by a function that `lands`, nor in a user's function that the library has called
    directly, if the thread is about to look for what is pending. On the bridge, or in C++, it could.

    The answer holds as long as the calling thread keeps the GIL. It has just taken it anew, and so is not
    asked for it for 5 ms.
    """
    if not lane.crossing:
        return False
    pause(_A_MOMENT_S)
    top = frame = frame_of(lane.thread_id)
    called = users = None  # the first function that the library called, and the one that this called
    while frame is not None and frame.f_code is not cross.__code__:
        called, users, frame = frame, called, frame.f_back
    if called is None or top is None:
        return True
    if called.f_code in _landings:
        return users is None or package_of(users) == _OURS
    return package_of(called) in (_OURS, *_LIBRARIES) or not _looks(top)


def _looks(frame: FrameType) -> bool:
    """Whether the thread looks for what is pending before it executes anything else of this frame."""
    return instruction_of(frame) in (*_LOOKS, *_WAITS)
