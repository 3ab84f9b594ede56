"""Copies through pinned buffers: interrupted ones, helpers that come late or fail."""

from __future__ import annotations

import threading
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

from disco_magic import patience
from disco_magic.devices import lanes
from disco_magic.devices.gpu import GpuPlace
from disco_magic.errors import WorkerInterrupt
from disco_magic.testing.gpu import SimulatedGpus
from tests.conftest import DEADLINE_S, until
from tests.gpus import in_small_chunks


@pytest.fixture
def gpus():
    with SimulatedGpus(1) as made:
        yield made


@pytest.mark.parametrize("way", ["to", "from"])
def test_a_copy_that_is_ended_between_transfer_and_event_leaves_no_buffer_in_use(gpus, monkeypatch, way):
    in_small_chunks(monkeypatch, 8000, lanes=1)
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
        monkeypatch.setattr(lanes, "wait_until", struck)  # and strikes once more in the wait for it
        raise WorkerInterrupt

    def struck(_):
        raise WorkerInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(xp.cuda.runtime, "memcpyAsync", strike)
        with pytest.raises(WorkerInterrupt):
            place.copy(*((small, np.full(125, 6.0)) if way == "to" else (np.empty(125), small)))
    monkeypatch.setattr(lanes, "wait_until", patience.wait_until)
    threading.Timer(0.5, holds[0].release).start()
    place.copy(large, np.full(8000, 9.0))
    place.finish()
    assert set(large.get().tolist()) == {9.0}
    assert set(small.get().tolist()) == {6.0 if way == "to" else 5.0}


def test_helpers_that_come_late_touch_nothing(gpus, monkeypatch):
    """All of them are at other copies when this one is made, and come when the next one is under way."""
    in_small_chunks(monkeypatch, 800)
    late = []
    monkeypatch.setattr(lanes, "wanted_help", lambda: SimpleNamespace(put=late.append))
    place = GpuPlace(gpus.cupy, 0)
    place.enter()
    there, back = gpus.cupy.zeros(1000), np.zeros(1000)
    place.copy(there, np.arange(1000.0))
    helper = threading.Thread(target=late[0].help)
    helper.start()
    place.copy(back, there)
    helper.join()
    assert len(late) == 4
    assert back.tolist() == list(range(1000))


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
