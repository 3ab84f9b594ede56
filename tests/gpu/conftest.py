"""Tests that need one GPU, numpy, cupy and pytest, nothing else: ``python -m pytest -m gpu tests/gpu``.

Their files are in the order in which a new machine is best looked at. `tests.gpu.machine`: a rehearsal.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gpu.machine import lacking, machine, missing
from tests.gpu.nccl import absent
from tests.gpu.spin import Spin

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    ours, others = [], []
    for item in items:  # tens of thousands: to compare all parents of each path takes a second
        (ours if item.path.parent == HERE else others).append(item)
    reason = missing() if ours else None
    if reason is not None:  # one of each file says so, not hundreds
        first = {item.path: item for item in reversed(ours)}
        config.hook.pytest_deselected(items=[item for item in ours if item is not first[item.path]])
        ours = [item for item in ours if item is first[item.path]]
    for item in ours:
        item.add_marker(pytest.mark.gpu)
        # A new version of cupy, CUDA or NumPy may find fault with how another one of them is used.
        item.add_marker(pytest.mark.filterwarnings("default::DeprecationWarning", "default::FutureWarning"))
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=f"needs {reason}"))
    # Last: the real NCCL must not be loaded before the tests that put their double in its place.
    items[:] = others + ours


@pytest.fixture(scope="session", autouse=True)
def cupy():
    if missing() is not None:
        yield None
        return
    with machine() as module:
        reason = lacking(module)
        if reason is not None:
            pytest.skip(f"needs {reason}")
        yield module


@pytest.fixture
def shared(session):
    """Four workers on one GPU."""
    return session(4, devices=[0] * 4)


@pytest.fixture(scope="session")
def spin(cupy):
    return Spin(cupy)


@pytest.fixture(scope="session")
def nccl(cupy):
    reason = absent()
    if reason is not None:
        pytest.skip(reason)
    return cupy.cuda.nccl
