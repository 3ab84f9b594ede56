"""Who is loading what: threads that load the same thing take turns, and never wait in a circle."""

from __future__ import annotations

import threading
from typing import Final

from disco_magic.callers.current import calling_worker
from disco_magic.errors import UsageMistake
from disco_magic.threads.locks import new_lock

# An exception injected into a worker that waits for another's import strikes between two waits.
_PATIENCE_S: Final = 0.05


class Claim:
    """A thread that loads something, or wants to."""

    __slots__ = ("key", "over", "thread", "worker")

    def __init__(self, key: str) -> None:
        self.key = key
        self.thread = threading.get_ident()
        # None for a thread of the user's, which may carry a worker's context but is not the worker's thread.
        worker = calling_worker()
        self.worker = worker if worker is not None and worker.thread == self.thread else None
        self.over = threading.Event()

    @property
    def is_forfeit(self) -> bool:
        """Whether its thread was given up: it is stuck in code that may never end, and its worker goes on."""
        return self.worker is not None and self.worker.thread not in (0, self.thread)

    def waits_for(self, thread: int) -> bool:
        """Whether this is `thread`, or waits for it, directly or not: a circle if that is the caller."""
        seen: set[int] = set()
        at: int | None = self.thread
        while at is not None and at not in seen:
            if at == thread:
                return True
            seen.add(at)
            awaited = _awaited.get(at)
            at = None if awaited is None else awaited.thread
        return False

    def take(self) -> None:
        """Wait until no other thread loads `key`. Call it within a ``try`` that ends in `give_back`."""
        key = self.key
        # Atomic: `dict.setdefault`, with a key that is hashed and compared in C, is one step of the
        # interpreter.
        while (owner := claims.setdefault(key, self)) is not self:
            # Entered before looking: if two close a circle at once, at least one of them sees it.
            _awaited[self.thread] = owner
            if owner.waits_for(self.thread):
                raise UsageMistake(f"'{key}' loads itself while it is being loaded")
            if owner.is_forfeit:
                with _taking_over:  # the first of several that see it takes it away
                    if claims.get(key) is owner:
                        del claims[key]
            else:
                owner.over.wait(_PATIENCE_S)
        _awaited.pop(self.thread, None)

    def give_back(self) -> None:
        """Let others load `key`, whether or not it was taken."""
        _awaited.pop(self.thread, None)
        if claims.get(self.key) is self:
            del claims[self.key]
        self.over.set()


def loads_something() -> bool:
    """Whether the calling thread is loading something."""
    return bool(claims) and any(each.thread == threading.get_ident() for each in [*claims.values()])


def load_waited_for(thread: int) -> tuple[str, int] | None:
    """What a thread waits for another thread to load, and that one's id; None if it does not wait."""
    owner = _awaited.get(thread)
    return None if owner is None else (owner.key, owner.thread)


claims: dict[str, Claim] = {}
_awaited: dict[int, Claim] = {}  # thread -> the claim that it waits for
_taking_over = new_lock()
