"""Locks that somebody else has."""

from __future__ import annotations

import threading
from contextlib import contextmanager


@contextmanager
def taken_elsewhere(lock):
    """Another thread, which it gives, has the lock inside of the ``with``."""
    taken, free = threading.Event(), threading.Event()

    def hold():
        with lock:
            taken.set()
            free.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert taken.wait(20)
        yield thread
    finally:
        free.set()
        thread.join(20)
