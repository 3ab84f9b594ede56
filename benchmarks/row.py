"""A row of a table: what is compared with what, and whether the target is met."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median, quantiles
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.side import Figures

UNITS = {"kB": (1e-3, "kB"), "us": (1e6, "µs"), "ms": (1e3, "ms"), "x": (1.0, "x"), "": (1.0, "")}
DASH = "\N{EN DASH}"


@dataclass(frozen=True)
class Bound:
    """Ours must be at most `limit`, or `limit` times the median of the key `times` in the same run."""

    limit: float
    times: str = ""

    def value(self, figures: Figures) -> float | None:
        """Return the bound as a figure; None if what it refers to was not measured."""
        if not self.times:
            return self.limit
        samples = figures.samples.get(self.times)
        return self.limit * median(samples) if samples else None

    def text(self, unit: str, titles: Mapping[str, str]) -> str:
        """Return the bound in words; `titles` maps tags to names of sides."""
        if not self.times:
            return f"≤ {quantity(self.limit, unit)}"
        tag = self.times.partition(":")[0]
        return f"≤ {self.limit:g} x {'floor' if tag == 'floor' else titles[tag]}"


@dataclass(frozen=True)
class Row:
    """A comparison.

    Attributes:
        what: the operation, as in the first column.
        measured: a sentence that says what runs while the clock does.
        unit: key of `UNITS`.
        key: our measurement, without ``ours:``.
        peer: a side's tag (with our key), or a whole key ``tag:measurement``.
        floor: key of the floor.
        bounds: all must hold for the target to be met.
    """

    what: str
    measured: str
    unit: str
    key: str
    peer: str = ""
    floor: str = ""
    bounds: tuple[Bound, ...] = ()

    @property
    def ours_key(self) -> str:
        """The key of our figure."""
        return f"ours:{self.key}"

    @property
    def peer_key(self) -> str:
        """The key of the peer's figure; empty without a peer."""
        return self.peer if ":" in self.peer or not self.peer else f"{self.peer}:{self.key}"

    def ratio(self, figures: Figures) -> float | None:
        """Return the peer's median divided by ours; None unless both were measured and have a unit."""
        ours, peer = figures.samples.get(self.ours_key), figures.samples.get(self.peer_key)
        return median(peer) / median(ours) if ours and peer and self.unit else None

    def met(self, figures: Figures) -> bool | None:
        """Whether our median keeps every bound that can be judged; None if there is nothing to judge."""
        ours = figures.samples.get(self.ours_key)
        values = [value for bound in self.bounds if (value := bound.value(figures)) is not None]
        return median(ours) <= min(values) if ours and values else None


def quantity(value: float, unit: str) -> str:
    """Return `value` with two or three digits and its unit."""
    factor, name = UNITS[unit]
    scaled = value * factor
    if scaled == int(scaled):
        return f"{scaled:.0f} {name}".rstrip()
    texts = (f"{scaled:.{digits}f}" for digits in (2, 1, 0))
    text = next((text for text in texts if len(text) <= 4), f"{scaled:.0f}")
    return f"{text} {name}".rstrip()


def spread(samples: Sequence[float], unit: str) -> str:
    """Return the median with the quartiles in brackets; with fewer than four samples, the extremes."""
    if len(samples) == 1:
        return quantity(samples[0], unit)
    low, high = (min(samples), max(samples))
    if len(samples) >= 4:
        low, _, high = quantiles(samples, n=4, method="inclusive")
    name = UNITS[unit][1]
    low_text, high_text = (quantity(value, unit).removesuffix(name).strip() for value in (low, high))
    return f"{quantity(median(samples), unit)} ({low_text}{DASH}{high_text})"
