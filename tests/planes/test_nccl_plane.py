"""The plane of workers with a GPU each, on simulated GPUs, with the unmodified `cupy.cuda.nccl`, on a double of NCCL."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from disco_magic.core.interfaces import Seat
from disco_magic.errors import MissingDependency, PlaneAborted, PlaneError, UsageMistake
from disco_magic.planes.nccl import NcclPlane
from disco_magic.testing import PLANE_CHECKS, check_plane
from disco_magic.testing.gpu import SimulatedGpus
from disco_magic.testing.stage import group, values
from tests.doubles import nccl as doubles
from tests.planes.on_gpus import OnGpus, places

reason = doubles.available()
if reason:
    pytest.skip(reason, allow_module_level=True)


@pytest.fixture(scope="module")
def double():
    return doubles.load()


@pytest.fixture(scope="module", params=[None, 7], ids=["prompt", "lagging"])
def gpus(request, double):
    from cupy.cuda import nccl

    with SimulatedGpus(count=8, lag=request.param) as made:
        made.cupy.cuda.nccl = nccl
        yield made


@pytest.fixture(autouse=True)
def nothing_in_flight(double):
    double.reset()
    yield
    double.until_idle()
    assert double.alive == 0, "communicators were left"
    assert double.mistakes == []


def lacks(verb, x, arguments):
    if "reduce" not in verb:
        return False
    kind, op = x.dtype.kind, arguments[0]
    if x.dtype.name in ("int16", "uint16", "float16") or (kind == "f" and op == "avg"):
        return True  # refused, or rounded in another way
    return kind == "c" and op != "sum"


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("check", PLANE_CHECKS, ids=lambda check: check.__name__)
def test_the_nccl_plane_keeps_the_contract(check, size, gpus, run):
    def make(count):
        there = places(gpus.cupy, range(count))
        return OnGpus(NcclPlane(there), there, lacks)

    check_plane(make, run, sizes=[size], checks=[check])
