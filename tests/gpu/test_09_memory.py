"""Nothing grows, however long a session works."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest

from tests.gpu.machine import QUICK, SIMULATED

ROUNDS = 50 if QUICK else 500 if SIMULATED else 10_000
PAGE = 4096
# A heap breathes; a leak of an event or an array in each of all those calls would be several times this.
SLACK_NBYTES = 32 * 2**20
# How many results exist at a time depends on who comes first.
POOL_SLACK_NBYTES = 2**20


def resident():
    """Bytes of this process in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc")
@pytest.mark.parametrize(
    "call",
    ["allreduce(x)", "alltoall(x)", "broadcast(x if worker_id == 0 else None)", "allreduce(x, out=y)"],
)
def test_collectives_leave_nothing(cupy, shared, call):
    shared.run(f"x, y = xp.ones(4096, 'float32'), xp.empty(4096, 'float32')\nfor _ in range(50): z = {call}")
    pool = cupy.get_default_memory_pool()
    held, size = pool.total_bytes(), resident()
    shared.run(f"for _ in range({ROUNDS}): z = {call}")
    assert pool.total_bytes() - held < POOL_SLACK_NBYTES
    assert resident() - size < SLACK_NBYTES
    assert all(shared["z"].get(0)[:3] == shared["z"].get(3)[:3])


def test_messages_leave_nothing(cupy, shared):
    once = "send(x, (worker_id + 1) % 4); z = recv((worker_id - 1) % 4)"
    shared.run(f"x = xp.ones(4096)\nfor _ in range(50): {once}; barrier()")
    pool = cupy.get_default_memory_pool()
    held = pool.total_bytes()
    shared.run(f"for _ in range({ROUNDS}): {once}; barrier()")
    assert pool.total_bytes() - held < POOL_SLACK_NBYTES


def test_copies_leave_nothing(cupy, shared):
    host = np.ones(1 << 20, "uint8")
    there = shared.copy_to_worker_0(host)
    shared.copy_from_worker_0(host, there)
    pool, pinned = cupy.get_default_memory_pool(), cupy.get_default_pinned_memory_pool()
    held, free = pool.total_bytes(), pinned.n_free_blocks()
    for _ in range(ROUNDS // 25):
        shared.copy_to_worker_0(host, there)
        shared.copy_from_worker_0(host, there)
    assert (pool.total_bytes(), pinned.n_free_blocks()) == (held, free)


def test_restarts_leave_nothing(cupy, shared):
    pool = cupy.get_default_memory_pool()

    def life():
        shared.restart()
        shared.run("x = allreduce(xp.ones(1 << 16))")
        gc.collect()
        return pool.used_bytes(), pool.total_bytes()

    (_, second, *_, last) = [life() for _ in range(4)]
    assert last[0] <= second[0]
    assert last[1] <= second[1]
