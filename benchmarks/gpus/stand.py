"""How often something is measured, and with which clock."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from benchmarks.gpus.figures import Figure

if TYPE_CHECKING:
    from collections.abc import Callable

    Batch = Callable[[int], float]  # runs that many operations; returns the seconds they take together

KIB, MIB, GIB = 2**10, 2**20, 2**30


class Skipped(Exception):
    """A section cannot be measured here, which is not an error; the text says why."""


@dataclass(frozen=True)
class Effort:
    """How much to measure.

    Attributes:
        quick: fewer sizes and samples, for a glance.
        simulated: next to nothing, to see every line run.
        fewest, most: samples per figure; between the two, as many as `figure_s` seconds allow.
        sample_s: about how long a sample takes; sets its number of operations.
    """

    quick: bool = False
    simulated: bool = False
    fewest: int = 7
    most: int = 25
    figure_s: float = 0.25
    sample_s: float = 2e-3

    @classmethod
    def of(cls, *, quick: bool, simulated: bool) -> Effort:
        """Return the effort for a kind of run."""
        made = cls(quick, simulated)
        if quick:
            made = replace(made, fewest=5, most=9, figure_s=0.1)
        return replace(made, fewest=2, most=2, figure_s=0.0, sample_s=0.0) if simulated else made

    def pick(self, full: Any, quick: Any, simulated: Any) -> Any:
        """Return one of the three, depending on the kind of run."""
        return simulated if self.simulated else quick if self.quick else full


class Stand:
    """What a section measures with.

    Args:
        cupy: the module, real or simulated.
        effort: how much to measure.
        section: its name.

    Attributes:
        stream: the section's own, which does not wait for the default stream.
    """

    def __init__(self, cupy: Any, effort: Effort, section: str) -> None:
        self.cupy, self.effort, self.section = cupy, effort, section
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.stream.__enter__()  # for good; a mere `use` would end at the first `with` of another stream

    def sampled(self, batch: Batch) -> list[float]:
        """Return seconds per operation, after a warm-up, one figure per sample."""
        batch(1)
        first = max(batch(1), 1e-7)
        count = max(1, min(1000, round(self.effort.sample_s / first)))
        batch(count)
        samples: list[float] = []
        limit = perf_counter() + self.effort.figure_s
        while len(samples) < self.effort.fewest or (
            len(samples) < self.effort.most and perf_counter() < limit
        ):
            samples.append(batch(count) / count)
        return samples

    def by_events(self, call: Callable[[int], object], stream: Any = None) -> list[float]:
        """Time ``call(number)``, which queues work on `stream`, between two events there."""
        stream = stream or self.stream
        start, end = self.cupy.cuda.Event(), self.cupy.cuda.Event()

        def batch(count: int) -> float:
            start.record(stream)
            for number in range(count):
                call(number)
            end.record(stream)
            end.synchronize()
            return float(self.cupy.cuda.get_elapsed_time(start, end)) / 1e3

        return self.sampled(batch)

    def by_clock(self, call: Callable[[int], object]) -> list[float]:
        """Time ``call(number)``, which returns when its work is done, on the host's clock."""

        def batch(count: int) -> float:
            start = perf_counter()
            for number in range(count):
                call(number)
            return perf_counter() - start

        return self.sampled(batch)

    def tell(self, name: str, what: str, seconds: list[float], nbytes: int = 0, **others: Any) -> Figure:
        """Report a figure at once; `against` is a name in this section."""
        if "against" in others:
            others["against"] = f"{self.section}:{others['against']}"
        figure = Figure(f"{self.section}:{name}", what, seconds, nbytes, **others)
        figure.tell()
        return figure


def size_text(nbytes: int) -> str:
    """Return a size as text: ``64 MiB``."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if nbytes >= unit:
            return f"{nbytes / unit:g} {name}"
    return f"{nbytes} B"
