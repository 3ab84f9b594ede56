"""Measures one of our commands in pieces: the controller's part, each worker's part, and the rest.

``python -m benchmarks.life EFFORT``

Every piece runs alone in one thread: the controller's half on queues that are not read, or without queues,
the worker's half on a queue filled beforehand. What the whole takes beyond their sum is the price of threads:
handing over the GIL and the caches.
"""

from __future__ import annotations

import contextvars
import threading
from queue import SimpleQueue
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

from benchmarks.clock import Effort, batches
from benchmarks.control import call
from benchmarks.floor import noop
from benchmarks.row import Row
from benchmarks.side import Figures, Side, serve

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic import DPackedFunc
    from disco_magic.core.messages import Message

SIDES = (Side("ours", "disco_magic", "benchmarks.life"),)

ROWS = (
    Row(
        "controller: one call, result kept",
        "`f()` of a `DPackedFunc` in a session without a queue: checks, lock, sequence number, register, "
        "message, reference; the references are kept in a list.",
        "us",
        "controller.kept",
    ),
    Row(
        "controller: one call, result dropped",
        "The same with every result dropped at once: the finalizer, and the register that is taken again.",
        "us",
        "controller.dropped",
    ),
    Row(
        "controller: the queues",
        "What the same takes longer with a queue per worker that nobody reads; all queues together.",
        "us",
        "controller.queues",
    ),
    Row("worker: the function", "`noop()`, which does nothing; per worker.", "us", "worker.function"),
    Row(
        "worker: the queue",
        "Taking a message out of a queue that is not empty; per worker.",
        "us",
        "worker.queue",
    ),
    Row(
        "worker: one command",
        "All that `serve` does with a message, with the two rows above: kill a register, look up the "
        "function, claim, call, store, say how far it has come; per worker.",
        "us",
        "worker.all",
    ),
    Row(
        "sum",
        "One call, result dropped, with the queues, and one command on each worker.",
        "us",
        "sum",
    ),
    Row("end to end", "The control plane's first row, measured again here.", "us", "call"),
    Row("the price of threads", "End to end without the sum.", "us", "threads"),
)


def controller(effort: Effort, *, queues: int, kept: bool) -> list[float]:
    """Time the controller's half with `queues` queues."""
    import disco_magic
    from tests.doubles.scripted import scripted_session

    disco_magic.register_func("bench.noop", noop, override=True)
    session, _ = scripted_session(max(queues, 1))
    function = session.get_global_func("bench.noop")
    scripted = session._sends  # noqa: SLF001 - what is measured here
    results: list[Any] = []
    lanes: list[SimpleQueue[Message]] = []

    def fresh() -> None:
        results.clear()
        session._sends = scripted  # noqa: SLF001 - as above
        session.flush()
        lanes[:] = [SimpleQueue() for _ in range(queues)]
        session._sends = tuple(lane.put for lane in lanes)  # noqa: SLF001 - as above

    step: Callable[[], object] = function if not kept else keeper(function, results)
    samples = batches(step, effort.count(4000), effort.repeat, before=fresh)
    session._sends = scripted  # noqa: SLF001 - as above
    session.shutdown()
    return samples


def keeper(function: DPackedFunc, results: list[Any]) -> Callable[[], object]:
    """Return a function that calls `function` and keeps the result."""
    return lambda: results.append(function())


def worker(effort: Effort) -> list[float]:
    """Time the worker's half: fill a queue with messages, then `serve`; seconds per message."""
    from disco_magic.core.messages import Stop
    from disco_magic.core.topology import Topology
    from disco_magic.planes.threads import ThreadPlane
    from disco_magic.workers.worker import Worker

    count = effort.count(4000)
    samples = []
    for _ in range(effort.repeat + 1):
        made = Worker(0, Topology(1), ThreadPlane(1), refuse)
        made.lane.thread_id = threading.get_ident()
        made.registers.set(1, noop)
        lane: SimpleQueue[Message] = SimpleQueue()
        for seq in range(1, count + 1):
            lane.put((seq, 2, 1, (), (), (2,)))
        lane.put(Stop(count + 1))
        context = contextvars.copy_context()
        start = perf_counter()
        context.run(made.serve, made.lane, lane.get)
        samples.append((perf_counter() - start) / count)
        made.dispose()
    return samples[1:]


def refuse(event: object) -> None:
    """Fail: a plain call has nothing to report."""
    raise RuntimeError(f"the worker said {event}")


def queue(effort: Effort) -> list[float]:
    """Time taking messages out of a queue."""
    lane: SimpleQueue[int] = SimpleQueue()
    count = effort.count(4000)

    def fill() -> None:
        for number in range(count):
            lane.put(number)

    return batches(lambda: lane.get(False), count, effort.repeat, before=fill)


def derive(figures: Figures, workers: int) -> None:
    """Add the rows that are computed from others' medians."""
    middle = {key: median(samples) for key, samples in figures.samples.items()}
    needed = {f"ours:{key}" for key in ("controller.dropped", "controller.all", "worker.all", "call")}
    if not needed <= set(middle):
        return  # one of them failed; the table says so
    with_queues = middle["ours:controller.all"]
    whole = with_queues + workers * middle["ours:worker.all"]
    figures.samples["ours:controller.queues"] = [with_queues - middle["ours:controller.dropped"]]
    figures.samples["ours:sum"] = [whole]
    figures.samples["ours:threads"] = [middle["ours:call"] - whole]


if __name__ == "__main__":
    serve(
        {
            "controller.kept": lambda effort: controller(effort, queues=0, kept=True),
            "controller.dropped": lambda effort: controller(effort, queues=0, kept=False),
            "controller.all": lambda effort: controller(effort, queues=effort.workers, kept=False),
            "worker.function": lambda effort: batches(noop, effort.count(4000), effort.repeat),
            "worker.queue": queue,
            "worker.all": worker,
            "call": lambda effort: call(effort, effort.workers),
        }
    )
