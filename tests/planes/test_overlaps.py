"""Results that are written where somebody still reads: planes find that out before they move anything."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.planes.device import DevicePlane
from disco_magic.planes.threads import ThreadPlane
from disco_magic.testing.gpu import SimulatedGpus
from disco_magic.testing.stage import values
from tests.planes.on_gpus import places

LENGTH = 400_000  # too long for the way of small arrays


@pytest.mark.parametrize("shift", [LENGTH // 2, -LENGTH // 2])
def test_an_array_written_in_place_that_another_member_reads_in_part(run, shift):
    """Worker 0's array is its own `out`; worker 1's begins half an array before or behind it."""
    whole = np.random.default_rng(0).standard_normal(2 * LENGTH)
    start = max(shift, 0)
    mine, yours = whole[start : start + LENGTH], whole[start - shift : start - shift + LENGTH]
    expected = mine + yours
    plane = ThreadPlane(2)

    def program(plane, seat):
        given, out = (mine, mine) if seat.worker == 0 else (yours, None)
        return plane.allreduce(seat, given, "sum", out)

    for result in values(run(plane, program, 1)):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("shift", [50, -50])
def test_the_same_on_a_gpu(run, shift):
    with SimulatedGpus(1) as gpus:
        there = places(gpus.cupy, [0, 0])
        whole = gpus.cupy.asarray(np.arange(200.0))
        start = max(shift, 0)
        mine, yours = whole[start : start + 100], whole[start - shift : start - shift + 100]
        expected = mine.get() + yours.get()
        plane = DevicePlane(there)

        def program(plane, seat):
            there[seat.worker].enter()
            first = seat.worker == 0
            result = plane.allreduce(seat, mine if first else yours, "sum", mine if first else None)
            there[seat.worker].finish()
            return result.get()

        for result in values(run(plane, program, 1)):
            assert result.tolist() == expected.tolist()
        plane.close()


def test_a_gpu_s_arrays_are_apart_where_numpy_s_are():
    """Slices of one array, forward and backward, with gaps, transposed, empty."""
    rng = np.random.default_rng(1)
    with SimulatedGpus(1) as gpus:
        memory = DevicePlane(places(gpus.cupy, [0]))._memory
        host, device = np.zeros((12, 12)), gpus.cupy.zeros((12, 12))
        for _ in range(300):
            cuts = [
                tuple(slice(*sorted(rng.integers(0, 13, 2)), rng.integers(1, 4)) for _ in range(2))
                for _ in range(2)
            ]
            flip = [rng.choice([-1, 1], 2) for _ in range(2)]
            views = [
                [whole[cut][:: step[0], :: step[1]] for cut, step in zip(cuts, flip, strict=True)]
                for whole in (host, device)
            ]
            if memory.are_apart(views[1]):
                assert not np.may_share_memory(*views[0])
