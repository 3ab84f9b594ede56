"""Measures ipyparallel: what a ``%%px`` cell costs in IPython and in a kernel.

``python -m benchmarks.peer_ipyparallel EFFORT``

One cluster (controller and engines, about seven seconds to start) serves both halves: this process's shell
starts it, the kernel connects to it by its id.
"""

from __future__ import annotations

from functools import cache, partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

from benchmarks.clock import Effort, batches
from benchmarks.floor import array
from benchmarks.kernel import Kernel
from benchmarks.shell import samples, shell
from benchmarks.side import serve
from benchmarks.workload import CHATTER, chatter_bytes, control_while_busy, interrupts, noop

if TYPE_CHECKING:
    from collections.abc import Callable

CLUSTER = "benchmark"
CONNECT = (
    "import ipyparallel as ipp; _view = "
    f"ipp.Client(cluster_id={CLUSTER!r}).direct_view('all'); _view.block = True; _view.activate()"
)
T = TypeVar("T")
STARTED: list[float] = []


@cache
def client(workers: int) -> Any:
    """Return a client of a running cluster, its view activated in this process's shell."""
    shell()
    start = perf_counter()
    import ipyparallel as ipp

    cluster = ipp.Cluster(n=workers, cluster_id=CLUSTER, log_level=30)
    rc = cluster.start_and_connect_sync(activate=True)
    rc[:].apply_sync(int)
    STARTED.append(perf_counter() - start)
    return rc


def start(effort: Effort) -> list[float]:
    """Time import, cluster start and every engine's first answer; one sample per round."""
    client(effort.workers)
    return STARTED


def cell(effort: Effort, source: str, prints: int = 0) -> list[float]:
    """Time a cell in this process's shell."""
    client(effort.workers)
    return samples(source, effort.count(50), prints=prints)


def push(effort: Effort) -> list[float]:
    """Time copying 64 MiB into engine 0's namespace, until it is there."""
    view, host = client(effort.workers)[0], array()
    return batches(partial(view.push, {"x": host}, block=True), 1, effort.repeat)


def pull(effort: Effort) -> list[float]:
    """Time copying the same array back."""
    view = client(effort.workers)[0]
    return batches(partial(view.pull, "x", block=True), 1, effort.repeat)


def in_kernel(effort: Effort, measure: Callable[[Kernel, Effort, str], T]) -> T:
    """Run `measure` with ``%%px`` in a kernel of its own that is connected to the cluster."""
    client(effort.workers)
    with Kernel() as kernel:
        kernel.run(CONNECT)
        return measure(kernel, effort, "%%px")


if __name__ == "__main__":
    serve(
        {
            "kernel.start": start,
            "cell.pass": partial(cell, source="%%px\npass"),
            "cell.print": lambda effort: cell(effort, "%%px\nprint('line')", effort.workers),
            "push": push,
            "pull": pull,
            "kernel.noop": partial(in_kernel, measure=noop),
            "kernel.control": partial(in_kernel, measure=control_while_busy),
            f"kernel.bytes.{CHATTER}": partial(in_kernel, measure=chatter_bytes),
            # Last: after an interrupt engines drop cells, and some never come back.
            "kernel.interrupt": partial(in_kernel, measure=interrupts),
        }
    )
