"""A simulated GPU per test, closed at its end."""

from __future__ import annotations

import threading

import pytest

from disco_magic.testing.gpu import SimulatedGpus
from tests.testing.arrays import HOST


def gpu_threads():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("gpu-")]


@pytest.fixture
def gpus():
    assert gpu_threads() == []
    with SimulatedGpus(count=2, memory_nbytes=1 << 24) as made:
        yield made
    assert gpu_threads() == []


@pytest.fixture
def cupy(gpus):
    return gpus.cupy


@pytest.fixture
def two_streams(cupy):
    """Two streams of device 0 that do not wait for the null stream."""
    return cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)


@pytest.fixture
def x(cupy):
    """`HOST` on device 0."""
    return cupy.asarray(HOST)
