"""A figure: samples, what they measure, what they are compared with, and its row in a table."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.row import quantity, spread

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MARK = "@figure "
HEAD = ("what", "time", "GB/s", "of ceiling", "over it", "target", "met?")
VERDICT = {True: "yes", False: "**no**", None: ""}


@dataclass
class Figure:
    """The samples of one measurement.

    Attributes:
        key: unique; ``section:name``.
        what: in words, a row's title.
        seconds: per operation, one per sample.
        nbytes: moved per operation, reads and writes; over a link, what crosses it. 0: no bandwidth.
        against: key of the figure it is compared with.
        least_share: target: at least this part of the bandwidth of `against`.
        most_over_s: target: at most this many seconds more than `against`.
        notes: other findings.
    """

    key: str
    what: str
    seconds: list[float]
    nbytes: int = 0
    against: str = ""
    least_share: float | None = None
    most_over_s: float | None = None
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def section(self) -> str:
        """The first part of its key."""
        return self.key.partition(":")[0]

    @property
    def middle(self) -> float:
        """The median."""
        return median(self.seconds)

    @property
    def bandwidth(self) -> float:
        """Bytes per second; 0 if it has no bandwidth."""
        return self.nbytes / self.middle

    def share(self, others: Mapping[str, Figure]) -> float | None:
        """Return its bandwidth as a part of that of the figure it is compared with."""
        other = others.get(self.against)
        return (
            self.bandwidth / other.bandwidth if other is not None and self.nbytes and other.nbytes else None
        )

    def over(self, others: Mapping[str, Figure]) -> float | None:
        """Return the seconds more than the figure it is compared with, if it has no bandwidth."""
        other = others.get(self.against)
        return self.middle - other.middle if other is not None and not self.nbytes else None

    def met(self, others: Mapping[str, Figure]) -> bool | None:
        """Whether it meets its target; None without a target or anything to compare it with."""
        share, over = self.share(others), self.over(others)
        if self.least_share is not None and share is not None:
            return share >= self.least_share
        if self.most_over_s is not None and over is not None:
            return over <= self.most_over_s
        return None

    def target(self) -> str:
        """Return the target in words."""
        if self.least_share is not None:
            return f"≥ {self.least_share:.2f}"
        return "" if self.most_over_s is None else f"≤ {quantity(self.most_over_s, 'us')} over"

    def cells(self, others: Mapping[str, Figure]) -> tuple[str, ...]:
        """Return the cells of its row."""
        share, over = self.share(others), self.over(others)
        return (
            self.what,
            spread(self.seconds, "ms" if self.middle >= 1e-3 else "us"),
            f"{self.bandwidth / 1e9:.3g}" if self.nbytes else "",
            "" if share is None else f"{share:.2f}",
            "" if over is None else quantity(over, "us"),
            self.target(),
            VERDICT[self.met(others)],
        )

    def tell(self) -> None:
        """Print it at once, for the process that started this one."""
        sys.stdout.write(f"\n{MARK}{json.dumps(asdict(self))}\n")
        sys.stdout.flush()


def heard(line: str) -> Figure | None:
    """Parse the figure in a line of a section's output, if there is one."""
    return Figure(**json.loads(line.removeprefix(MARK))) if line.startswith(MARK) else None


def table(figures: Iterable[Figure], others: Mapping[str, Figure]) -> str:
    """Return figures as an aligned Markdown table, without empty columns."""
    lines = [HEAD, *(figure.cells(others) for figure in figures)]
    columns = [column for column in zip(*lines, strict=True) if any(column[1:])]
    widths = [max(map(len, column)) for column in columns]
    texts = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in zip(*columns, strict=True)
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([texts[0], rule, *texts[1:]])
