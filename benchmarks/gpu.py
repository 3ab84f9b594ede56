"""Check and measure everything that one GPU can show: ``python -m benchmarks.gpu``.

Needs numpy, cupy and pytest. It checks (``tests/gpu``) and measures, each part in a process of its own with a
deadline: a part that hangs costs only its own deadline and is reported. The order, and how long each part
should take on a data-centre GPU with 16 cores; together eight minutes:

    checks   versions; if none of them passes, no more is checked     10 s
             NCCL with one rank, kernels, device plane with 1 to 4
             workers, sessions, copies, interrupts, torch, vast
             arrays: a few processes at a time; compiling kernels
             takes most of it                                         90 s
             memory does not grow                                     40 s
    copies       host <-> GPU, 1 MiB to 1 GiB                         40 s
    tuning       chunks, buffers, threads of the staging buffers      30 s
    collectives  2, 4, 8 workers, three dtypes, 1 KiB to 1 GiB       100 s
    latency      8 bytes and 256 MiB, and where the time goes          5 s
    nccl         one rank, next to cupy's own calls                   10 s
    pair         the same with two ranks                              15 s
    waiting      how late a worker notices that the GPU is done       15 s
    checks   that may hang, or break the GPU:
             NCCL between two processes on the GPU                    40 s
             NCCL 2.30 and later: two ranks in one process            60 s
             a kernel that breaks its process's GPU                   10 s

``--only checks`` and ``--only measure`` split it between two commands, ``--only late`` is only the checks at
the end. ``--budget`` is the seconds for all of it; parts that have not begun by then are reported as such.

``gpu.json`` (every sample), ``gpu.md`` and ``gpu.log`` (what all parts wrote) go to ``--out``; they are
written after each part. The exit status is 1 if a check failed or a section did not finish, 2 if there is no
GPU. A missed target does not change it.

``--simulate`` runs a small version of it on a simulated GPU, to see that every line runs; its figures say
nothing about GPUs and are not stored among the results. With ``--quick`` it takes half a minute.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from benchmarks.gpus import checks, launch, report
from benchmarks.gpus.__main__ import SECTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.gpus.checks import Findings

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
DEADLINES_S = {"collectives": 240.0}
DEADLINE_S = 120.0
# What a quick rehearsal checks: compiling every kernel with a compiler for processors takes minutes.
REHEARSED = ("versions", "kernels", "faults")


def main() -> int:
    """Run the checks and measurements; write and print the results."""
    args = arguments()
    begin = monotonic()
    if args.simulate:
        os.environ["DISCO_SIMULATED_GPU"] = "1"  # inherited by the child processes
    try:
        about = launch.about() | {
            "date": args.date,
            "commit": args.commit or commit(),
            "arguments": sys.argv[1:],
        }
    except RuntimeError as reason:
        print(f"There is nothing to measure: {reason}", file=sys.stderr)
        return 2
    folder = args.out or folder_for(about)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / report.LOG).unlink(missing_ok=True)

    def left() -> float:
        return float(args.budget - (monotonic() - begin))

    wanted = chosen(args.only)
    findings: list[Findings] = []
    told = launch.Told()

    def check(parts: list[checks.Part]) -> None:
        for found in checks.run(parts, left, jobs=args.jobs, quick=args.quick):
            findings.append(found)
            findings.sort(key=lambda each: checks.PARTS.index(each.part))
            report.keep(folder, found.part.name, found.output)
            report.write(folder, about, findings, told)
            progress(begin, found.line())

    in_small = args.simulate and args.quick
    parts = [part for part in checks.PARTS if not in_small or part.name in REHEARSED]
    if "checks" in wanted:
        check([part for part in parts if part.phase < checks.LATE])
    for section in (section for section in SECTIONS if section in wanted):
        deadline = min(DEADLINES_S.get(section, DEADLINE_S), left())
        report.keep(folder, section, launch.measure(section, told, deadline, quick=args.quick))
        report.write(folder, about, findings, told)
        progress(begin, section)
    if "late" in wanted and ("checks" not in wanted or any(each.count("passed") for each in findings)):
        check([part for part in parts if part.phase >= checks.LATE])
    print(f"\n{report.short(about, findings, told)}\n\nWritten to {folder}")
    return int(bool(told.problems) or not all(each.good for each in findings))


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="benchmarks/results/DATE-GPU")
    parser.add_argument("--quick", action="store_true", help="fewer sizes and samples")
    parser.add_argument("--simulate", action="store_true", help="on a simulated GPU; no figures")
    parser.add_argument(
        "--only",
        action="append",
        choices=["checks", "late", "measure", *SECTIONS],
        metavar="PART",
        help=f"checks, late (of these), measure (the rest), {', '.join(SECTIONS)}; may be given again",
    )
    parser.add_argument("--budget", type=float, default=3600.0, metavar="S", help="seconds for all of it")
    parser.add_argument("--jobs", type=int, help="checks at a time (a third of the cores, at most 5)")
    parser.add_argument("--date", help="of the results (today)")
    parser.add_argument("--commit", help="what is measured, where git cannot say")
    args = parser.parse_args()
    args.date = args.date or f"{datetime.now(UTC):%Y-%m-%d}"
    args.jobs = args.jobs or max(1, min(5, (os.cpu_count() or 2) // 3))
    if args.simulate and args.out is not None and RESULTS in (args.out.resolve() / "x").parents:
        parser.error(f"--simulate makes no results: choose a folder outside of {RESULTS}")
    return args


def chosen(only: Sequence[str] | None) -> set[str]:
    """Return the parts to run."""
    wanted = set(only or ("checks", "measure"))
    wanted |= {"late"} if "checks" in wanted else set()
    return wanted | set(SECTIONS) if "measure" in wanted else wanted


def folder_for(about: dict[str, Any]) -> Path:
    """Return where the results go without ``--out``."""
    if about["simulated"]:
        return Path(tempfile.mkdtemp(prefix="disco-gpu-rehearsal-"))
    name = re.sub(r"[^a-z0-9]+", "-", about["gpu"].lower()).strip("-")
    return RESULTS / f"{about['date']}-{name}"


def commit() -> str:
    """Return the commit checked out here; ``unknown`` without git."""
    try:
        done = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


def progress(begin: float, what: str) -> None:
    """Print a line when a part has ended."""
    print(f"{monotonic() - begin:6.0f} s  {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
