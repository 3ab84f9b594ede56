"""Runs sections, each in a process of its own, and collects what they print."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from benchmarks.gpus import bounded
from benchmarks.gpus.__main__ import ABOUT, SKIPPED
from benchmarks.gpus.checks import NOT_BEGUN
from benchmarks.gpus.figures import Figure, heard
from tests.gpu.nccl import TWO_RANKS

ENVIRONMENTS = {"pair": TWO_RANKS}
GRACE_S = 5  # between writing the stacks of a section that hangs and killing it


@dataclass
class Told:
    """Everything that the sections have reported.

    Attributes:
        figures: by key, in the order in which they came.
        problems: by section, why it reported no more.
        skipped: by section, why it cannot be measured here.
    """

    figures: dict[str, Figure] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)


def measure(section: str, told: Told, deadline_s: float, *, quick: bool) -> str:
    """Run one section and return what it has printed, which counts even if it fails or hangs."""
    if deadline_s < 1:
        told.problems[section] = NOT_BEGUN
        return ""
    output, problem = _run(section, deadline_s, quick=quick)
    for line in output.splitlines():
        with suppress(ValueError):  # cut off, if it was being written when the process was ended
            if (figure := heard(line)) is not None:
                told.figures[figure.key] = figure
        if line.startswith(SKIPPED):
            told.skipped[section] = line.removeprefix(SKIPPED)
    if problem:
        told.problems[section] = problem
    return output


def about(deadline_s: float = 120) -> dict[str, Any]:
    """Describe the machine, from a process of its own.

    Raises:
        RuntimeError: it has no GPU that can be measured; the text is the last that the process wrote.
    """
    output, problem = _run("about", deadline_s, quick=True)
    for line in output.splitlines():
        if line.startswith(ABOUT):
            return dict(json.loads(line.removeprefix(ABOUT)))
    raise RuntimeError(problem or "nothing was said of the machine")


def _run(section: str, deadline_s: float, *, quick: bool) -> tuple[str, str]:
    """Return what it wrote, and why it did not succeed, "" if it did."""
    own_s = max(1.0, deadline_s - GRACE_S)  # then it writes its stacks and ends itself
    command = [sys.executable, "-u", "-m", "benchmarks.gpus", section, "--deadline", f"{own_s:.0f}"]
    command += ["--quick"] if quick else []
    status, written = bounded.run(command, deadline_s, ENVIRONMENTS.get(section, {}))
    if status == 0:
        return written, ""
    if status is None or "\nTimeout (" in f"\n{written}":
        return written, f"no end within {deadline_s:.0f} s"
    lines = [line for line in written.splitlines() if line.strip() and not line.startswith("@")]
    return written, f"exit status {status}: {lines[-1].strip() if lines else 'no word why'}"
