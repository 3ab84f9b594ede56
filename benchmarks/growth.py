"""Measures how our costs grow with the number of workers and of live registers.

``python -m benchmarks.growth EFFORT``
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from functools import partial
from statistics import linear_regression, median
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from benchmarks.clock import Effort, batches
from benchmarks.control import call, session
from benchmarks.row import Bound, Row
from benchmarks.side import Figures, Side, serve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disco_magic import ThreadedSession

WORKERS = (1, 2, 4, 8, 16, 32)
LIVE = (10, 1000, 100_000)
SNAPSHOT_REGISTERS, SNAPSHOT_WORKERS = 200, 8

SIDES = (
    Side("ours", "disco_magic", "benchmarks.growth"),
    Side("floor", "bare queues", "benchmarks.floor", part="growth"),
    Side("tvm", "TVM", "benchmarks.peer_tvm", ("tvm",), "pip install apache-tvm", part="growth"),
)

ROWS = (
    *(
        Row(
            f"call, end to end, {n} worker{'s' if n > 1 else ''}",
            "As in the control plane's table: calls, results dropped, then one sync; per call.",
            "us",
            f"workers.{n}",
            peer="tvm",
            floor=f"floor:workers.{n}",
        )
        for n in WORKERS
    ),
    Row(
        "exponent from 4 to 32 workers",
        "Slope of log(cost) over log(workers), least squares through the medians at 4, 8, 16 and 32; 1 is "
        "linear.",
        "",
        "exponent.workers",
        peer="tvm",
        floor="floor:exponent.workers",
        bounds=(Bound(1.1),),
    ),
    *(
        Row(
            f"call, {live:,} live registers",
            "Call and drop with so many other registers held, then one sync; per call.",
            "us",
            f"registers.{live}",
            peer="tvm",
        )
        for live in LIVE
    ),
    *(
        Row(
            f"`debug_get`, {live:,} live registers",
            "The value of the last of them on worker 1.",
            "us",
            f"get.{live}",
        )
        for live in LIVE
    ),
    Row(
        "exponent of the call over registers",
        "Slope of log(cost) over log(registers): 0 is no growth at all.",
        "",
        "exponent.registers",
        peer="tvm",
        bounds=(Bound(1.0),),
    ),
    Row(
        f"snapshot, {SNAPSHOT_REGISTERS} registers on {SNAPSHOT_WORKERS} workers",
        "`session.registers()`, named arrays of 64 x 64 float32, different on every worker, all idle.",
        "ms",
        "snapshot",
        bounds=(Bound(0.1),),
    ),
    Row(
        f"inspector, refresh of {SNAPSHOT_REGISTERS} registers on {SNAPSHOT_WORKERS} workers",
        "`Inspector.refresh()` over the same: look, with 655 elements of each array, and make the table.",
        "ms",
        "inspector",
        bounds=(Bound(0.1),),
    ),
    Row(
        "the same, what is sent",
        "Bytes of the HTML that such a refresh changes.",
        "kB",
        "inspector.bytes",
        bounds=(Bound(200_000),),
    ),
)


def derive(figures: Figures) -> None:
    """Add the exponents to the figures, for every side with the medians they need."""
    for tag in sorted({key.partition(":")[0] for key in figures.samples}):
        for name, counts in (("workers", WORKERS[2:]), ("registers", LIVE)):
            costs = [figures.samples.get(f"{tag}:{name}.{n}") for n in counts]
            medians = [median(samples) for samples in costs if samples]
            if len(medians) == len(counts):
                slope = linear_regression(list(map(math.log, counts)), list(map(math.log, medians))).slope
                figures.samples[f"{tag}:exponent.{name}"] = [slope]


def registers(effort: Effort, live: int) -> list[float]:
    """Time calling and dropping with `live` other registers held."""
    here = session(effort.workers)
    function = here.get_global_func("bench.noop")
    held = [function() for _ in range(live)]
    here.sync_all()
    samples = batches(function, effort.count(1000), effort.repeat, inside=here.sync_all)
    held.clear()
    here.sync_all()
    return samples


def get(effort: Effort, live: int) -> list[float]:
    """Time reading the last of `live` registers from worker 1."""
    here = session(effort.workers)
    function = here.get_global_func("bench.seven")
    held = [function() for _ in range(live)]
    here.sync_all()
    samples = batches(partial(held[-1].debug_get_from_remote, 1), effort.count(200), effort.repeat)
    held.clear()
    here.sync_all()
    return samples


def snapshot(effort: Effort) -> list[float]:
    """Time a snapshot of many named registers."""
    from disco_magic import ThreadedSession

    with ThreadedSession(SNAPSHOT_WORKERS) as here:
        fill(here)
        return batches(here.registers, effort.count(10), effort.repeat)


def inspector(effort: Effort) -> list[float]:
    """Time a refresh of the live table."""
    with inspected() as panel:
        return batches(panel.refresh, effort.count(10), effort.repeat)


def inspector_bytes(_: Effort) -> list[float]:
    """Return how many bytes such a refresh sends."""
    import ipywidgets

    with inspected() as panel:
        parts = [each for each in panel.widget.children if isinstance(each, ipywidgets.HTML)]
        return [float(sum(len(part.value.encode()) for part in parts))]


@contextmanager
def inspected() -> Iterator[Any]:
    """Make an inspector of the named registers, without a notebook around it."""
    from disco_magic import ThreadedSession
    from disco_magic.notebook.inspector.panel import Inspector
    from disco_magic.notebook.inspector.refresher import Refresher

    with ThreadedSession(SNAPSHOT_WORKERS) as here:
        fill(here)
        shell = SimpleNamespace(user_ns={}, execution_count=1)
        sessions = SimpleNamespace(find=lambda: here)
        front: Any = SimpleNamespace(shell=shell, sessions=sessions, refresher=Refresher())
        panel = Inspector(front)
        try:
            yield panel
        finally:
            panel.close()


def fill(here: ThreadedSession) -> None:
    """Bind the named registers, and check that the snapshot has them."""
    values = "np.random.default_rng(worker_id).normal(size=(64, 64)).astype('float32')"
    here.run(f"for i in range({SNAPSHOT_REGISTERS}): globals()[f'a{{i}}'] = {values}\ndel i")
    rows = here.registers().rows
    if len(rows) < SNAPSHOT_REGISTERS:
        raise RuntimeError(f"expected {SNAPSHOT_REGISTERS} rows in the snapshot, got {len(rows)}")


if __name__ == "__main__":
    serve(
        {
            **{f"workers.{n}": partial(call, workers=n) for n in WORKERS},
            **{f"registers.{live}": partial(registers, live=live) for live in LIVE},
            **{f"get.{live}": partial(get, live=live) for live in LIVE},
            "snapshot": snapshot,
            "inspector": inspector,
            "inspector.bytes": inspector_bytes,
        }
    )
