"""Floors: what the bare machinery costs, so that a figure can be read as a multiple of the minimum.

``python -m benchmarks.floor EFFORT control|data|growth``
"""

from __future__ import annotations

import sys
import threading
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.clock import Effort, Span, batches, repeat_call, spans, widths
from benchmarks.side import serve

if TYPE_CHECKING:
    from collections.abc import Callable

NBYTES = 64 * 2**20
SMALL_COUNT = 500
"""How many small collectives run in a row."""


def noop() -> None:
    """Do nothing; all sides call this function on their workers."""


class BareWorkers:
    """N threads, each executing what comes out of its own queue: no registers, no errors, no lock."""

    def __init__(self, workers: int) -> None:
        self.done: SimpleQueue[int] = SimpleQueue()
        self.lanes: list[SimpleQueue[Callable[[], object] | None]] = [SimpleQueue() for _ in range(workers)]
        self.threads = [threading.Thread(target=self.work, args=(lane,)) for lane in self.lanes]
        for thread in self.threads:
            thread.start()

    @staticmethod
    def work(lane: SimpleQueue[Callable[[], object] | None]) -> None:
        """Execute functions until None comes."""
        while (function := lane.get()) is not None:
            function()

    def call(self, function: Callable[[], object] = noop) -> None:
        """Send `function` to every worker."""
        for lane in self.lanes:
            lane.put(function)

    def sync(self) -> None:
        """Wait until every worker has executed everything before this."""
        self.call(partial(self.done.put, 0))
        for _ in self.lanes:
            self.done.get()

    def call_and_sync(self) -> None:
        """Make one call and wait for it."""
        self.call()
        self.sync()

    def stop(self) -> None:
        """End the threads."""
        for lane in self.lanes:
            lane.put(None)
        for thread in self.threads:
            thread.join()


def with_bare_workers(workers: int, measure: Callable[[BareWorkers], list[float]]) -> list[float]:
    """Run `measure` on workers that are ended afterwards."""
    bare = BareWorkers(workers)
    try:
        return measure(bare)
    finally:
        bare.stop()


def call(effort: Effort, workers: int) -> list[float]:
    """Time `count` calls, then one sync: seconds per call."""
    count = effort.count(4000)
    return with_bare_workers(workers, lambda bare: batches(bare.call, count, effort.repeat, inside=bare.sync))


def enqueue(effort: Effort) -> list[float]:
    """Time the calls alone."""
    return with_bare_workers(
        effort.workers, lambda bare: batches(bare.call, 1000, effort.repeat, after=bare.sync)
    )


def round_trip(effort: Effort, workers: int) -> list[float]:
    """Time one call and one sync."""
    count = effort.count(1000 // workers)
    return with_bare_workers(workers, lambda bare: batches(bare.call_and_sync, count, effort.repeat))


def get(effort: Effort) -> list[float]:
    """Time a number's way back from one thread."""

    def ask(bare: BareWorkers) -> None:
        bare.lanes[0].put(partial(bare.done.put, 7))
        bare.done.get()

    return with_bare_workers(
        effort.workers, lambda bare: batches(partial(ask, bare), effort.count(300), effort.repeat)
    )


class BareMeeting:
    """N threads that wait for each other, each at its own lock: the last to arrive releases the others'."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.lock = threading.Lock()
        self.parked: list[threading.Lock] = []

    def join(self, gate: threading.Lock) -> None:
        """Return when all have arrived; `gate` is already held."""
        with self.lock:
            last = len(self.parked) == self.size - 1
            if last:
                parked, self.parked = self.parked, []
            else:
                self.parked.append(gate)
        if not last:
            gate.acquire()
            return
        for other in parked:
            other.release()


def meet(effort: Effort, count: int) -> list[float]:
    """Time `count` meetings in a row: seconds per meeting, from the first start to the last end."""
    count = effort.count(count)
    meeting = BareMeeting(effort.workers)
    taken: list[list[Span]] = [[] for _ in range(effort.workers)]

    def work(i: int) -> None:
        gate = threading.Lock()
        gate.acquire()
        join = partial(meeting.join, gate)
        taken[i] = spans(join, repeat_call(join, count), effort.repeat)

    in_threads(work, effort.workers)
    return widths(taken, count)


def in_threads(work: Callable[[int], None], count: int) -> None:
    """Run ``work(i)`` in its own thread for every i below `count`; return when all have ended."""
    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def threads_copying(effort: Effort, sources: list[np.ndarray], targets: list[np.ndarray]) -> list[float]:
    """Copy with one thread per target, all at once: seconds until the last one is done."""
    barrier = threading.Barrier(len(targets))
    taken: list[list[Span]] = [[] for _ in targets]

    def work(i: int) -> None:
        taken[i] = spans(barrier.wait, lambda: np.copyto(targets[i], sources[i]), effort.repeat)

    in_threads(work, len(targets))
    return widths(taken)


def array() -> np.ndarray:
    """Make 64 MiB of float32, every page of it in memory."""
    return np.ones(NBYTES // 4, "float32")


def copy_all(effort: Effort) -> list[float]:
    """Copy 64 MiB in as many threads as there are workers: 2 * n * 64 MiB of memory traffic."""
    n = effort.workers
    return threads_copying(effort, [array() for _ in range(n)], [array() for _ in range(n)])


def copy_rest(effort: Effort) -> list[float]:
    """Copy the same 64 MiB in n-1 threads: the least that a broadcast must do."""
    n = max(effort.workers - 1, 1)
    return threads_copying(effort, [array()] * n, [array() for _ in range(n)])


def copy_once(effort: Effort) -> list[float]:
    """Copy 64 MiB in one thread."""
    return threads_copying(effort, [array()], [array()])


def bandwidth() -> float:
    """Measure memory traffic in bytes per second with four copying threads, reads and writes both counted."""
    samples = sorted(copy_all(Effort(workers=4, repeat=5)))
    return 2 * 4 * NBYTES / samples[len(samples) // 2]


PARTS: dict[str, dict[str, Callable[[Effort], list[float]]]] = {
    "control": {
        "call": lambda effort: call(effort, effort.workers),
        "call.wide": lambda effort: call(effort, 16),
        "enqueue": enqueue,
        "round": lambda effort: round_trip(effort, effort.workers),
        "round.wide": lambda effort: round_trip(effort, 16),
        "get": get,
    },
    "data": {
        "copy.all": copy_all,
        "copy.rest": copy_rest,
        "copy.once": copy_once,
        "meet": partial(meet, count=SMALL_COUNT),
    },
    "growth": {f"workers.{n}": partial(call, workers=n) for n in (1, 2, 4, 8, 16, 32)},
}

if __name__ == "__main__":
    serve(PARTS[sys.argv[2]])
