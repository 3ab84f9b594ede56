"""Which worker has started a thread: cells hand work to pools and timers, which know nothing of workers.

While any session runs, `threading.Thread.start` notes it on the new thread; a thread that such a thread
starts counts as started by the same worker.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    Key = tuple[int, int]  # session, worker

_NOTE: Final = "_disco_started_by"
_start: Final = threading.Thread.start
_ask: list[Callable[[], Key | None]] = []
_below: list[Callable[[threading.Thread], None]] = []  # what was there before; others put theirs there, too


def begin(ask: Callable[[], Key | None]) -> None:
    """From now on each thread notes what `ask` says of the thread that starts it. Idempotent."""
    if not _ask:
        _ask.append(ask)
    if not _below:  # else it is there still, below somebody else's
        _below.append(threading.Thread.start)
        threading.Thread.start = _noting  # type: ignore[method-assign]  # there is no other way


def end() -> None:
    """No more; unless somebody else has put something over it, which stays. Idempotent."""
    _ask.clear()
    if threading.Thread.start is _noting and _below:
        threading.Thread.start = _below.pop()  # type: ignore[assignment, method-assign]


def starter() -> Key | None:
    """Who has started the calling thread; None: no worker."""
    return getattr(threading.current_thread(), _NOTE, None)


def _noting(self: threading.Thread) -> None:
    for ask in _ask[:1]:
        key = ask() or starter()
        if key is not None:
            setattr(self, _NOTE, key)
    (_below[:1] or [_start])[0](self)
