"""Writes and prints the results of a run."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from benchmarks.gpus.checks import HEAD, gist
from benchmarks.gpus.figures import MARK, table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.gpus.checks import Findings
    from benchmarks.gpus.figures import Figure
    from benchmarks.gpus.launch import Told

SIMULATED = "**Simulated: these are no figures of a GPU.**"
LOG = "gpu.log"
BEST = 8  # rows of the tuning table
MOST_FAILURES = 20  # that are printed
TITLES = {
    "copies": "Between host and GPU",
    "tuning": "Staging: the best combinations",
    "collectives": "Workers that share the GPU",
    "latency": "Collectives one by one, and where the time of small ones goes",
    "nccl": "Our plane on NCCL, one rank",
    "pair": "Our plane on NCCL, two ranks",
    "waiting": "Waiting for the GPU",
}


def write(folder: Path, about: dict[str, Any], checks: Sequence[Findings], told: Told) -> None:
    """Write ``gpu.json`` and ``gpu.md`` to `folder`."""
    content = {
        "about": about,
        "checks": [findings.plain() for findings in checks],
        "figures": [asdict(figure) for figure in told.figures.values()],
        "problems": told.problems,
        "skipped": told.skipped,
    }
    (folder / "gpu.json").write_text(json.dumps(content, indent=1), encoding="utf-8")
    (folder / "gpu.md").write_text(markdown(about, checks, told), encoding="utf-8")


def keep(folder: Path, part: str, output: str) -> None:
    """Append what a part has written, but for its figures, to ``gpu.log`` in `folder`."""
    lines = [line for line in output.splitlines() if line and not line.startswith(MARK)]
    with (folder / LOG).open("a", encoding="utf-8") as file:
        file.write("\n".join([f"==== {part} ====", *lines, "\n"]))


def markdown(about: dict[str, Any], checks: Sequence[Findings], told: Told) -> str:
    """Return the whole report as Markdown."""
    parts = [
        f"# {about['gpu']}, {about['date']}",
        *([SIMULATED] if about["simulated"] else []),
        sentence(about),
    ]
    if checks:
        parts += ["## Checks", summary(checks), *failures(checks)]
    for section, title in TITLES.items():
        figures = [figure for figure in told.figures.values() if figure.section == section]
        if section == "tuning":
            figures = best(figures)
        remarks = [f"**Not complete**: {told.problems[section]}"] if section in told.problems else []
        remarks += [f"Skipped: {told.skipped[section]}"] if section in told.skipped else []
        if figures or remarks:
            parts += [f"## {title}", *remarks]
        if figures:
            parts.append(table(figures, told.figures))
    return "\n\n".join(parts) + "\n"


def sentence(about: dict[str, Any]) -> str:
    """Describe the machine and its versions."""
    memory, l2 = about["memory_nbytes"] / 2**30, (about["l2_nbytes"] or 0) / 2**20
    return (
        f"{about['gpu']}, compute capability {about['compute_capability']}, {about['multiprocessors']}"
        f" multiprocessors, {memory:.0f} GiB, {l2:.0f} MiB of L2; {about['cores']} cores,"
        f" {about['platform']}. Driver {about['driver']}, runtime {about['runtime']}, NCCL {about['nccl']},"
        f" cupy {about['cupy']}, NumPy {about['numpy']}, Python {about['python']}; commit {about['commit']}."
    )


def summary(checks: Sequence[Findings]) -> str:
    """Return a table with a row per part."""
    return "\n".join([HEAD, *(findings.line() for findings in checks)])


def failures(checks: Sequence[Findings]) -> list[str]:
    """Return the texts of tests and parts that went wrong."""
    made = []
    for findings in checks:
        wrong = {
            name: test for name, test in findings.tests.items() if test["outcome"] in ("failed", "error")
        }
        made += [f"### {name}\n\n```\n{test['text']}\n```" for name, test in wrong.items()]
        if not findings.good and not wrong and findings.given_s is not None:
            made.append(f"### {findings.part.name}\n\n```\n{findings.tail}\n```")
    return made


def best(figures: Sequence[Figure]) -> list[Figure]:
    """Return the fastest combinations of each direction, after the copy they are compared with."""
    rows: list[Figure] = []
    for direction in ("to", "from"):
        plain = [figure for figure in figures if figure.key == f"tuning:{direction}.{figure.nbytes}.plain"]
        tried = [figure for figure in figures if figure.notes.get("direction") == direction]
        rows += [*plain, *sorted(tried, key=lambda figure: figure.middle)[:BEST]]
    return rows


def short(about: dict[str, Any], checks: Sequence[Findings], told: Told) -> str:
    """Return what is printed last: checks, rows with a target, what is missing."""
    parts = [sentence(about)]
    if checks:
        parts.append(summary(checks))
        failed = [
            f"FAILED {name}: {gist(test['text'])}"
            for findings in checks
            for name, test in findings.tests.items()
            if test["outcome"] in ("failed", "error")
        ]
        parts += failed[:MOST_FAILURES]
        if len(failed) > MOST_FAILURES:
            parts.append(f"... and {len(failed) - MOST_FAILURES} more: see gpu.md")
    judged = [figure for figure in told.figures.values() if figure.met(told.figures) is not None]
    if judged:
        parts.append(table(judged, told.figures))
    parts += [f"NOT COMPLETE {section}: {reason}" for section, reason in told.problems.items()]
    parts += [f"skipped {section}: {reason}" for section, reason in told.skipped.items()]
    if about["simulated"]:
        parts.append(SIMULATED)
    return "\n\n".join(parts)
