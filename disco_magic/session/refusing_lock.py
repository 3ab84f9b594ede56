"""The session's lock, which the thread that holds it is refused instead of waiting for itself.

Sequence numbers, register ids and the order on all queues are decided under it. Python runs finalizers
(`__del__`, weakref callbacks) and signal handlers between any two steps of a thread, so also while that
thread is half-way through sending a command. One that called the session there would wait for ever for its
own lock, or, were it let in, put its command between the halves of another. It gets an error instead.

A reference that is dropped there is no such call: its finalizer only writes a queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from disco_magic.errors import UsageMistake
from disco_magic.locks import new_rlock

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class RefusingLock:
    """Called with a function, it runs that while nobody else runs one.

    Attributes:
        lock: C code, so that no KeyboardInterrupt strikes between taking it and the `with` statement's body;
            a context manager in Python would be left locked. Reentrant, so that its holder gets to `taken`.
        taken: whether a function is running; only the holder of `lock` looks or writes.
    """

    __slots__ = ("lock", "taken")

    def __init__(self) -> None:
        self.lock = new_rlock()
        self.taken = False

    def __call__(self, act: Callable[[], T]) -> T:
        """``act()``, while nobody else has the lock.

        Raises:
            UsageMistake: the calling thread has it already.
        """
        with self.lock:
            if self.taken:
                self.refuse()
            self.taken = True
            try:
                return act()
            finally:
                self.taken = False

    def refuse(self) -> None:
        """Say that the calling thread has it already."""
        raise UsageMistake(
            "the session was called by a finalizer or a signal handler that struck while the same thread was "
            "sending a command; nothing was sent. Let it note what is to be done in a queue.SimpleQueue, and "
            "do that afterwards"
        )
