"""The plane of workers that share a GPU, on a simulated one."""

from __future__ import annotations

import pytest

from disco_magic.planes.device import DevicePlane
from disco_magic.testing import PLANE_CHECKS, check_plane
from disco_magic.testing.gpu import SimulatedGpus
from tests.planes.on_gpus import OnGpus, places

LAGS = [pytest.param(None, id="prompt"), pytest.param(7, id="lagging", marks=pytest.mark.no_cover)]


@pytest.fixture(scope="module", params=LAGS)
def gpus(request):
    with SimulatedGpus(count=1, lag=request.param) as made:
        yield made


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("check", PLANE_CHECKS, ids=lambda check: check.__name__)
def test_the_device_plane_keeps_the_contract(check, size, gpus, run):
    def make(count):
        there = places(gpus.cupy, [0] * count)
        return OnGpus(DevicePlane(there), there)

    check_plane(make, run, sizes=[size], checks=[check])
