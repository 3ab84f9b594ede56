"""The matrix as a page of the documentation: what is expected, and the figures of one run."""

from __future__ import annotations

import os
import platform
import re
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from tests.faults.kinds import KINDS
from tests.faults.matrix import (
    EXIT,
    MOMENTS,
    PLACES,
    RULES,
    STAGES,
    all_cases,
    combinations,
    matrix,
    reason_against,
)
from tests.faults.ways import WAYS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.faults.matrix import Case

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"

# What differs between two runs of the same matrix: times, and the line that says where and when.
_FIGURES = re.compile(r" · [\d.]+| \| [\d.]+ \| [\d.]+ \|$|^Measured .*$", re.MULTILINE)

TEMPLATE = """\
# The fault matrix

What fails, in which way, where and when: `tests/faults` has {total} combinations, each
with the error that is expected and who gets it. After each of them the same session has to work as if
nothing had happened: no wait raises anything a second time, every worker answers a call, a cell with a
collective ends well, and no register is left without a value but that of the call that failed. A session
that was shut down has to work after its restart.

`python -m tests.faults --write` tries them all and writes this page; with words instead of the option it
tries those whose names have all of them. `make test` tries half of them: whatever fails, in each of its
ways, at every moment and in every place, but not at every moment in every place. How Disco itself fails, and
what happens here instead, is in the last table of [disco.md](disco.md).

## What fails, and who is told

An error of several workers begins with those that failed. Workers that were released from a collective
because of them come after, with a `PlaneAborted` that names the failure, or with what your code raised
from it.

{stages}
Each fails in these ways: {ways}. A check and an allocation fail in the runtime itself, and in one way only.

And on these: {places}; in sessions of {kinds}. `os._exit` and a segmentation fault would end the notebook's
own process with them; they come with the first kind of session whose workers are processes.

## When

{moments}
## Combinations tried, and the longest time to the error

Combinations · milliseconds from the first failure to the error, or to the end of the wait where nobody gets
one. The aim is 1,000. At `{exit}` the time ends with the process, which Python itself takes most of; it is
not in the last two columns.

{figures}
{measured}

## What is left out

{left_out}"""


def render(seconds: Mapping[Case, float], measured: str) -> str:
    """The page.

    Args:
        seconds: what each case took; a case that is missing has no figures.
        measured: when and where.
    """
    return TEMPLATE.format(
        total=f"{len(all_cases()):,}",
        stages=_table(
            ["what fails", "", "who is told"], ([s.name, s.title, s.told] for s in STAGES.values())
        ),
        ways=", ".join(WAYS),
        places=", ".join(PLACES),
        kinds=", ".join(KINDS),
        moments=_table(["when", ""], ([name, text] for name, text in MOMENTS.items())),
        exit=EXIT,
        figures="\n".join(_figures(matrix(kind), seconds) for kind in KINDS.values()),
        measured=measured,
        left_out=_table(["combinations", "why there are none"], _left_out()),
    )


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _figures(cases: list[Case], seconds: Mapping[Case, float]) -> str:
    rows = []
    for stage in [*STAGES, None]:
        row = [case for case in cases if stage in (case.stage, None)]
        times = [1e3 * seconds[case] for case in row if case in seconds and case.moment != EXIT] or [0.0]
        entries = [_entry([case for case in row if case.moment == moment], seconds) for moment in MOMENTS]
        rows.append([stage or "all", *entries, str(len(row)), f"{median(times):.2f}", f"{max(times):.2f}"])
    return _table([cases[0].kind, *MOMENTS, "tried", "median", "worst"], rows)


def _entry(cases: list[Case], seconds: Mapping[Case, float]) -> str:
    if not cases:
        return ""
    worst = max((seconds[case] for case in cases if case in seconds), default=0.0)
    return f"{len(cases)} · {1e3 * worst:.2f}"


def _left_out() -> list[list[str]]:
    counts = Counter(reason_against(case) for kind in KINDS.values() for case in combinations(kind))
    return [[str(counts[reason]), reason] for reason in RULES]


def machine() -> str:
    """When and where figures are taken."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    load = f" Load average before: {os.getloadavg()[0]:.1f}." if hasattr(os, "getloadavg") else ""
    return (
        f"Measured {datetime.now(UTC):%Y-%m-%d} with Python {platform.python_version()} and NumPy"
        f" {np.__version__} on {names[0] if names else platform.machine()}, {os.cpu_count()} cores,"
        f" {platform.system()}.{load}"
    )


def without_figures(text: str) -> str:
    """The page as every run of the same matrix writes it."""
    return _FIGURES.sub("", text)
