"""Many copies in one launch: the kernel in ``copies.cu`` by g++; see `tests.planes.fold_host`."""

from __future__ import annotations

import re

import numpy as np
import pytest

from disco_magic.errors import UsageMistake
from disco_magic.planes import copier, kernels, variants
from disco_magic.planes.copier import Copier
from disco_magic.planes.device import DevicePlane
from disco_magic.testing.gpu import SimulatedGpus
from disco_magic.testing.stage import values
from tests.planes.fold_host import GXX, HostCupy, lent
from tests.planes.on_gpus import OnGpus, places

pytestmark = pytest.mark.skipif(GXX is None, reason="no g++")

LENGTHS = [0, 1, 15, 16, 17, 64, 1000, 4096, 4097, 20_000]


class Yard:
    """Memory for copies, with bytes between them that nobody may touch."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.blocks = []

    def flat(self, dtype, length, odd):
        """An array `odd` bytes behind what every access is aligned to."""
        nbytes = length * np.dtype(dtype).itemsize
        block = self.rng.integers(0, 256, nbytes + 64, np.uint8)
        self.blocks.append(block)
        start = -block.ctypes.data % 16 + odd
        return block[start : start + nbytes].view(dtype)

    def section(self, dtype, shape, wider, start):
        """Columns from `start` on of an array that has `wider` more of them."""
        rows, columns = shape
        whole = self.flat(dtype, rows * (columns + wider), 0).reshape(rows, columns + wider)
        return whole[:, start : start + columns]


def copied(make, *, cupy):
    """`make` gives the pairs of a yard; copies them there by NumPy, in a second one by the kernel."""
    by_numpy, by_kernel = Yard(1), Yard(1)
    for source, target in make(by_numpy):
        target[...] = source
    pairs = make(by_kernel)
    Copier(cupy).launch([tuple(lent(pair)) for pair in pairs])
    for number, (got, expected) in enumerate(zip(by_kernel.blocks, by_numpy.blocks, strict=True)):
        wrong = np.flatnonzero(got != expected)
        assert not wrong.size, f"bytes {wrong[:20]} of array {number}"


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(
    ("dtype", "odd"), [("u1", 0), ("u1", 3), ("f2", 2), ("f4", 4), ("f8", 8), ("c16", 0)]
)
def test_arrays_of_any_lengths_and_places_are_copied_and_nothing_else_is_touched(dtype, odd, backwards):
    def make(yard):
        return [
            (yard.flat(dtype, length, 0), yard.flat(dtype, length, odd * (number % 2)))
            for number, length in enumerate(LENGTHS)
        ]

    copied(make, cupy=HostCupy(1, backwards=backwards))


@pytest.mark.parametrize("dtype", ["u1", "f4", "c16"])
def test_sections_of_any_widths_are_copied_row_by_row(dtype):
    def make(yard):
        return [
            (yard.section(dtype, shape, wider, start), yard.section(dtype, shape, start, 0))
            for shape, wider, start in [((7, 16), 16, 16), ((5, 3), 4, 1), ((300, 64), 0, 0), ((9, 1), 30, 7)]
        ]

    copied(make, cupy=HostCupy(1))


def test_fewer_blocks_than_work_go_on_with_what_is_left(monkeypatch):
    monkeypatch.setattr(kernels, "_BLOCKS_PER_MULTIPROCESSOR", 2)
    cupy = HostCupy(1)
    copied(
        lambda yard: [(yard.flat("u1", 70_001, 0), yard.flat("u1", 70_001, 0)) for _ in range(2)], cupy=cupy
    )
    assert [grid for _, grid, _, _ in cupy.launches] == [(1, 2)]


@pytest.mark.parametrize("columns", [0, 4])
def test_the_kernel_can_count_in_64_bits(monkeypatch, columns):
    monkeypatch.setattr(variants, "COUNTED_IN_32_BITS", 0)
    monkeypatch.setattr(variants, "_work", variants._work.__wrapped__)
    cupy = HostCupy(1)
    copied(
        lambda yard: [(yard.section("f4", (9, 9), columns, 0), yard.flat("f4", 81, 0).reshape(9, 9))],
        cupy=cupy,
    )
    assert "-DCOUNTER=u64" in cupy.launches[0][0]


@pytest.mark.parametrize(("copies", "launches"), [(1, 1), (copier.MOST, 1), (copier.MOST + 1, 2)])
def test_as_many_as_the_parameters_hold_are_one_launch(copies, launches):
    cupy = HostCupy(1)
    copied(lambda yard: [(yard.flat("f4", 4, 0), yard.flat("f4", 4, 0)) for _ in range(copies)], cupy=cupy)
    assert len(cupy.launches) == launches


def test_nothing_is_launched_for_arrays_without_elements():
    cupy, empty = HostCupy(1), np.empty((3, 0), "f4")
    Copier(cupy).launch([tuple(lent([empty, empty]))])
    Copier(cupy).launch([])
    assert not cupy.launches


@pytest.mark.parametrize("other", [np.zeros(4, "f4"), np.zeros((1, 3), "f4"), np.zeros(3, "f8")])
def test_a_pair_that_differs_is_refused_before_anything_is_queued(other):
    cupy, array = HostCupy(1), np.zeros(3, "f4")
    with pytest.raises(
        UsageMistake, match=r"a copy of float32 \(3,\) .* expected arrays of one shape and dtype"
    ):
        Copier(cupy).launch([tuple(lent([array, array])), tuple(lent([array, other]))])
    assert not cupy.launches


def test_arrays_that_are_no_rows_are_refused():
    array = np.zeros((4, 4), "f4")
    with pytest.raises(UsageMistake, match="make them contiguous"):
        Copier(HostCupy(1)).launch([tuple(lent([array, array.T]))])


def test_python_and_the_source_have_the_same_constants():
    (line,) = re.findall(r"enum \{ (BLOCK .*) \};", Copier(HostCupy())._source.code)
    assert line == f"BLOCK = {kernels.BLOCK}, MOST = {copier.MOST}"
    assert copier.NBYTES <= 4096  # what the parameters of a kernel may have


# --- In the plane ----------------------------------------------------------------------------------


@pytest.fixture
def gpus():
    with SimulatedGpus(count=1) as made:
        yield made


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        ("alltoall", (0, None, None)),
        ("alltoall", (1, (6, 0, 10, 8), None)),
        ("gather", (1, 0, None)),
        ("scatter", (1, 0, None, None)),
    ],
)
def test_a_collective_that_only_copies_is_one_launch(verb, arguments, gpus, run, monkeypatch):
    size, launched = 4, []
    kernel = gpus.cupy.RawKernel
    call = kernel.__call__

    def counted(self, grid, *others):
        launched.append((self.name, grid[1:]))
        call(self, grid, *others)

    monkeypatch.setattr(kernel, "__call__", counted)
    there = places(gpus.cupy, [0] * size)
    plane = OnGpus(DevicePlane(there), there)

    def program(plane, seat):
        x = np.arange(96.0).reshape(4, 24) + 100 * seat.worker
        return getattr(plane, verb)(seat, x, *arguments)

    try:
        got = values(run(plane, program, 1))
    finally:
        plane.close()
    given = [np.arange(96.0).reshape(4, 24) + 100 * worker for worker in range(size)]
    if verb == "gather":
        wanted = [None, np.concatenate(given), None, None]
    elif verb == "scatter":
        wanted = np.split(given[1], size)
    elif arguments[1] is None:
        wanted = [np.concatenate([x[rank : rank + 1] for x in given]) for rank in range(size)]
    else:
        ends = np.cumsum(arguments[1])
        wanted = [
            np.concatenate([x[:, end - length : end] for x in given], 1)
            for end, length in zip(ends, arguments[1], strict=True)
        ]
    for mine, expected in zip(got, wanted, strict=True):
        assert np.array_equal(mine, expected) if expected is not None else mine is None
    count = {"alltoall": sum(size for length in arguments[1] or [1] * size if length)}.get(verb, size)
    assert launched == [("copies", (count,))]
