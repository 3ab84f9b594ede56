"""Collectives of workers that share the GPU, one by one, and where the time of small ones goes."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.clock import batches
from benchmarks.gpus.crew import crew
from benchmarks.gpus.stand import MIB, size_text
from disco_magic.planes.kernels import Folder
from disco_magic.planes.reductions import reduction

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.gpus.crew import Crew, Prepare
    from benchmarks.gpus.stand import Stand

CHAIN = 100
LARGE_NBYTES = 256 * MIB


def measure(stand: Stand) -> None:
    """Measure 8 bytes and a large array with 1 to 8 workers, then each part of one call alone."""
    repeat = stand.effort.pick(50, 15, 2)
    for workers in stand.effort.pick((1, 2, 4, 8), (4,), (2,)):
        with crew(stand, workers) as made:
            _small(made, repeat, stand.effort.pick(CHAIN, CHAIN, 3))
            _large(made, repeat, stand.effort.pick(LARGE_NBYTES, LARGE_NBYTES, 4096))
    _parts(stand, repeat)


def _small(crew: Crew, repeat: int, chain: int) -> None:
    """Time one call with a wait; a chain with one wait at its end; a chain until it is queued."""
    workers = crew.workers
    title = f"allreduce 8 B, {workers} workers"
    for name, what, prepare, count in (
        ("waited", f"{title}, until its result is there", _allreduce(every=1), 1),
        ("chain", f"{title}, one of {chain} in a row, then one wait", _allreduce(every=chain), chain),
        ("queued", f"{title}, one of {chain}, until it is queued", _allreduce(every=0), chain),
        ("host", f"{title}, NumPy's arrays in the same session", _on_host, chain),
        ("meeting", f"barrier, {workers} workers: the meeting alone", _meet, chain),
    ):
        crew.stand.tell(f"{name}.{workers}", what, crew.by_clock(prepare, repeat, count))


def _large(crew: Crew, repeat: int, nbytes: int) -> None:
    what = f"allreduce {size_text(nbytes)}, {crew.workers} workers, until its result is there"
    seconds = crew.by_clock(_allreduce(every=1, nbytes=nbytes), repeat)
    crew.stand.tell(f"large.{crew.workers}", what, seconds, 2 * crew.workers * nbytes)


def _allreduce(every: int, nbytes: int = 8) -> Prepare:
    """Prepare an allreduce on the GPU, waited for after every so many calls; 0: never."""

    def prepare(me: Any) -> Callable[[int], object]:
        x, y = (me.xp.ones(nbytes // 4, "float32") for _ in range(2))

        def one(number: int) -> None:
            me.allreduce(x, out=y)
            if every and (number + 1) % every == 0:
                me.place.finish()

        return one

    return prepare


def _on_host(me: Any) -> Callable[[int], object]:
    x, y = np.ones(2, "float32"), np.zeros(2, "float32")
    return lambda _: me.allreduce(x, out=y)


def _meet(me: Any) -> Callable[[int], object]:
    return lambda _: me.barrier()


def _parts(stand: Stand, repeat: int) -> None:
    """Time each step that the last worker to arrive makes, in one thread, on the host."""
    cupy, cuda = stand.cupy, stand.cupy.cuda
    folder, rule = Folder(cupy), reduction("allreduce", "sum", np.dtype("f4"))
    other = cuda.Stream(non_blocking=True)
    fence = cuda.Event(disable_timing=True)
    count = stand.effort.pick(300, 300, 3)

    def order() -> None:
        fence.record(other)
        stand.stream.wait_event(fence)

    def event() -> None:
        cuda.Event(disable_timing=True).record(stand.stream)

    def switch() -> None:
        other.use()
        stand.stream.use()

    pieces: list[tuple[str, str, Callable[[], object]]] = [
        ("order", "one stream waits for another: record and wait_event", order),
        ("event", "a new event, recorded", event),
        ("switch", "another stream is the current one, and back", switch),
        ("current", "asking for the current stream", cuda.get_current_stream),
        ("empty", "an array from cupy's pool", lambda: cupy.empty(2, "float32")),
    ]
    for workers in stand.effort.pick((1, 2, 4, 8), (4,), (2,)):
        sources, targets = ([cupy.ones(2, "float32") for _ in range(workers)] for _ in range(2))
        pieces.append(
            (
                f"launch.{workers}",
                f"launch of a kernel of {workers} sources and targets",
                lambda s=sources, t=targets: folder.launch(s, t, rule),  # type: ignore[misc]
            )
        )
    for name, what, step in pieces:
        seconds = batches(step, count, repeat, after=stand.stream.synchronize)
        stand.tell(f"part.{name}", what, seconds)
    stand.tell("part.python", "for scale: a call of a Python function that does nothing", _nothing(repeat))


def _nothing(repeat: int) -> list[float]:
    def nothing() -> None:
        """Do nothing."""

    samples = []
    for _ in range(repeat):
        start = perf_counter()
        for _ in range(1000):
            nothing()
        samples.append((perf_counter() - start) / 1000)
    return samples
