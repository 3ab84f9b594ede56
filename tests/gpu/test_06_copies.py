"""Copies through pinned staging buffers, between a real link's two ends."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.devices.pinned import BUFFERS, THREADS
from disco_magic.devices.staging import ALONE_NBYTES, CHUNK_NBYTES
from tests.gpu.machine import SIMULATED

LARGE_NBYTES = 3_000_001 if SIMULATED else 300_000_001
LENGTHS = [
    0,
    1,
    3,
    CHUNK_NBYTES - 1,
    CHUNK_NBYTES,
    CHUNK_NBYTES + 1,
    ALONE_NBYTES,
    ALONE_NBYTES + 1,
    THREADS * BUFFERS * CHUNK_NBYTES - 1,
    THREADS * BUFFERS * CHUNK_NBYTES + 1,
    LARGE_NBYTES,
]


def noise(nbytes, seed=0):
    return np.random.default_rng(seed).integers(0, 256, nbytes, np.uint8)


def pinned(cupy, nbytes):
    """An array of the host that the GPU reaches without a detour."""
    return np.frombuffer(cupy.cuda.alloc_pinned_memory(max(nbytes, 1)), np.uint8, nbytes)


@pytest.mark.parametrize("nbytes", LENGTHS)
def test_copies_of_every_length_arrive_whole(shared, nbytes):
    given = noise(nbytes)
    there = shared.copy_to_worker_0(given)
    expected = given.copy()
    given[...] = 0  # it is ours again
    back = np.full(nbytes, 7, np.uint8)
    shared.copy_from_worker_0(back, there)
    assert (back == expected).all()
    np.testing.assert_array_equal(there.get(0), expected)


@pytest.mark.parametrize("nbytes", [1, CHUNK_NBYTES + 1, LARGE_NBYTES])
def test_pinned_arrays(cupy, shared, nbytes):
    given, back = pinned(cupy, nbytes), pinned(cupy, nbytes)
    given[...] = noise(nbytes, 1)
    there = shared.empty((nbytes,), "uint8")
    shared.copy_to_worker_0(given, there)
    expected = given.copy()
    given[...] = 0
    back[...] = 7
    shared.copy_from_worker_0(back, there)
    assert (back == expected).all()


@pytest.mark.parametrize("shape", [(7, 5), (1500, 1400)])
def test_arrays_with_gaps(shared, shape):
    wide = noise(shape[0] * shape[1] * 2, 2).reshape(shape[0], shape[1] * 2)
    there = shared.copy_to_worker_0(wide[:, ::2])
    back = np.zeros_like(wide)
    shared.copy_from_worker_0(back[:, ::2], there)
    assert (back[:, ::2] == wide[:, ::2]).all()
    assert not back[:, 1::2].any()
    shared.run(f"x = xp.zeros({(shape[0], shape[1] * 2)}, 'uint8')[:, 1::2]")
    shared.copy_to_worker_0(wide[:, ::2].T.copy().T, shared["x"])
    assert (shared["x"].get(0) == wide[:, ::2]).all()


def test_all_workers_copy_at_the_same_time(shared):
    shared.run(
        f"""
host = np.random.default_rng(worker_id).integers(0, 256, {LARGE_NBYTES // 4}, np.uint8)
back = np.zeros_like(host)
there = xp.zeros(host.shape, host.dtype)
for _ in range(3):
    worker.place.copy(there, host)
    barrier()
    worker.place.copy(back, there)
    assert (back == host).all()
    host += 1
"""
    )


def test_a_copy_sees_what_was_queued_before_it(shared, spin):
    """The device is far behind when the copy is asked for, in both directions."""
    shared.put("spin", spin)
    shared.run("spin(0.1)\nx = xp.full(3_000_000, worker_id + 1, 'uint8')")
    back = np.zeros(3_000_000, np.uint8)
    shared.copy_from_worker_0(back, shared["x"])
    assert (back == 1).all()
    shared.call_packed(_late, shared["x"], spin)
    shared.copy_to_worker_0(noise(3_000_000, 3), shared["x"])
    assert (shared["x"].get(0) == noise(3_000_000, 3)).all()


def _late(x, spin):
    spin(0.1)
    x[...] = 9
