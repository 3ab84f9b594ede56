"""The plane on NCCL over simulated GPUs, the unmodified `cupy.cuda.nccl` and the double; skipped without it.

Only fixtures import the double, for a conftest.py cannot be skipped.
"""

from __future__ import annotations

import pytest

from disco_magic.planes.nccl import NcclPlane
from disco_magic.testing import check_plane
from disco_magic.testing.gpu import SimulatedGpus
from tests.gpus import with_nccl
from tests.planes.on_gpus import OnGpus, lacks_in_nccl, places


@pytest.fixture(scope="module")
def double():
    """The double of NCCL, of which a file's tests leave nothing."""
    from tests.doubles import nccl

    if (reason := nccl.available()) is not None:
        pytest.skip(reason)
    return nccl.load()


LAGS = [pytest.param(None, id="prompt"), pytest.param(7, id="lagging", marks=pytest.mark.unmeasured)]


@pytest.fixture(scope="module", params=LAGS)
def gpus(request, double):
    """Eight of them, with streams that are late at random or not."""
    with SimulatedGpus(count=8, lag=request.param) as made:
        with_nccl(made)
        yield made


@pytest.fixture(autouse=True)
def nothing_in_flight(double):
    """No test leaves a communicator, or has called NCCL as it must not be called."""
    double.reset()
    yield
    double.until_idle()
    assert double.alive == 0, "communicators were left"
    assert double.mistakes == []


@pytest.fixture
def keeps_the_contract(gpus, run):
    """``keeps_the_contract(check, size)`` runs one check of the contract with `size` workers."""

    def look(check, size):
        def make(count):
            there = places(gpus.cupy, range(count))
            return OnGpus(NcclPlane(there), there, lacks_in_nccl)

        check_plane(make, run, sizes=[size], checks=[check])

    return look


@pytest.fixture
def crew(gpus, run):
    """Runs ``program(plane, seat, xp)`` on a plane of `count` workers, each at its place."""
    planes = []

    def start(program, count=4, scope=1, plane=None, groups=()):
        if plane is None:
            plane = NcclPlane(places(gpus.cupy, range(count)), groups)
            planes.append(plane)

        def entered(plane, seat):
            plane._places[seat.worker].enter()
            return program(plane, seat, gpus.cupy)

        return plane, run(plane, entered, scope)

    yield start
    for plane in planes:
        plane.close()


def good(plane, seat, xp):
    """A program for `crew` that works on any plane that is whole."""
    result = plane.allreduce(seat, xp.ones(2), "sum", None)
    return plane._places[seat.worker].take(result).tolist()
