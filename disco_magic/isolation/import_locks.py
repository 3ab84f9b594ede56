"""Locks of modules that are being executed, for the modules that each worker has of its own."""

from __future__ import annotations

import threading
from importlib import _bootstrap
from typing import Any, Final

_SYSTEM: Final[Any] = _bootstrap


class ImportLock:
    """Held by the thread that executes one module. Reentrant, like the import system's own locks.

    Threads that wait for each other's modules get them half-initialized. Workers are not interrupted where
    the lock is taken or released.
    """

    def __init__(self, name: str) -> None:
        self._lock = _SYSTEM._ModuleLock(name)  # noqa: SLF001 - its other locks are global
        self._taken = threading.local()

    def __enter__(self) -> None:
        taken: list[bool] = self._taken.__dict__.setdefault("taken", [])
        try:
            self._lock.acquire()
            taken.append(True)
        except _SYSTEM._DeadlockError:  # noqa: SLF001
            taken.append(False)

    def __exit__(self, *_: object) -> None:
        if self._taken.taken.pop():
            self._lock.release()
