"""Copies through pinned buffers: interrupted ones, helpers that come late or fail."""

from __future__ import annotations

import threading
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

from disco_magic.devices import pinned, staging
from disco_magic.devices.gpu import GpuPlace
from disco_magic.errors import WorkerInterrupt
from disco_magic.testing.gpu import SimulatedGpus
from disco_magic.threads import patience
from tests.conftest import DEADLINE_S, until
from tests.gpus import in_small_chunks


@pytest.fixture
def gpus():
    with SimulatedGpus(1) as made:
        yield made


@pytest.mark.parametrize("way", ["to", "from"])
def test_a_copy_that_is_ended_between_transfer_and_event_leaves_no_buffer_in_use(gpus, monkeypatch, way):
    in_small_chunks(monkeypatch, 8000, threads=1)
    xp = gpus.cupy
    place = GpuPlace(xp, 0)
    place.enter()
    small, large = xp.full(125, 5.0), xp.zeros(8000)
    place.copy(large, np.zeros(8000))  # all buffers are there
    transfer = xp.cuda.runtime.memcpyAsync
    holds = []

    def strike(*arguments):
        holds.append(gpus.hold(place.stream))
        transfer(*arguments)
        monkeypatch.setattr(pinned, "wait_until", struck)  # and strikes once more in the wait for it
        raise WorkerInterrupt

    def struck(_):
        raise WorkerInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(xp.cuda.runtime, "memcpyAsync", strike)
        with pytest.raises(WorkerInterrupt):
            place.copy(*((small, np.full(125, 6.0)) if way == "to" else (np.empty(125), small)))
    monkeypatch.setattr(pinned, "wait_until", patience.wait_until)
    threading.Timer(0.5, holds[0].release).start()
    place.copy(large, np.full(8000, 9.0))
    place.finish()
    assert set(large.get().tolist()) == {9.0}
    assert set(small.get().tolist()) == {6.0 if way == "to" else 5.0}


def test_helpers_that_come_late_touch_nothing(gpus, monkeypatch):
    """All of them are at other copies when this one is made, and come when the array has changed."""
    in_small_chunks(monkeypatch, 800)
    late = []
    monkeypatch.setattr(pinned, "wanted_help", lambda: SimpleNamespace(put=late.append))
    place = GpuPlace(gpus.cupy, 0)
    place.enter()
    host, there = np.arange(1000.0), gpus.cupy.zeros(1000)
    place.copy(there, host)
    host[...] = -1
    helper = threading.Thread(target=late[0].help)
    helper.start()
    helper.join()
    place.finish()
    assert len(late) == 2
    assert there.get().tolist() == list(range(1000))


