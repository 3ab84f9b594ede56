"""Measures our data plane: collectives between threads, copies to and from worker 0; 64 MiB of float32.

``python -m benchmarks.data EFFORT``
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.clock import Effort, Span, batches, repeat_call, spans, widths
from benchmarks.floor import NBYTES, SMALL_COUNT, array
from benchmarks.row import Bound, Row
from benchmarks.side import Side, serve

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic import ThreadedSession


SIDES = (
    Side("ours", "disco_magic", "benchmarks.data"),
    Side("floor", "bare copies", "benchmarks.floor", part="data"),
    Side(
        "mpi",
        "MPICH",
        "benchmarks.peer_mpi",
        imports=("mpi4py",),
        install="pip install mpi4py mpich",
        launcher=("mpiexec", "-n", "{workers}"),
    ),
    Side("tvm", "TVM", "benchmarks.peer_tvm", ("tvm",), "pip install apache-tvm", part="data"),
)

ROWS = (
    Row(
        "allreduce 64 MiB, into `out`",
        "Every worker sums 64 MiB float32 into an array that exists; first start to last end. Floor: as many "
        "threads each copy 64 MiB, the same 2·n·bytes of memory traffic.",
        "ms",
        "allreduce",
        peer="mpi",
        floor="floor:copy.all",
        bounds=(Bound(1.25, "floor:copy.all"), Bound(0.25, "mpi:allreduce")),
    ),
    Row(
        "allreduce 64 MiB, fresh result",
        "As before without `out`: the result's pages are new, and the kernel clears them first. The peer has "
        "its buffer.",
        "ms",
        "allreduce.fresh",
        peer="mpi:allreduce",
        floor="floor:copy.all",
    ),
    Row(
        "broadcast 64 MiB",
        "Root's array into the other workers' arrays (ours: `out`). Floor: n - 1 threads copy one array.",
        "ms",
        "broadcast",
        peer="mpi",
        floor="floor:copy.rest",
        bounds=(Bound(1.25, "floor:copy.rest"),),
    ),
    Row(
        "allgather 64 MiB in all",
        "Every worker gives 16 MiB and gets 64 MiB in an array that exists.",
        "ms",
        "allgather",
        peer="mpi",
        floor="floor:copy.all",
        bounds=(Bound(1.25, "floor:copy.all"),),
    ),
    Row(
        "allreduce 8 B",
        f"Sum of two floats, mean of {SMALL_COUNT} in a row. MPICH's ranks busy-poll, ours sleep. Floor: as "
        "many threads meet at bare locks and move nothing.",
        "us",
        "allreduce.small",
        peer="mpi",
        floor="floor:meet",
        bounds=(Bound(90e-6),),
    ),
    Row(
        "copy_to_worker_0 64 MiB",
        "Notebook's array into an array that exists, until worker 0 is done. Floor: one `np.copyto`.",
        "ms",
        "copy.to",
        peer="tvm",
        floor="floor:copy.once",
        bounds=(Bound(1.25, "floor:copy.once"),),
    ),
    Row(
        "copy_from_worker_0 64 MiB",
        "The way back, until the notebook's array is filled.",
        "ms",
        "copy.from",
        peer="tvm",
        floor="floor:copy.once",
        bounds=(Bound(1.25, "floor:copy.once"),),
    ),
)


@cache
def session(workers: int) -> ThreadedSession:
    """Return the process's only session."""
    from disco_magic import ThreadedSession

    return ThreadedSession(workers)


def expect(result: Any, value: float) -> None:
    """Check that a collective has done its work: `value` at both ends of `result`."""
    if result[0] != value or result[-1] != value:
        raise RuntimeError(f"expected {value} everywhere, got {result[0]} ... {result[-1]}")


def together(
    effort: Effort, prepare: Callable[[Any], Callable[[], Any]], expected: float = 1, count: int = 1
) -> list[float]:
    """Time, on every worker, the call that ``prepare(worker)`` returns; from first start to last end."""
    import disco_magic

    def work() -> list[Span]:
        me = disco_magic.worker()
        call = prepare(me)
        taken = spans(me.barrier, repeat_call(call, count), effort.repeat)
        expect(call(), expected)
        return taken

    return widths(session(effort.workers).call_packed(work).get_all(), count)


def summing(effort: Effort, prepare: Callable[[Any], Callable[[], Any]], full_count: int = 1) -> list[float]:
    """Time, as `together`, a sum of ones over all workers."""
    return together(effort, prepare, effort.workers, effort.count(full_count))


def allreduce(me: Any) -> Callable[[], Any]:
    """Prepare a sum of 64 MiB into an existing array."""
    return partial(me.allreduce, array(), out=array())


def allreduce_fresh(me: Any) -> Callable[[], Any]:
    """Prepare a sum of 64 MiB into a new array."""
    return partial(me.allreduce, array())


def allreduce_small(me: Any) -> Callable[[], Any]:
    """Prepare a sum of 8 bytes into an existing array."""
    return partial(me.allreduce, np.ones(2, "float32"), out=np.zeros(2, "float32"))


def broadcast(me: Any) -> Callable[[], Any]:
    """Prepare a broadcast of 64 MiB into existing arrays; the root's own array is its result, as in MPI."""
    x = array() * (me.id == 0)
    return partial(me.broadcast, x if me.id == 0 else None, out=x)


def allgather(me: Any) -> Callable[[], Any]:
    """Prepare an allgather of every worker's part into an existing array."""
    part = np.ones(NBYTES // 4 // me.num_workers, "float32")
    return partial(me.allgather, part, out=np.zeros(part.size * me.num_workers, "float32"))


def copy(effort: Effort, direction: str) -> list[float]:
    """Time copying 64 MiB between the notebook and worker 0, into an existing array."""
    here, host, back = session(effort.workers), array(), array() * 0
    remote = here.copy_to_worker_0(host)
    here.copy_from_worker_0(back, remote)
    here.sync_worker_0()
    expect(back, 1)
    verb = here.copy_to_worker_0 if direction == "to" else here.copy_from_worker_0
    return batches(partial(verb, host, remote), 1, effort.repeat, inside=here.sync_worker_0)


if __name__ == "__main__":
    serve(
        {
            "allreduce": partial(summing, prepare=allreduce),
            "allreduce.fresh": partial(summing, prepare=allreduce_fresh),
            "allreduce.small": partial(summing, prepare=allreduce_small, full_count=SMALL_COUNT),
            "broadcast": partial(together, prepare=broadcast),
            "allgather": partial(together, prepare=allgather),
            "copy.to": partial(copy, direction="to"),
            "copy.from": partial(copy, direction="from"),
        }
    )
