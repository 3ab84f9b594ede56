"""Locks that somebody else has, or waits for."""

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


class Told:
    """A lock that says when somebody who has to wait asks for it."""

    def __init__(self, lock):
        self.lock, self.awaited = lock, threading.Event()

    def __enter__(self):
        if not self.lock.acquire(blocking=False):
            self.awaited.set()
            self.lock.acquire()

    def __exit__(self, *exception):
        self.lock.release()


def beside(act, until):
    """A thread that acts; returns it when it is done, or `until` is set: it waits for a lock."""
    done = threading.Event()

    def acting():
        try:
            act()
        finally:
            done.set()
            until.set()

    thread = threading.Thread(target=acting)
    thread.start()
    assert until.wait(20)
    return thread
