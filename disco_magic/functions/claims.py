"""Who is loading what: threads that want the same take turns, and never wait for themselves in a circle."""

from __future__ import annotations

import threading
from typing import Final

from disco_magic.callers.current import calling_worker
from disco_magic.errors import UsageMistake
from disco_magic.locks import new_lock

# An exception injected into a worker that waits for another one's import strikes between two waits.
_PATIENCE_S: Final = 0.05


class Claim:
    """A thread that loads something, or wants to."""

    __slots__ = ("over", "thread", "worker")

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        # Not that of a thread of the user's, which may carry a worker's context and is no worker's thread.
        worker = calling_worker()
        self.worker = worker if worker is not None and worker.thread == self.thread else None
        self.over = threading.Event()

    @property
    def is_forfeit(self) -> bool:
        """Whether its thread was given up: stuck in code that may never end, while its worker goes on."""
        return self.worker is not None and self.worker.thread not in (0, self.thread)

    def waits_for(self, thread: int) -> bool:
        """Whether it cannot end before `thread` has ended what it loads: a circle, if that is the caller."""
        seen: set[int] = set()
        at: int | None = self.thread
        while at is not None and at not in seen:
            if at == thread:
                return True
            seen.add(at)
            awaited = _awaited.get(at)
            at = None if awaited is None else awaited.thread
        return False

    def take(self, key: str) -> None:
        """Wait until nobody else loads `key`. Call it within a ``try`` that ends in `give_back`.

        Raises:
            UsageMistake: whoever does waits for the caller: what is loaded loads itself.
        """
        # Atomic: dict.setdefault, with a key whose hash and comparison are C, is one step of the interpreter.
        while (owner := claims.setdefault(key, self)) is not self:
            # Entered before looking: of two that close a circle at once, one at least sees it.
            _awaited[self.thread] = owner
            if owner.waits_for(self.thread):
                raise UsageMistake(f"'{key}' loads itself while it is being loaded")
            if owner.is_forfeit:
                with _taking_over:  # of several that see it, the first one takes it away
                    if claims.get(key) is owner:
                        del claims[key]
            else:
                owner.over.wait(_PATIENCE_S)
        _awaited.pop(self.thread, None)

    def give_back(self, key: str) -> None:
        """Let others load `key`, whether it was taken or not."""
        _awaited.pop(self.thread, None)
        if claims.get(key) is self:
            del claims[key]
        self.over.set()


claims: dict[str, Claim] = {}
_awaited: dict[int, Claim] = {}  # thread -> whose end it waits for
_taking_over = new_lock()
