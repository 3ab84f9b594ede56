"""Locks that a forked process finds free.

It has the one thread that has forked it. What another thread held just then would be held there for ever, and
what processes of a `DataLoader` do with ours is little, but not nothing: they flush ``sys.stdout`` as they
end. What such a lock guards may be half changed in the child; who wrote it is not there to end it.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

if TYPE_CHECKING:
    from threading import Lock, RLock

_locks: Final[WeakSet[Any]] = WeakSet()


def new_lock() -> Lock:
    """As `threading.Lock`."""
    made = threading.Lock()
    _locks.add(made)
    return made


def new_rlock() -> RLock:
    """As `threading.RLock`; one that the forking thread holds stays its own."""
    made = threading.RLock()
    _locks.add(made)
    return made


def _free_all() -> None:
    for each in list(_locks):
        is_owned = getattr(each, "_is_owned", None)  # of those that are reentrant
        if is_owned is None or not is_owned():
            each._at_fork_reinit()  # noqa: SLF001 - what `threading` itself calls for its own


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_all)
