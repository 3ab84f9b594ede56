"""Locks that are free in a forked process.

A fork has only the thread that forked. A lock held by another thread at that moment would be held there for
ever, and the processes of a `DataLoader` do use some of ours: they flush ``sys.stdout`` as they end. What
such a lock guards may be half changed in the child; the thread that was changing it is not there.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

if TYPE_CHECKING:
    from threading import Lock, RLock

# No callbacks, as sets of weak references have them: a Ctrl-C that strikes in one is lost.
_locks: Final[list[ref[Any]]] = []
_ROOM: Final = [1000]  # how many locks there may be before dead references are removed
_tidying: Final = threading.Lock()


def new_lock() -> Lock:
    """Make a lock like `threading.Lock`."""
    made = threading.Lock()
    _add(made)
    return made


def new_rlock() -> RLock:
    """Make a lock like `threading.RLock`; one that the forking thread holds stays its own."""
    made = threading.RLock()
    _add(made)
    return made


def _add(made: Any) -> None:
    _locks.append(ref(made))
    count = len(_locks)
    if count < _ROOM[0] or not _tidying.acquire(blocking=False):
        return
    try:
        there = [each for each in _locks[:count] if each() is not None]
        _locks[:count] = there  # what was added meanwhile follows
        _ROOM[0] = 1000 + 2 * len(there)
    finally:
        _tidying.release()


def _free_all() -> None:
    for each in [lock for one in _locks if (lock := one()) is not None]:
        is_owned = getattr(each, "_is_owned", None)  # only reentrant locks have it
        if is_owned is None or not is_owned():
            each._at_fork_reinit()  # noqa: SLF001 - `threading` itself calls this for its own locks


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_all)
