"""Collectives of workers that share the GPU, next to copies within it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.gpus import data
from benchmarks.gpus.ceilings import device_copy
from benchmarks.gpus.crew import crew
from benchmarks.gpus.stand import GIB, KIB, MIB, size_text
from disco_magic.planes.kernels import Folder
from disco_magic.planes.reductions import reduction

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.gpus.crew import Crew
    from benchmarks.gpus.stand import Stand

VERBS = ("allreduce", "broadcast", "allgather", "reduce_scatter", "alltoall")
TARGET, TARGET_NBYTES = 0.7, 256 * MIB
LOOKED_AT = 256  # elements checked at both ends of a result
# By item size: for float32, and for 16-bit types with a sum of eight.
TOLERANCE = {4: 1e-5, 2: 3e-2}


def measure(stand: Stand) -> None:
    """Measure each verb, dtype, size and number of workers, and the kernel alone.

    Many calls run in a row, as usual, so that the first one's way to the GPU matters little; `latency`
    measures calls that are waited for one by one.
    """
    sample_s = stand.effort.pick(30e-3, 30e-3, 0.0)
    effort = stand.effort = replace(
        stand.effort, figure_s=min(0.15, stand.effort.figure_s), sample_s=sample_s
    )
    largest = effort.pick(GIB, 256 * MIB, 64 * KIB)
    sizes = effort.pick(
        [KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB, TARGET_NBYTES, GIB],
        [KIB, 4 * MIB, TARGET_NBYTES],
        [KIB, 64 * KIB],
    )
    source, target = (stand.cupy.empty(largest, "uint8") for _ in range(2))
    data.fill(stand.cupy, source, np.dtype("f4"), 0)
    device_copy(stand, target, source)
    _kernel_alone(stand, sizes, source, target)
    del source, target
    for workers in effort.pick((2, 4, 8), (4,), (2,)):
        # What is cached for the previous workers' streams is not free for those that come in addition.
        stand.cupy.get_default_memory_pool().free_all_blocks()
        with crew(stand, workers) as made:
            yard = _Yard(made, largest)
            for name in effort.pick(("float32", "float16", "bfloat16"), ("float32", "float16"), ("float32",)):
                dtype = data.dtype_of(stand.cupy, name)
                if dtype is not None:
                    yard.measure(dtype, sizes)


def _kernel_alone(stand: Stand, sizes: list[int], source: Any, target: Any) -> None:
    """Time what an allreduce of four workers launches, without workers."""
    folder, rule, count = Folder(stand.cupy), reduction("allreduce", "sum", np.dtype("f4")), 4
    for nbytes in sizes:
        if count * nbytes > source.nbytes:
            continue
        turns = data.windows(count * nbytes, 2 * count * nbytes, source.nbytes, data.l2_nbytes(stand.cupy))
        sets = [
            [
                [buffer[(turn * count + rank) * nbytes :][:nbytes].view(np.float32) for rank in range(count)]
                for buffer in (source, target)
            ]
            for turn in range(turns)
        ]
        seconds = stand.by_events(lambda number, s=sets: folder.launch(*s[number % len(s)], rule))  # type: ignore[misc]
        what = f"kernel of an allreduce alone, 4 x {size_text(nbytes)}"
        stand.tell(f"kernel.{nbytes}", what, seconds, 2 * count * nbytes, against="copy")


class _Yard:
    """Measures collectives between two large buffers on every worker."""

    def __init__(self, crew: Crew, largest: int) -> None:
        self.crew, self.stand = crew, crew.stand
        free, _ = self.stand.cupy.cuda.Device().mem_info
        while 2 * crew.workers * largest > 0.7 * free:
            largest //= 2
        self.largest = largest
        self.buffers: list[Any] = [None] * crew.workers
        crew.all(self._allocate)

    def _allocate(self, me: Any) -> None:
        self.buffers[me.id] = [me.xp.empty(self.largest, "uint8") for _ in range(2)]

    def _fill(self, me: Any, dtype: np.dtype[Any]) -> None:
        data.fill(me.xp, self.buffers[me.id][0], dtype, me.id)

    def measure(self, dtype: np.dtype[Any], sizes: list[int]) -> None:
        """Measure all verbs and sizes."""
        self.crew.all(self._fill, dtype)
        for verb in VERBS:
            for nbytes in sizes:
                if nbytes <= self.largest:
                    self._measure(verb, dtype, nbytes)

    def _measure(self, verb: str, dtype: np.dtype[Any], nbytes: int) -> None:
        workers = self.crew.workers
        given, gotten, moved = _amounts(verb, nbytes, workers)
        cache = data.l2_nbytes(self.stand.cupy)
        turns = data.windows(max(given, gotten), workers * (given + gotten), self.largest, cache)

        def prepare(me: Any) -> Callable[[int], object]:
            source, target = self.buffers[me.id]
            sets = [
                (
                    source[turn * given :][:given].view(dtype),
                    target[turn * gotten :][:gotten].view(dtype),
                )
                for turn in range(turns)
            ]
            call = _call(me, verb)
            return lambda number: call(*sets[number % turns])

        seconds = self.crew.by_events(prepare)
        self._check(verb, dtype, given, gotten)
        self.stand.tell(
            f"{verb}.{dtype}.{workers}.{nbytes}",
            f"{verb}, {dtype}, {workers} workers, {size_text(nbytes)}",
            seconds,
            moved,
            against="copy",
            least_share=TARGET if (verb, nbytes) == ("allreduce", TARGET_NBYTES) else None,
            notes={"places": turns},
        )

    def _check(self, verb: str, dtype: np.dtype[Any], given: int, gotten: int) -> None:
        """Run once more into poisoned memory and check both ends: a wrong result is no figure."""

        def once(me: Any) -> None:
            source, target = self.buffers[me.id]
            target[:gotten] = 0xFF
            _call(me, verb)(source[:given].view(dtype), target[:gotten].view(dtype))
            me.place.finish()

        self.crew.all(once)
        length = min(LOOKED_AT * dtype.itemsize, given // self.crew.workers, gotten)
        for worker in range(1 if verb == "broadcast" else 0, self.crew.workers):
            parts = _parts(verb, self.crew.workers, worker, (given, gotten), length)
            for (ranks, start), end in zip(parts, (0, gotten - length), strict=True):
                wanted = sum(self._look(rank, 0, start, length, dtype) for rank in ranks)
                got = self._look(worker, 1, end, length, dtype)
                if not np.allclose(got, wanted, TOLERANCE[dtype.itemsize], 1e-2):
                    raise RuntimeError(f"{verb} of {dtype} gave worker {worker} something else")

    def _look(
        self, worker: int, which: int, start: int, nbytes: int, dtype: np.dtype[Any]
    ) -> np.ndarray[Any, np.dtype[np.float64]]:
        raw: np.ndarray[Any, Any] = self.buffers[worker][which][start : start + nbytes].get()
        return raw.view(dtype).astype(np.float64)


def _parts(
    verb: str, workers: int, worker: int, sizes: tuple[int, int], length: int
) -> list[tuple[tuple[int, ...], int]]:
    """Say whose arrays, and from which byte on, make up the first and last `length` bytes of a result."""
    given, gotten = sizes
    everybody = tuple(range(workers))
    if verb == "alltoall":
        part = given // workers
        return [((0,), worker * part), ((workers - 1,), (worker + 1) * part - length)]
    if verb == "allgather":
        return [((0,), 0), ((workers - 1,), given - length)]
    if verb == "reduce_scatter":
        return [(everybody, worker * gotten), (everybody, worker * gotten + gotten - length)]
    ranks = everybody if verb == "allreduce" else (0,)
    return [(ranks, 0), (ranks, given - length)]


def _call(me: Any, verb: str) -> Callable[[Any, Any], Any]:
    method = getattr(me, verb)
    if verb != "broadcast":
        return lambda source, target: method(source, out=target)
    # The root's own array is its result, as in MPI.
    if me.id:
        return lambda _, target: method(None, out=target)
    return lambda source, _: method(source, out=source)


def _amounts(verb: str, nbytes: int, workers: int) -> tuple[int, int, int]:
    """Return the bytes that each worker gives and gets, and that all must at least read and write."""
    return {
        "allreduce": (nbytes, nbytes, 2 * workers * nbytes),
        "broadcast": (nbytes, nbytes, workers * nbytes),
        "allgather": (nbytes // workers, nbytes, (workers + 1) * nbytes),
        "reduce_scatter": (nbytes, nbytes // workers, (workers + 1) * nbytes),
        "alltoall": (nbytes, nbytes, 2 * workers * nbytes),
    }[verb]
