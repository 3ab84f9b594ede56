"""How a worker waits for the GPU: what a check costs, how late it notices, how much of a core it takes."""

from __future__ import annotations

from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

from benchmarks.clock import batches
from benchmarks.gpus.crew import crew
from tests.gpu.spin import Spin

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.gpus.stand import Stand

LENGTHS_S = (0.0, 20e-6, 100e-6, 1e-3, 10e-3, 100e-3)


def measure(stand: Stand) -> None:
    """Measure idle and after kernels of several lengths, with one worker and with four at once."""
    spin = Spin(stand.cupy)
    repeat = stand.effort.pick(21, 9, 2)
    lengths = stand.effort.pick(LENGTHS_S, LENGTHS_S[2:5], LENGTHS_S[2:4])
    with crew(stand, 1) as one:
        one.all(_idle, stand, repeat, stand.effort.pick(300, 100, 3))
        for seconds in lengths:
            one.all(_behind, stand, spin, seconds, repeat)
    with crew(stand, 4) as four:
        seconds = stand.effort.pick(0.3, 0.1, 0.01)
        before = process_time()
        start = perf_counter()
        four.all(_wait, spin, seconds)
        spent, wall = process_time() - before, perf_counter() - start
        stand.tell(
            "four",
            f"processor time while 4 workers wait {seconds * 1e3:g} ms each",
            [spent],
            notes={"wall_s": wall},
        )


def _wait(me: Any, spin: Spin, seconds: float) -> None:
    spin(seconds)
    me.place.finish()


def _idle(me: Any, stand: Stand, repeat: int, count: int) -> None:
    """Measure with nothing queued: what the first check sees."""
    event = me.xp.cuda.Event(disable_timing=True)
    event.record(me.place.stream)
    me.place.finish()
    steps: list[tuple[str, str, Callable[[], object]]] = [
        ("look", "one look at an event", lambda: event.done),
        ("idle", "finish() with nothing to wait for", me.place.finish),
        ("idle.plain", "the same by the stream's own synchronize()", me.place.stream.synchronize),
    ]
    for name, what, step in steps:
        stand.tell(name, what, batches(step, count, repeat))


def _behind(me: Any, stand: Stand, spin: Spin, seconds: float, repeat: int) -> None:
    """Time two ways to wait for a kernel; the difference is how late ours notices its end."""
    name = f"{seconds * 1e6:g}"
    text = f"kernel of {seconds * 1e3:g} ms"
    for way, what, wait in (
        ("plain", f"{text}, then the stream's own synchronize()", me.place.stream.synchronize),
        ("finish", f"{text}, then finish()", me.place.finish),
    ):
        wait()
        spin(seconds)
        wait()
        samples, core = [], []
        for _ in range(repeat):
            before, start = process_time(), perf_counter()
            spin(seconds)
            wait()
            samples.append(perf_counter() - start)
            core.append((process_time() - before) / samples[-1])
        stand.tell(
            f"{name}.{way}",
            what,
            samples,
            **({"against": f"{name}.plain"} if way == "finish" else {}),
            notes={"part of a core": sorted(core)[len(core) // 2]},
        )
