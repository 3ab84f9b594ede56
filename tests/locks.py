"""Locks that somebody else has, or waits for."""

from __future__ import annotations

import ctypes
import threading
from contextlib import contextmanager
from functools import partial

from disco_magic.errors import WorkerInterrupt


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


class StrikesWhoTakes:
    """A lock that is free, and strikes a thread in the moment in which it takes it."""

    def __init__(self):
        self.released = 0
        thread, kind = ctypes.c_ulong(threading.get_ident()), ctypes.py_object(WorkerInterrupt)
        # In C, as a lock's own; it returns 1, of one thread.
        self.acquire = partial(ctypes.pythonapi.PyThreadState_SetAsyncExc, thread, kind)

    def release(self):
        self.released += 1


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
