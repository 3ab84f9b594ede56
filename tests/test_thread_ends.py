"""Two threads that ask at once whether a third one has ended."""

from __future__ import annotations

import threading

import pytest

from disco_magic.threads.ends import has_ended, wait_for_end


class Lock:
    """The lock of a thread that has ended; whoever holds it meets ``meanwhile()``, once."""

    def __init__(self, lock, meanwhile):
        self._lock, self._meanwhile = lock, meanwhile

    def acquire(self, *args, **named):
        taken = self._lock.acquire(*args, **named)
        self._once()
        return taken

    def release(self):
        self._lock.release()
        self._once()

    def locked(self):
        return self._lock.locked()

    def _once(self):
        meanwhile, self._meanwhile = self._meanwhile, lambda _: None
        meanwhile(self._lock)


def asked_meanwhile(meanwhile):
    """A thread that has ended, of which another one asks at once; skipped where they share no lock."""
    thread = threading.Thread(target=lambda: None, daemon=True)
    thread.start()
    own = getattr(thread, "_tstate_lock", None)
    if own is None:
        pytest.skip("from Python 3.13 on, who asks takes no lock")
    with own:  # until it has ended
        pass
    thread._tstate_lock = Lock(own, meanwhile)
    return thread


WAYS = {"has_ended": has_ended, "wait_for_end": lambda thread: wait_for_end(thread, 1.0)}


@pytest.mark.parametrize("way", WAYS)
def test_who_asks_for_an_end_while_another_one_asks_gets_an_answer(way):
    """It got RuntimeError or AssertionError: the other one gave its lock back, or held it for a moment."""
    thread = asked_meanwhile(lambda lock: lock.release())
    with pytest.raises(RuntimeError, match="release unlocked lock"):
        thread.is_alive()
    thread = asked_meanwhile(lambda lock: lock.release())
    WAYS[way](thread)
    assert has_ended(thread)


def test_a_thread_that_waits_has_not_ended():
    over = threading.Event()
    thread = threading.Thread(target=over.wait, daemon=True)
    thread.start()
    wait_for_end(thread, 0.0)
    assert not has_ended(thread)
    over.set()
    wait_for_end(thread, 30.0)
    assert has_ended(thread)


def test_a_thread_does_not_wait_for_its_own_end():
    with pytest.raises(RuntimeError, match="current thread"):
        wait_for_end(threading.current_thread(), 0.0)
