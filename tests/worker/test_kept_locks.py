"""Locks of libraries that a thread has when its interrupted command is over."""

from __future__ import annotations

import _imp
import logging
from concurrent.futures import ThreadPoolExecutor
from importlib import _bootstrap

import pytest

from disco_magic.workers.kept_locks import give_back_locks
from tests.conftest import asked


class Quiet(logging.Handler):
    def emit(self, record):
        """Nothing."""


@pytest.fixture
def handler():
    return Quiet()


def test_those_that_the_calling_thread_has_are_given_back_however_often_it_took_them(handler):
    for _ in range(3):
        handler.acquire()
    give_back_locks()
    assert not handler.lock._is_owned()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(handler.lock.acquire, timeout=0).result()
        pool.submit(handler.lock.release).result()


def test_those_of_other_threads_stay_theirs(handler):
    handler.acquire()
    asked(give_back_locks)
    assert handler.lock._is_owned()
    handler.release()


def test_tqdms_are_given_back_too():
    std = pytest.importorskip("tqdm.std", reason="the extra 'loader' has it")
    lock = std.TqdmDefaultWriteLock()
    lock.acquire()
    give_back_locks()
    assert not lock.th_lock._is_owned()
    assert not lock.mp_lock._semlock._is_mine()


def test_those_of_imports_are_given_back_too():
    """Else nobody else could import this module, or any."""
    lock = _bootstrap._get_module_lock("tests.a_module_of_nobodys")
    for _ in range(2):
        lock.acquire()
        _imp.acquire_lock()
    asked(give_back_locks)
    assert lock.owner
    assert _imp.lock_held()
    give_back_locks()
    assert not lock.owner
    assert not _imp.lock_held()
