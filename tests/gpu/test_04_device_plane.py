"""Several workers on one real GPU: the contract of a plane, with the kernels that NVRTC makes."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.planes.device import DevicePlane
from disco_magic.planes.reductions import reduction
from disco_magic.testing import PLANE_CHECKS, check_plane
from disco_magic.testing.stage import values
from tests.gpu.machine import QUICK, SIMULATED
from tests.planes.conftest import run
from tests.planes.on_gpus import OnGpus, places

CHECKS = [check for check in PLANE_CHECKS if not (QUICK and "reductions" in check.__name__)]


@pytest.mark.parametrize("size", [2] if QUICK else [1, 2, 3, 4], ids=lambda size: f"workers-{size}")
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_device_plane_keeps_the_contract(check, size, cupy):
    def make(count):
        there = places(cupy, [0] * count)
        return OnGpus(DevicePlane(there), there)

    check_plane(make, run, sizes=[size], checks=[check])


@pytest.mark.parametrize("count", [2, 4, 8])
def test_large_arrays_have_the_bits_of_numpy(count, cupy):
    length = 100_003 if SIMULATED else 10_000_003
    arrays = [np.random.default_rng(worker).standard_normal(length, "f4") for worker in range(count)]
    plane = DevicePlane(places(cupy, [0] * count))

    def program(plane, seat):
        place = plane._places[seat.worker]
        place.enter()
        x = place.adopt(arrays[seat.worker])
        for _ in range(3):  # every round into memory of the one before
            total = plane.allreduce(seat, x, "sum", None)
            everyone = plane.allgather(seat, total[:1000], 0, None)
        return place.take(total), place.take(everyone)

    try:
        outcomes = values(run(plane, program, 1))
    finally:
        plane.close()
    rule = reduction("allreduce", "sum", np.dtype("f4"))
    (expected,) = targets = [np.empty(length, "f4")]
    rule.fold(arrays, targets, np.empty((2, length), "f4"))
    for total, everyone in outcomes:
        assert total.tobytes() == expected.tobytes()
        assert everyone.tobytes() == expected[:1000].tobytes() * count


def test_bfloat16(cupy):
    formats = pytest.importorskip("ml_dtypes")
    try:
        cupy.empty(1, formats.bfloat16)
    except (TypeError, ValueError) as reason:
        pytest.skip(f"cupy {cupy.__version__} has no bfloat16: {reason}")
    host = (np.arange(1000) / 8).astype(formats.bfloat16)
    plane = DevicePlane(places(cupy, [0, 0]))

    def program(plane, seat):
        place = plane._places[seat.worker]
        place.enter()
        x = cupy.empty(host.shape, host.dtype)
        place.copy(x.view("uint16"), host.view("uint16"))
        got = [plane.allreduce(seat, x, "sum", None), plane.broadcast(seat, x, 1, None)]
        assert [each.dtype for each in got] == [host.dtype] * 2
        return [place.take(each.view("uint16")) for each in got]

    try:
        for total, same in values(run(plane, program, 1)):
            assert (total.view(host.dtype) == (host.astype("f4") * 2).astype(host.dtype)).all()
            assert (same.view(host.dtype) == host).all()
    finally:
        plane.close()