def test_several_first_copies_start_the_helpers_once(monkeypatch):
    monkeypatch.setattr(pinned, "THREADS", 4)
    monkeypatch.setattr(pinned, "_started", 0)
    started, gate = [], threading.Barrier(4)
    monkeypatch.setattr(pinned, "help_with", started.append)

    def first():
        gate.wait(DEADLINE_S)
        pinned.wanted_help()

    callers = [threading.Thread(target=first) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    until(lambda: len(started) == 3)
    assert pinned._started == 3


def test_a_helper_without_memory_leaves_the_work_to_the_others(gpus, monkeypatch):
    in_small_chunks(monkeypatch, 800)
    place = GpuPlace(gpus.cupy, 0)
    place.enter()
    caller, find = threading.current_thread(), pinned.ring_for

    def nothing_left(copy, ring):
        if threading.current_thread() is not caller:
            raise MemoryError("no pinned memory")
        return find(copy, ring)

    monkeypatch.setattr(pinned, "ring_for", nothing_left)
    there = gpus.cupy.zeros(1000)
    place.copy(there, np.arange(1000.0))
    assert there.get().tolist() == list(range(1000))


def test_the_first_copy_of_another_gpu_needs_no_thread_that_has_entered(monkeypatch):
    with SimulatedGpus(2) as both:
        place = GpuPlace(both.cupy, 1)
        with both.cupy.cuda.Device(1):
            there = both.cupy.zeros(10)
        place.copy(there, np.arange(10.0))
        assert there.get().tolist() == list(range(10))


SIZES = [1, 2, staging.LEAST_NBYTES, staging.ALONE_NBYTES, staging.CHUNK_NBYTES, 10**9]


@pytest.mark.parametrize("nbytes", SIZES)
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_chunks_cover_every_array(monkeypatch, nbytes, more):
    monkeypatch.setattr(pinned, "THREADS", 12)
    nbytes = max(1, nbytes + more)
    chunk, helpers = staging._division(nbytes)
    chunks = -(-nbytes // chunk)
    assert 0 < chunk <= staging.CHUNK_NBYTES
    assert 0 <= helpers < pinned.THREADS
    assert helpers < chunks or chunks == 1


def test_a_copy_that_is_done_keeps_no_array(gpus, monkeypatch):
    in_small_chunks(monkeypatch, 800)
    place = GpuPlace(gpus.cupy, 0)
    place.enter()
    host = np.zeros(1000)
    gone = weakref.ref(host)
    place.copy(gpus.cupy.ones(1000), host)
    place.copy(host, gpus.cupy.ones(1000))
    del host
    until(lambda: gone() is None)


def test_what_a_helper_meets_is_raised_by_the_copy(gpus, monkeypatch):
    in_small_chunks(monkeypatch, 800)
    place = GpuPlace(gpus.cupy, 0)
    place.enter()
    caller, transfer = threading.current_thread(), gpus.cupy.cuda.runtime.memcpyAsync
    struck = threading.Event()

    def fail_elsewhere(*arguments):
        if threading.current_thread() is not caller:
            struck.set()
            raise MemoryError("no more of it")
        assert struck.wait(DEADLINE_S)
        transfer(*arguments)

    there = gpus.cupy.zeros(1000)
    with monkeypatch.context() as patch:
        patch.setattr(gpus.cupy.cuda.runtime, "memcpyAsync", fail_elsewhere)
        with pytest.raises(MemoryError, match="no more of it"):
            place.copy(there, np.ones(1000))
    place.copy(there, np.full(1000, 2.0))
    assert set(there.get().tolist()) == {2.0}


def test_memory_that_a_helper_still_writes_to_is_given_to_nobody(gpus, monkeypatch):
    """Two interrupts end a copy while a helper has a chunk; the array is dropped, and another one made."""
    in_small_chunks(monkeypatch, 800)
    place = GpuPlace(gpus.cupy, 0)
    place.enter()
    caller, held, go = threading.current_thread(), threading.Event(), threading.Event()
    rest = pinned.Copy.rest

    class Numpy:
        def __getattr__(self, name):
            return getattr(np, name)

        def copyto(self, *arrays):
            if threading.current_thread() is caller:
                assert held.wait(DEADLINE_S)
                raise WorkerInterrupt
            held.set()
            assert go.wait(DEADLINE_S)
            np.copyto(*arrays)

    def interrupted_again(copy):
        raise WorkerInterrupt

    there = gpus.cupy.zeros(1000)
    with monkeypatch.context() as patch:
        patch.setattr(pinned, "np", Numpy())
        patch.setattr(pinned.Copy, "rest", interrupted_again)
        with pytest.raises(WorkerInterrupt):
            place.copy(there, np.full(1000, 7.0))
        del there
        other = gpus.cupy.zeros(1000)
        place.finish()
        go.set()
        rest(place._staging._copy)
    place.copy(gpus.cupy.ones(1000), np.zeros(1000))
    place.finish()
    assert set(other.get().tolist()) == {0.0}


def test_a_copy_needs_no_helper_that_could_not_be_started_and_a_later_one_has_it(gpus, monkeypatch):
    in_small_chunks(monkeypatch, 8000, threads=2)
    monkeypatch.setattr(pinned, "_started", 0)
    monkeypatch.setattr(pinned, "THREADS", 2)
    place = GpuPlace(gpus.cupy, 0)
    place.enter()
    array = gpus.cupy.zeros(8000)

    def start(_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as broken:
        broken.setattr(threading.Thread, "start", start)
        place.copy(array, np.full(8000, 2.0))
    place.finish()
    assert set(array.get().tolist()) == {2.0}
    assert pinned._started == 0
    queue = pinned.wanted_help()
    assert pinned._started == 1
    queue.put(None)  # it is one more than other tests have
