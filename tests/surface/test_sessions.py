"""Rows of the session itself: beginning, topology, ending, and what comes after the end."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

import disco_magic as disco
from tests.surface.conftest import fail_on, groupings, who


def names_of_threads(s):
    return [thread for thread in threading.enumerate() if thread.name.startswith(f"disco-{s.id}-")]


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_threaded_session(n):
    s = disco.ThreadedSession(num_workers=n)
    try:
        assert s.call_packed(os.getpid).get_all() == [os.getpid()] * n
        threads = s.call_packed(threading.get_ident).get_all()
        assert len({*threads, threading.get_ident()}) == n + 1
    finally:
        s.shutdown()


@groupings
def test_threaded_session_with_groups(n, groups):
    size = n // groups
    with disco.ThreadedSession(n, groups) as s:
        assert (s.num_workers, s.num_groups, s.group_size) == (n, groups, size)
        places = s.call_packed(lambda: (disco.worker().group, disco.worker().group_rank)).get_all()
    assert places == [(worker // size, worker % size) for worker in range(n)]


@pytest.mark.parametrize(
    "numbers", [(0,), (4, 3), (3, 2), (4, 0), (-2,), ("4",), (True,), (100_000,)], ids=str
)
def test_threaded_session_with_impossible_numbers_starts_nothing(numbers):
    before = threading.active_count()
    with pytest.raises(disco.UsageMistake, match=r"num_\w+ is|equal groups"):
        disco.ThreadedSession(*numbers)
    assert threading.active_count() == before


@pytest.mark.parametrize("n", [1, 3])
def test_num_workers(session, n):
    s = session(n)
    assert s.num_workers == n == len(s.call_packed(who).get_all())


def test_shutdown(session):
    s = session(3)
    noted = []

    def note(step):
        if who() == 2:
            noted.append(step)

    for step in range(20):
        s.call_packed(note, step)
    s.shutdown()
    assert noted == list(range(20))
    assert names_of_threads(s) == []


def test_shutdown_is_idempotent(session, background):
    s = session(2)
    s.shutdown()
    s.shutdown()
    for ended in [background(s.shutdown) for _ in range(3)]:
        ended()
    assert s.closed


def test_context_manager():
    with disco.ThreadedSession(2) as s:
        assert s.call_packed(who).get_all() == [0, 1]
    assert s.closed
    assert names_of_threads(s) == []


def test_context_manager_raises_what_failed_last():
    with (
        pytest.raises(disco.WorkerError, match="call fail_on failed on worker 1"),
        disco.ThreadedSession(2) as s,
    ):
        s.call_packed(fail_on, 1)
    assert s.closed


def test_context_manager_lets_the_callers_own_exception_through():
    def leave():
        with s:
            raise KeyError("mine")

    s = disco.ThreadedSession(2)
    with pytest.raises(KeyError, match="mine"):
        leave()
    assert s.closed


AFTER_THE_END = {
    "call_packed": lambda s, ref: s.call_packed(who),
    "call_packed with a reference": lambda s, ref: s.call_packed(who, ref),
    "call of a function": lambda s, ref: s.call_packed(ref),
    "get_global_func": lambda s, ref: s.get_global_func("runtime.disco.barrier"),
    "empty": lambda s, ref: s.empty((2,), "float32"),
    "copy_to_worker_0": lambda s, ref: s.copy_to_worker_0(np.zeros(2)),
    "copy_to_worker_0 into a register": lambda s, ref: s.copy_to_worker_0(np.zeros(2), ref),
    "copy_from_worker_0": lambda s, ref: s.copy_from_worker_0(np.zeros(2), ref),
    "broadcast": lambda s, ref: s.broadcast(np.zeros(2)),
    "scatter": lambda s, ref: s.scatter(np.zeros(2)),
    "broadcast_from_worker0": lambda s, ref: s.broadcast_from_worker0(ref),
    "scatter_from_worker0": lambda s, ref: s.scatter_from_worker0(ref),
    "gather_to_worker0": lambda s, ref: s.gather_to_worker0(ref),
    "allreduce": lambda s, ref: s.allreduce(ref),
    "allgather": lambda s, ref: s.allgather(ref),
    "reduce_scatter": lambda s, ref: s.reduce_scatter(ref),
    "alltoall": lambda s, ref: s.alltoall(ref),
    "barrier": lambda s, ref: s.barrier(),
    "sync_worker": lambda s, ref: s.sync_worker(1),
    "sync_worker_0": lambda s, ref: s.sync_worker_0(),
    "sync_all": lambda s, ref: s.sync_all(),
    "debug_get_from_remote": lambda s, ref: ref.debug_get_from_remote(0),
    "debug_copy_from": lambda s, ref: ref.debug_copy_from(0, 1),
    "run": lambda s, ref: s.run("1"),
    "registers": lambda s, ref: s.registers(),
    "context manager": lambda s, ref: s.__enter__(),
}


@pytest.fixture(scope="module")
def ended():
    """A session that was shut down, and a reference of its."""
    with disco.ThreadedSession(2) as s:
        ref = s.call_packed(np.zeros, 2)
    return s, ref


@pytest.mark.parametrize("what", AFTER_THE_END)
def test_use_after_shutdown_is_a_clear_error(ended, what):
    s, ref = ended
    with pytest.raises(disco.SessionClosed, match=rf"session {s.id} is closed: .*; start another one"):
        AFTER_THE_END[what](s, ref)


def test_references_may_be_dropped_after_shutdown(session):
    s = session(2)
    refs = [s.call_packed(who), s.get_global_func("runtime.disco.barrier")]
    s.shutdown()
    refs.clear()
    assert s.closed
