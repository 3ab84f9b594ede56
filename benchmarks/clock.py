"""The clock that every side uses: the same loop, warm-up and arithmetic for us and for peers."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Span = tuple[float, float]


@dataclass(frozen=True)
class Effort:
    """How much to measure.

    Attributes:
        workers: number of workers, 4 in the targets.
        repeat: samples per measurement and round.
        quick: a fifth of the operations per sample; for a glance, not for the record.
    """

    workers: int = 4
    repeat: int = 7
    quick: bool = False

    def count(self, full: int) -> int:
        """Return the operations per sample, given those of a full run."""
        return max(1, full // 5) if self.quick else full


def nothing() -> None:
    """Do nothing; the default for optional steps."""


def batches(
    step: Callable[[], object],
    count: int,
    repeat: int,
    *,
    before: Callable[[], object] = nothing,
    inside: Callable[[], object] = nothing,
    after: Callable[[], object] = nothing,
) -> list[float]:
    """Return the seconds per `step` of each batch of `count` steps; the first batch is warm-up and dropped.

    Every batch is ``before; [step * count; inside]; after`` with the clock running inside the brackets. The
    garbage collector stays on, as it does for users. The loop itself costs about 20 ns per step.
    """
    samples = []
    for _ in range(repeat + 1):
        before()
        start = perf_counter()
        for _ in range(count):
            step()
        inside()
        samples.append((perf_counter() - start) / count)
        after()
    return samples[1:]


def repeat_call(call: Callable[[], object], count: int) -> Callable[[], object]:
    """Return a function that calls `call` `count` times."""
    if count == 1:
        return call

    def many() -> None:
        for _ in range(count):
            call()

    return many


def spans(barrier: Callable[[], object], call: Callable[[], object], repeat: int) -> list[Span]:
    """Time each `call` on one worker, after a `barrier` of all workers; the first is warm-up and dropped."""
    taken = []
    for _ in range(repeat + 1):
        barrier()
        start = perf_counter()
        call()
        taken.append((start, perf_counter()))
    return taken[1:]


def widths(per_worker: Sequence[Sequence[Span]], count: int = 1) -> list[float]:
    """Return the seconds from the first worker's start to the last one's end, per repeat, divided by `count`.

    `perf_counter` is one clock for all processes of a machine (CLOCK_MONOTONIC), so this holds for threads
    and MPI ranks alike.
    """
    return [
        (max(end for _, end in together) - min(start for start, _ in together)) / count
        for together in zip(*per_worker, strict=True)
    ]
