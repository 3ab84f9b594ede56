"""The plane of workers that share a GPU, on a simulated one."""

from __future__ import annotations

import pytest

from disco_magic.planes.device import DevicePlane
from disco_magic.testing import PLANE_CHECKS, check_plane
from disco_magic.testing.gpu import SimulatedGpus
from tests.planes.on_gpus import OnGpus, places

# With streams that are late at random one size will do: with peers of a peer.
SCENES = [pytest.param(None, 1, id="prompt-1"), pytest.param(7, 3, id="lagging-3")]


@pytest.fixture(scope="module")
def gpus(request):
    with SimulatedGpus(count=1, lag=request.param) as made:
        yield made


@pytest.mark.parametrize(("gpus", "size"), SCENES, indirect=["gpus"])
@pytest.mark.parametrize("check", PLANE_CHECKS, ids=lambda check: check.__name__)
def test_the_device_plane_keeps_the_contract(check, size, gpus, run):
    def make(count):
        there = places(gpus.cupy, [0] * count)
        return OnGpus(DevicePlane(there), there)

    check_plane(make, run, sizes=[size], checks=[check])
