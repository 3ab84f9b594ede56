"""A process that is forked finds our locks free, whichever thread held them."""

from __future__ import annotations

import os
import threading
import warnings

import pytest

from disco_magic.threads.locks import new_lock, new_rlock
from tests.conftest import DEADLINE_S

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked here"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning"),
]


def ends(child):
    """How a forked process ends that does that; it has a second for each try to take a lock."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        number = os.fork()
    if not number:
        try:
            os._exit(0 if child() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


@pytest.mark.parametrize("make", [new_lock, new_rlock])
def test_what_another_thread_held_is_free_in_the_child_and_held_here(make):
    lock, held, done = make(), threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            done.wait(DEADLINE_S)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(DEADLINE_S)
    try:
        assert ends(lambda: lock.acquire(timeout=1)) == 0
        assert not lock.acquire(blocking=False)
    finally:
        done.set()
        thread.join()


def test_what_the_forking_thread_holds_stays_its_own():
    with new_rlock() as held:
        assert held
        assert ends(lambda: True) == 0
