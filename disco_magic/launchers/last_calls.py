"""Threads that were given up in a call into C: at the program's end, wait for those that still compute.

Python ends while they run on, and takes C libraries down under them. OpenBLAS joins its own threads there:
while one is in a matrix product, that hangs for ever, deaf to Ctrl-C, or crashes. After the call the thread
ends by itself.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from pathlib import Path
from threading import enumerate as threads
from typing import TYPE_CHECKING, Final

from disco_magic.core.words import plural
from disco_magic.threads.ends import has_ended
from disco_magic.threads.patience import pause
from disco_magic.threads.stacks import frames, instruction_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from threading import Thread
    from types import FrameType

_given_up: Final[list[Thread]] = []
_MOST_S: Final = 30.0
_SILENT_S: Final = 1.0
_LOOK_S: Final = 0.02
_LOOKS: Final = 5  # in a row: between two parts of a call all its threads may sleep for a moment
_TASKS: Final = Path("/proc/self/task")
_LOG: Final = logging.getLogger("disco_magic")


def note_given_up(given_up: Iterable[Thread]) -> None:
    """Note threads that `await_calls` may have to wait for."""
    _given_up[:] = [*(each for each in _given_up if not has_ended(each)), *given_up]


def await_calls(most_s: float = _MOST_S) -> None:
    """Wait while threads that were given up are in calls, and any thread computes; for `most_s` at most.

    Not for those that sleep or wait: nothing is taken down under them. Those that execute Python code stop by
    themselves when Python ends. Where threads cannot be seen (not on Linux), all calls count as computing.
    Said on stderr if it takes more than a second; Ctrl-C ends it.
    """
    begun, calls, idle, silent = time.monotonic(), _calls(), 0, True
    while calls and idle < _LOOKS and (waited_s := time.monotonic() - begun) < most_s:
        if silent and waited_s > _SILENT_S:
            silent = False
            _LOG.warning(
                "the program has ended; waiting up to %g s for %s, which would crash if Python ended now"
                " (Ctrl-C ends the wait)",
                most_s,
                f"{plural(len(calls), 'thread')} in C code",
            )
        pause(_LOOK_S)
        idle = 0 if _computes() else idle + 1
        calls &= _calls()


def _calls() -> set[tuple[int, int, int]]:
    """Where each of the threads is: one that is there again has not come back from its call."""
    there = frames()
    alive = {each.ident for each in _given_up if not has_ended(each)}
    found = {thread: frame for thread, frame in there.items() if thread in alive and not _loops(frame)}
    return {(thread, id(frame), frame.f_lasti) for thread, frame in found.items()}


def _loops(frame: FrameType) -> bool:
    """Whether a thread is between two rounds of a loop, where it waits for the interpreter."""
    return instruction_of(frame).startswith("JUMP_BACKWARD")


def _computes() -> bool:
    """Whether a thread of the process runs, or could if there were a processor for it.

    Not other threads of Python's, the caller among them: they do not compute for those that were given up.
    """
    if not _TASKS.is_dir():
        return True
    others = {str(each.native_id) for each in threads() if each not in _given_up}
    for task in _TASKS.iterdir():
        with suppress(OSError):  # it has ended
            if task.name not in others and (task / "stat").read_text().rpartition(")")[2].split()[0] == "R":
                return True
    return False
