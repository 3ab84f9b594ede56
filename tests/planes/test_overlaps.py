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


@pytest.mark.parametrize("verb", ["allreduce", "reduce"])
@pytest.mark.parametrize("op", ["sum", "avg", "max"])
@pytest.mark.parametrize("size", [1, 2])
def test_a_small_array_whose_out_has_other_strides_and_overlaps_it(run, size, op, verb):
    plane = ThreadPlane(size)

    def program(plane, seat):
        whole = np.zeros(30)
        given, out = whole[4:14], whole[0:20:2]
        given[...] = np.arange(10)
        return (
            plane.allreduce(seat, given, op, out)
            if verb == "allreduce"
            else plane.reduce(seat, given, op, 0, out)
        )

    expected = np.arange(10.0) * (size if op == "sum" else 1)
    assert values(run(plane, program, 1))[0].tolist() == expected.tolist()


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


@pytest.mark.parametrize(
    ("begins", "refused"),
    [((0, 0), True), ((0, 99), True), ((150, 51), True), ((0, 100), False), ((120, 20), False)],
)
@pytest.mark.parametrize("verb", ["allreduce", "broadcast", "alltoall"])
def test_outs_on_a_gpu_may_lie_side_by_side_but_share_nothing(run, begins, refused, verb):
    with SimulatedGpus(1) as gpus:
        there = places(gpus.cupy, [0, 0])
        whole = gpus.cupy.zeros(300)
        gpus.cupy.cuda.Device().synchronize()  # the workers' streams wait for no other
        plane = DevicePlane(there)

        def program(plane, seat):
            there[seat.worker].enter()
            begin = begins[seat.worker]
            given, out = gpus.cupy.ones(100), whole[begin : begin + 100]
            facts = {"allreduce": ("sum",), "broadcast": (0,), "alltoall": (0, None)}[verb]
            try:
                getattr(plane, verb)(seat, given, *facts, out)
            finally:
                there[seat.worker].finish()

        outcomes = run(plane, program, 1)
        if refused:
            assert all("out of workers 0 and 1 share memory" in str(each) for each in outcomes)
            assert not whole.get().any()
        else:
            assert values(outcomes) == [None, None]
            assert np.count_nonzero(whole.get()) == 200
        plane.close()
