"""Locks that are free in a forked process, and released whenever a Ctrl-C or an interrupt strikes.

A fork has only the thread that forked. A lock held by another thread at that moment would be held there for
ever, and the processes of a `DataLoader` do use some of ours: they flush ``sys.stdout`` as they end. What
such a lock guards may be half changed in the child; the thread that was changing it is not there.
"""

from __future__ import annotations

import _thread
import os
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

if TYPE_CHECKING:
    from collections.abc import Iterator
    from threading import Lock, RLock

# No callbacks, as sets of weak references have them: a Ctrl-C that strikes in one is lost.
_locks: Final[list[ref[Any]]] = []
_ROOM: Final = [1000]  # how many locks there may be before dead references are removed
_tidying: Final = threading.Lock()
STRIKES_AFTER_ENTER: Final = sys.version_info[:2] == (3, 14)
"""Whether what is pending strikes a thread as ``__enter__`` returns, before the block of the ``with``."""


def new_lock() -> Lock:
    """Make a lock like `threading.Lock`."""
    made: Lock = _made(threading.Lock())
    return made


def new_rlock() -> RLock:
    """Make a lock like `threading.RLock`; one that the forking thread holds stays its own."""
    made: RLock = _made(_thread.RLock())  # what `threading.RLock`, a function, returns; every cell makes two
    return made


def takes(lock: Lock, limit_s: float) -> Iterator[bool]:
    """What takes a lock in the head of a loop: true once it is taken, nothing if it is not within `limit_s`.

        for mine in takes(lock, 0.0):
            break

    A call would return with the lock, and an interrupt or a Ctrl-C could strike before anything notes it.
    Nothing strikes between a loop's taking what its iterator has and its variable.
    """
    return iter(partial(lock.acquire, timeout=limit_s), False)  # noqa: FBT003 - `iter` takes no keywords


class EnteredAtOnce:
    """A lock for Python 3.14, where an interrupt may strike after ``__enter__``, and leave a lock taken.

    It does if ``__enter__`` is C code (CPython's issue 148874; mended in 3.15). Nothing strikes a loop as it
    takes what its iterator has, nor a function as it returns.
    """

    __slots__ = ("__exit__", "__weakref__", "_lock", "_takes", "acquire", "release")

    def __init__(self, lock: Lock | RLock) -> None:
        self._lock = lock
        self._takes = iter(lock.acquire, None)
        self.acquire, self.release = lock.acquire, lock.release
        self.__exit__ = lock.__exit__  # C code, which nothing strikes as it begins

    def __enter__(self) -> bool:
        for _ in self._takes:
            break
        return True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lock, name)


def _made(lock: Any) -> Any:
    made = EnteredAtOnce(lock) if STRIKES_AFTER_ENTER else lock
    _locks.append(ref(made))
    if len(_locks) >= _ROOM[0]:
        _tidy()
    return made


def _tidy() -> None:
    count = len(_locks)
    if not _tidying.acquire(blocking=False):
        return
    try:
        there = [*filter(lambda each: each() is not None, _locks[:count])]
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
