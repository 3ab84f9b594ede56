"""Process-wide locks that an interrupted thread still holds, released when its command has ended.

Code of Python and tqdm takes some locks in one call and releases them in another. An interrupt between the
two leaves the lock taken for ever: no thread could log or import any more. A thread whose command has ended
needs none of them, and a reentrant lock knows its owner.
"""

from __future__ import annotations

import _imp
import logging
import sys
import threading
from contextlib import suppress
from importlib import _bootstrap
from typing import TYPE_CHECKING, Any, Final

from disco_magic.threads.stacks import import_locks

if TYPE_CHECKING:
    from collections.abc import Iterator

# The class of the locks of modules that are being imported.
_OF_A_MODULE: Final[Any] = vars(_bootstrap)["_ModuleLock"]


def give_back_locks() -> None:
    """Release the calling thread's locks of `logging`, its handlers, tqdm's bars, and imports."""
    for lock in _locks():
        while _is_mine(lock):
            with suppress(RuntimeError, AssertionError):
                lock.release()
    with suppress(RuntimeError):  # not, or no longer, the calling thread's
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
    yield getattr(getattr(std, "tqdm", None), "_lock", None)  # a lock chosen by `set_lock`
    yield from import_locks()


def _is_mine(lock: Any) -> bool:
    """Whether the calling thread holds the lock, as far as it can tell."""
    if isinstance(lock, _OF_A_MODULE):
        return bool(lock.owner == threading.get_ident())
    ask = getattr(lock, "_is_owned", None) or getattr(getattr(lock, "_semlock", None), "_is_mine", None)
    return ask is not None and bool(ask())
