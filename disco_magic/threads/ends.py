"""Whether threads have ended, for those that several threads may ask about at once.

Up to Python 3.12, `Thread.is_alive` and `Thread.join` each take the thread's own lock for a moment to see
whether it has ended, and one asker may take another's hold for the thread's:

  1. The thread has ended. A asks: it takes the lock, and gives it back.
  2. B asks, and takes the lock.
  3. A, which is to note the end, finds the lock taken: AssertionError. It gives B's hold back as it fails.
  4. B gives the lock back once more: RuntimeError.

Only who got the lock can fail so, and nobody gets it before the thread has ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from threading import Thread

_OF_A_RACE: Final = (AssertionError, RuntimeError)


def has_ended(thread: Thread) -> bool:
    """Whether a thread that was started has ended."""
    try:
        return not thread.is_alive()
    except _OF_A_RACE:
        return True


def wait_for_end(thread: Thread, timeout_s: float) -> None:
    """Wait until another thread has ended, for `timeout_s` at most.

    Raises:
        RuntimeError: it is the calling thread.
    """
    try:
        thread.join(timeout_s)
    except _OF_A_RACE:
        if not has_ended(thread):
            raise
