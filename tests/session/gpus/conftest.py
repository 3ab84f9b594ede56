"""Two simulated GPUs, and four workers on one of them."""

from __future__ import annotations

import pytest

from disco_magic.testing.gpu import SimulatedGpus
from tests.gpus import LAGS, found


@pytest.fixture(scope="module", params=LAGS.values(), ids=LAGS)
def machine(request):
    with SimulatedGpus(count=2, lag=request.param) as made:
        yield made


@pytest.fixture
def gpus(machine, monkeypatch):
    found(monkeypatch, machine, 2)
    return machine


@pytest.fixture
def cupy(gpus):
    """Their module; `tests/gpu` has one of this name for a real GPU."""
    return gpus.cupy


@pytest.fixture
def shared(gpus, session):
    """Four workers on one GPU."""
    return session(4, devices=[0] * 4)
