"""Locks of the whole process that an interrupted thread has kept, given back when its command is over.

Python's and tqdm's own code takes some by a call and gives them back by another one. What strikes between the
two leaves the lock taken for ever: nobody could log or import any more. A thread whose command is over needs
none of them, and a reentrant lock knows whose it is.
"""

from __future__ import annotations

import _imp
import logging
import sys
import threading
from contextlib import suppress
from importlib import _bootstrap
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

# What somebody imports at the moment, and the kind of the locks on that.
_OF_MODULES: Final[dict[str, Any]] = vars(_bootstrap)["_module_locks"]
_OF_A_MODULE: Final[Any] = vars(_bootstrap)["_ModuleLock"]


def give_back_locks() -> None:
    """Release those that the calling thread has: of `logging`, its handlers, tqdm's bars, of imports."""
    for lock in _locks():
        while _is_mine(lock):
            with suppress(RuntimeError, AssertionError):
                lock.release()
    with suppress(RuntimeError):  # it is not, or no longer, the calling thread's
        while True:
            _imp.release_lock()


def _locks() -> Iterator[Any]:
    yield getattr(logging, "_lock", None)
    for handler in [each() for each in list(getattr(logging, "_handlerList", ()))]:
        yield getattr(handler, "lock", None)
    std = sys.modules.get("tqdm.std")
    kind = getattr(std, "TqdmDefaultWriteLock", None)
    for name in ("mp_lock", "th_lock"):
        yield getattr(kind, name, None)
    yield getattr(getattr(std, "tqdm", None), "_lock", None)  # one that was chosen by `set_lock`
    for each in list(_OF_MODULES.values()):
        yield each()


def _is_mine(lock: Any) -> bool:
    """Whether the calling thread has it, as far as it can tell."""
    if isinstance(lock, _OF_A_MODULE):
        return bool(lock.owner == threading.get_ident())
    ask = getattr(lock, "_is_owned", None) or getattr(getattr(lock, "_semlock", None), "_is_mine", None)
    return ask is not None and bool(ask())
