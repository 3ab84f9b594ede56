"""What else of cupy cells may use: other allocators, functions that cupy compiles, arrays beyond 32 bits."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.planes.copier import Copier
from disco_magic.planes.kernels import Folder
from disco_magic.planes.reductions import reduction
from disco_magic.values.device_digests import DeviceDigests
from tests.gpu.machine import SIMULATED

not_simulated = pytest.mark.skipif(SIMULATED, reason="cupy's own, which are not simulated")
# More elements than 31 bits count; in a rehearsal, as few as need another kernel for their end.
EDGE = 1000 if SIMULATED else 2**31
LENGTH = EDGE + 11
ROUNDS = 100


@pytest.fixture(params=["cudaMallocAsync", "managed memory", "no pool"])
def allocator(cupy, request):
    cuda = cupy.cuda
    make = {
        "cudaMallocAsync": lambda: cuda.MemoryAsyncPool().malloc,
        "managed memory": lambda: cuda.MemoryPool(cuda.malloc_managed).malloc,
        "no pool": lambda: None,
    }
    before = cuda.get_allocator()
    try:
        cuda.set_allocator(make[request.param]())
    except RuntimeError as reason:
        pytest.skip(f"this GPU has no {request.param}: {reason}")
    yield
    cuda.set_allocator(before)


@not_simulated
def test_collectives_and_copies_with_another_allocator(allocator, shared):
    shared.run(
        f"""
sums = []
for number in range({ROUNDS}):  # what is freed in each round is used again in the next one
    x = xp.full(5000, worker_id + number, 'f4') * 1
    everyone = allgather(allreduce(x)[:100])
    send(everyone, (worker_id + 1) % num_workers)
    sums.append(recv((worker_id - 1) % num_workers).sum())
sums = [float(each) for each in sums]
"""
    )
    expected = [400.0 * (6 + 4 * number) for number in range(ROUNDS)]
    assert shared["sums"].get_all() == [expected] * 4
    given = np.random.default_rng(0).integers(0, 256, 3_000_001, np.uint8)
    there = shared.copy_to_worker_0(given)
    assert (there.get(0) == given).all()
    (cell, *_) = shared.registers().row("x").cells
    assert (cell.shape, str(cell.device)) == ((5000,), "cuda:0")


@not_simulated
def test_functions_that_cupy_compiles_from_python(shared):
    shared.run(
        """
from cupyx import jit

@xp.fuse()
def length(x, y):
    return xp.sqrt(x * x + y * y)

@jit.rawkernel()
def twice(x, size):
    i = jit.blockIdx.x * jit.blockDim.x + jit.threadIdx.x
    if i < size:
        x[i] = x[i] * 2

z = length(xp.full(1000, 3.0), xp.full(1000, 4.0)) + worker_id
total = allreduce(z)
twice((8,), (128,), (total, total.size))
"""
    )
    shared.run("again = allreduce(length(total, xp.zeros(1000)))")
    assert [set(each.tolist()) for each in shared["again"].get_all()] == [{4 * 52.0}] * 4


# --- arrays of more than 2**31 elements ------------------------------------------------------------


@pytest.fixture
def vast(cupy):
    """Makes arrays of `LENGTH` bytes: zeros but for five sevens around the edge, and 1 to 5 at the end."""
    if cupy.cuda.Device().mem_info[0] < 8 * LENGTH:
        pytest.skip(f"needs {8 * LENGTH >> 30} GiB of the GPU's memory")

    def make(offset=0, fill=0):
        array = cupy.full(LENGTH + offset, fill, "uint8")[offset:]
        if not fill:
            array[EDGE - 2 : EDGE + 3] = 7
            array[-5:] = cupy.arange(1, 6, dtype="uint8")
        return array

    yield make
    cupy.get_default_memory_pool().free_all_blocks()


def is_times(array, times):
    """Whether it is what `vast` makes, times a number; every element counts."""
    edge, end = array[EDGE - 2 : EDGE + 3].get().tolist(), array[-5:].get().tolist()
    whole = int(array.sum(dtype="uint64"))
    return (edge, end, whole) == ([7 * times] * 5, [n * times for n in range(1, 6)], 50 * times)


@pytest.mark.parametrize("offset", [0, 1], ids=["in wide accesses", "byte by byte"])
def test_folds_reach_every_element_of_vast_arrays(cupy, vast, offset):
    sources, target = [vast(offset), vast(offset)], vast(offset, fill=9)
    Folder(cupy).launch(sources, [target], reduction("", "sum", np.dtype("u1")))
    assert is_times(target, 2)


@pytest.mark.parametrize("offset", [0, 1], ids=["in wide accesses", "byte by byte"])
def test_copies_reach_every_element_of_vast_arrays(cupy, vast, offset):
    source, targets = vast(offset), [vast(offset, fill=9), vast(offset, fill=9)]
    Copier(cupy).launch([(source, targets[0]), (source[:9], targets[1][:9])])
    assert is_times(targets[0], 1)
    assert targets[1][:10].get().tolist() == [0] * 9 + [9]


def test_digests_see_the_last_element_of_vast_arrays(cupy, vast):
    digests, one, other = DeviceDigests(cupy), vast(), vast(1)
    assert digests.digest_of(one) == digests.digest_of(other)
    other[-1] += 1
    assert digests.digest_of(one) != digests.digest_of(other)


def test_vast_arrays_are_copied_both_ways(session, vast):
    s = session(1, devices=[0])
    given = vast().get()
    there = s.copy_to_worker_0(given)
    assert (there.get(0) == given).all()


@pytest.mark.usefixtures("vast")
def test_collectives_reach_every_element_of_vast_arrays(session):
    s = session(2, devices=[0, 0])
    cell = f"y = allreduce(xp.full({LENGTH}, worker_id + 1, 'u1'))\n[int(y.sum(dtype='u8')), y[-1].item()]"
    assert s.run(cell).values == [[3 * LENGTH, 3]] * 2
