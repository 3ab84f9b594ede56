"""NCCL on a real GPU, with one rank: all that one GPU allows without tricks."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.core.seat import Seat
from disco_magic.planes.nccl import NcclPlane
from disco_magic.testing import PLANE_CHECKS, check_plane
from tests.gpu.nccl import needs_nccl
from tests.planes.conftest import run
from tests.planes.on_gpus import OnGpus, lacks_in_nccl, places

pytestmark = needs_nccl


@pytest.mark.parametrize("check", PLANE_CHECKS, ids=lambda check: check.__name__)
def test_the_nccl_plane_keeps_the_contract(check, cupy):
    def make(count):
        there = places(cupy, range(count))
        return OnGpus(NcclPlane(there), there, lacks_in_nccl)

    check_plane(make, run, sizes=[1], checks=[check])


@pytest.fixture
def alone(session):
    return session(1, ccl="nccl", devices=[0])


def test_a_session_of_one_worker_connects(alone):
    assert alone.plane_name == "nccl"
    alone.sync_all()
    result = alone.run("allreduce(xp.arange(3.0) + 1).get().tolist()")
    assert result.values[0] == [1, 2, 3]


@pytest.mark.parametrize("op", ["sum", "prod", "min", "max", "avg"])
@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int32", "uint64", "float16", "float32", "float64"]
)
def test_dtypes_have_the_numbers_that_nccl_gives_them(cupy, dtype, op, alone):
    array = (np.arange(1000) % 120).astype(dtype)
    alone["x"] = alone.copy_to_worker_0(array)
    alone.run(f"y = allreduce(x, {op!r})")
    expected = array.astype("float64") if op == "avg" and array.dtype.kind in "biu" else array
    np.testing.assert_array_equal(alone["y"].get(0), expected, strict=True)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_numbers_of_sixteen_and_eight_bits(cupy, name):
    dtype = np.dtype(getattr(pytest.importorskip("ml_dtypes"), name))
    host = np.arange(16).astype(dtype)
    try:
        x = cupy.empty(16, dtype)
    except (TypeError, ValueError) as reason:
        pytest.skip(f"cupy {cupy.__version__} has no {name}: {reason}")
    (place,) = there = places(cupy, [0])
    plane = NcclPlane(there)
    place.enter()
    try:
        place.copy(x.view("uint8"), host.view("uint8"))
        got = plane.allreduce(Seat(0, (0,), 1), x, "sum", None)
        assert got.dtype == dtype
        back = np.empty(host.nbytes, "uint8")
        place.copy(back, got.view("uint8"))
        assert back.tobytes() == host.tobytes()
    finally:
        plane.close()
