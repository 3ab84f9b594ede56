"""The session's lock, which refuses a thread that already holds it instead of letting it deadlock.

Sequence numbers, register ids and the order on all queues are decided under it. Python runs finalizers
(`__del__`, weakref callbacks) and signal handlers between any two steps of a thread, so also while that
thread is half-way through sending a command. If one of them called the session there, it would wait for ever
for the lock of its own thread or, if it were let in, put its command between the halves of another. It gets
an error instead.

Dropping a reference there is allowed: the reference's finalizer only writes to a queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, TypeVarTuple

from disco_magic.errors import UsageMistake
from disco_magic.threads.locks import new_rlock

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class RefusingLock:
    """Called with a function, runs it while no other thread runs one.

    Attributes:
        lock: implemented in C, so that no KeyboardInterrupt strikes between taking it and the body of the
            `with` statement, which would leave it locked. Reentrant, so that its holder can look at `taken`.
        taken: whether a function is being run; read and written only by the holder of `lock`.
    """

    __slots__ = ("lock", "taken")

    def __init__(self) -> None:
        self.lock = new_rlock()
        self.taken = False

    def __call__(self, act: Callable[[*Ts], T], *args: *Ts) -> T:
        """Return ``act(*args)``, called while no other thread runs one.

        Raises:
            UsageMistake: the calling thread is already under the lock.
        """
        with self.lock:
            if self.taken:
                self.refuse()
            self.taken = True
            try:
                return act(*args)
            finally:
                self.taken = False

    def refuse(self) -> None:
        """Raise the error for a thread that is already under the lock."""
        raise UsageMistake(
            "the session was called by a finalizer or a signal handler that struck while the same thread was "
            "sending a command; nothing was sent. Let it note what is to be done in a queue.SimpleQueue, and "
            "do that afterwards"
        )
