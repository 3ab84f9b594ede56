"""Measures MPICH through mpi4py: the collectives of `data`, with existing buffers on both ends.

``mpiexec -n 4 python -m benchmarks.peer_mpi EFFORT``; rank 0 reports.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from mpi4py import MPI

from benchmarks.clock import Effort, repeat_call, spans, widths
from benchmarks.data import SMALL_COUNT, expect
from benchmarks.floor import NBYTES, array
from benchmarks.side import serve

if TYPE_CHECKING:
    from collections.abc import Callable

WORLD = MPI.COMM_WORLD


def together(call: Callable[[], object], repeat: int, count: int = 1) -> list[float]:
    """Time calls of every rank, from first start to last end; only rank 0 gets the figures."""
    taken = WORLD.gather(spans(WORLD.Barrier, repeat_call(call, count), repeat), root=0)
    return widths(taken, count) if taken else []


def allreduce(effort: Effort) -> list[float]:
    """Time the sum of 64 MiB."""
    x, out = array(), array()
    samples = together(partial(WORLD.Allreduce, x, out, MPI.SUM), effort.repeat)
    expect(out, WORLD.size)
    return samples


def allreduce_small(effort: Effort) -> list[float]:
    """Time sums of 8 bytes in a row."""
    x, out = np.ones(2, "float32"), np.zeros(2, "float32")
    samples = together(partial(WORLD.Allreduce, x, out, MPI.SUM), effort.repeat, effort.count(SMALL_COUNT))
    expect(out, WORLD.size)
    return samples


def broadcast(effort: Effort) -> list[float]:
    """Time a broadcast of 64 MiB from rank 0."""
    x = array() * (WORLD.rank == 0)
    samples = together(partial(WORLD.Bcast, x, 0), effort.repeat)
    expect(x, 1)
    return samples


def allgather(effort: Effort) -> list[float]:
    """Time an allgather of 64 MiB in all: every rank gives its part and gets the whole."""
    x = np.ones(NBYTES // 4 // WORLD.size, "float32")
    out = np.zeros(x.size * WORLD.size, "float32")
    samples = together(partial(WORLD.Allgather, x, out), effort.repeat)
    expect(out, 1)
    return samples


if __name__ == "__main__":
    serve(
        {
            "allreduce": allreduce,
            "allreduce.small": allreduce_small,
            "broadcast": broadcast,
            "allgather": allgather,
        }
    )
