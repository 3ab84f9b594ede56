"""``python -m benchmarks``: measure disco_magic and the installed peers in one run; print the comparison."""

from __future__ import annotations

import argparse
import compileall
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import disco_magic
from benchmarks import control, data, growth, life, machine, notebook, table
from benchmarks.clock import Effort
from benchmarks.side import Figures, launch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.row import Row
    from benchmarks.side import Side

README = Path(__file__).with_name("README.md")
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


@dataclass(frozen=True)
class Group:
    """Rows measured by the same sides, each launched once in every one of `rounds` rounds."""

    title: str
    rows: Sequence[Row]
    sides: Sequence[Side]
    rounds: int


GROUPS = {
    "control": Group("Control plane, threads", control.ROWS, control.SIDES, 3),
    "life": Group("A command's life", life.ROWS, life.SIDES, 3),
    "data": Group("Data plane, threads", data.ROWS, data.SIDES, 3),
    "notebook": Group("Notebook", notebook.ROWS, notebook.SIDES, 1),
    "growth": Group("Growth", growth.ROWS, growth.SIDES, 2),
}


def main() -> int:
    """Measure, print, and write what was asked for; 1 if one of our own measurements failed."""
    args = arguments()
    effort = Effort(args.workers, args.repeat or (3 if args.quick else 7), args.quick)
    about = machine.describe()
    # pip compiles when it installs; in a checkout the first start, or every one, would compile.
    compileall.compile_dir(Path(disco_magic.__file__).parent, quiet=1)
    figures, parts = Figures(), []
    for name in args.only or GROUPS:
        measure(name, effort, figures, rounds=args.rounds, verbose=args.verbose)
        parts.append(section(GROUPS[name], effort, figures))
        print(f"\n{parts[-1]}", flush=True)
    troubles = table.problems(figures)
    if troubles:
        parts.append(f"### Skipped or failed\n\n{troubles}")
        print(f"\n{parts[-1]}")
    print("\n" + "\n".join(about))
    if args.json:
        args.json.write_text(json.dumps({"about": about, **asdict(figures)}, indent=1))
    if args.write:
        write("\n\n".join(["\\\n".join(about), *parts]))
    return int(any(key.partition(":")[0] == "ours" for key in figures.problems))


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", action="append", choices=GROUPS, metavar="GROUP", help=", ".join(GROUPS))
    parser.add_argument("--workers", type=int, default=4, help="the targets are for 4")
    parser.add_argument("--repeat", type=int, help="samples per measurement and round (7)")
    parser.add_argument("--rounds", type=int, help="launches of every side (1 to 3, by group)")
    parser.add_argument("--quick", action="store_true", help="one round, a fifth of the work")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample")
    parser.add_argument("--write", action="store_true", help="put the result into benchmarks/README.md")
    parser.add_argument("--verbose", action="store_true", help="show what the sides print to stderr")
    return parser.parse_args()


def measure(name: str, effort: Effort, figures: Figures, *, rounds: int | None, verbose: bool) -> None:
    """Launch the group's sides in turn, round after round, so that a slow minute hits all of them."""
    group = GROUPS[name]
    sides = [side for side in group.sides if not skip(side, figures)]
    for number in range(rounds or (1 if effort.quick else group.rounds)):
        for side in sides:
            start = perf_counter()
            launch(side, effort, figures, timeout_s=120, verbose=verbose)
            spent = perf_counter() - start
            print(f"{name}, round {number + 1}: {side.title} {spent:.1f} s", file=sys.stderr, flush=True)
    if name == "growth":
        growth.derive(figures)
    if name == "life":
        life.derive(figures, effort.workers)


def skip(side: Side, figures: Figures) -> bool:
    """Whether `side` cannot run here; prints why."""
    reason = side.missing()
    if reason:
        figures.problems[side.tag] = reason
        print(reason, file=sys.stderr, flush=True)
    return bool(reason)


def section(group: Group, effort: Effort, figures: Figures) -> str:
    """Return a group's heading, table and legend."""
    judge = effort.workers == 4
    lines = table.table(group.rows, group.sides, figures, judge=judge)
    return f"### {group.title}, {effort.workers} workers\n\n{lines}\n\n{table.legend(group.rows)}"


def write(text: str) -> None:
    """Replace the marked part of the README."""
    before, _, rest = README.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    README.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")


if __name__ == "__main__":
    sys.exit(main())
