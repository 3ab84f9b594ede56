"""The options of ``%%disco``: our own, and ipyparallel's ``%%px`` options with the same meaning."""

from __future__ import annotations

import argparse
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final

from disco_magic.errors import UsageMistake
from disco_magic.notebook import option_types as of
from disco_magic.notebook.options import OptionParser, refuse

if TYPE_CHECKING:
    from collections.abc import Callable

GROUPINGS: Final = ("type", "engine", "order")
CHECKS: Final = ("types", "values", "lines")
REFUSED: Final = {
    "--verbose": "cells are not announced; --time says afterwards who ran one and how long it took",
    "--signal-on-interrupt": "workers are threads of this process, which no signal reaches; Ctrl-C or the "
    "stop button stops a cell on all of them, %disco interrupt -w 0 stops a --nowait cell on some",
    **dict.fromkeys(
        ("-n", "--np", "--num-workers"),
        "%disco start -n 8 starts other workers, -w 0,1 chooses some of those that there are",
    ),
}
"""Options of ``%%px``, or of %disco start, that have no meaning here, and what to use instead."""


class _AtTheEnd(argparse.Action):
    """``--no-stream``: the same as ``--group-outputs``, in the default order unless one is given."""

    def __call__(self, _: argparse.ArgumentParser, options: argparse.Namespace, *__: object) -> None:
        options.group_outputs = options.group_outputs or GROUPINGS[0]


@cache
def cell_parser() -> OptionParser:
    """The option parser of ``%%disco``."""
    parser = OptionParser(
        "%%disco",
        description="Run the cell on every worker, each with its own variables; what it binds are registers.",
        epilog="WORKERS: numbers or ranges: 0  1,2  1:3  0-2  ::2  all. %disco -h lists the commands.",
    )
    who = add_execution_options(parser)
    who(
        "--local",
        action="store_true",
        help="run it in the notebook first, without worker_id and collectives; if it fails there, no worker "
        "runs it",
    )
    parser.add_argument("--no-verbose", action="store_true", help=argparse.SUPPRESS)  # nobody announces cells
    for option, instead in REFUSED.items():
        refuse(parser, [option], instead)
    return parser


def add_execution_options(parser: OptionParser) -> Callable[..., object]:
    """Add the options for executing a cell or a file; return ``add_argument`` of the group of workers."""
    who = parser.add_argument_group("who runs it, and who is shown").add_argument
    _add_workers(who)
    _add_waiting(parser.add_argument_group("waiting").add_argument)
    _add_output(parser.add_argument_group("output").add_argument)
    _add_check(parser.add_argument_group("workers that should agree").add_argument)
    _add_messages(parser.add_argument_group("messages").add_argument)
    _add_variables(parser.add_argument_group("variables").add_argument)
    return who


def _add_workers(who: Callable[..., object]) -> None:
    who(
        "-w",
        "--workers",
        "-t",
        "--targets",
        metavar="WORKERS",
        help="run it on these workers only; collectives that need others fail",
    )
    who(
        "--session",
        type=of.session,
        metavar="NAME",
        help="run it in another session than the current one: the variable that holds it, or its number",
    )
    who("-g", "--group", type=int, metavar="G", help="run it on the workers of this group only")
    who("--show", metavar="WORKERS", help="run it on all workers, show output and values of these only")


def _add_waiting(how: Callable[..., object]) -> None:
    how(
        "-a",
        "--nowait",
        "--noblock",
        action="store_true",
        help="return a handle at once: .wait() .result() .done() .cancel() .show(), or await it",
    )
    how("-b", "--block", action="store_true", help="wait for the cell, which is the default")
    how(
        "--timeout",
        type=of.limit,
        metavar="SECONDS",
        help="stop the cell if it takes longer; what was sent before it continues. none: no limit",
    )


def _add_output(out: Callable[..., object]) -> None:
    out(
        "--output",
        choices=of.MODES,
        help="live: as it comes; ordered: at the end, worker by worker; grouped: at the end, equal output of "
        "several workers once; worker0: only what the first worker that runs the cell prints, draws and "
        "returns; none: values and errors only. Errors of all workers are always shown",
    )
    out(
        "--group-outputs",
        choices=GROUPINGS,
        help="show output at the end, as ipyparallel does: by type, by engine (worker), or in order",
    )
    out("-e", dest="group_outputs", action="store_const", const="engine", help="--group-outputs engine")
    out("-r", dest="group_outputs", action="store_const", const="order", help="--group-outputs order")
    out("--stream", dest="output", action="store_const", const="live", help="--output live")
    out("--no-stream", action=_AtTheEnd, nargs=0, help="--group-outputs type")
    out(
        "--progress-after",
        type=of.patience,
        metavar="SECONDS",
        help="show what each worker is doing after this many seconds without output; 0: at once; "
        "none or -1: never",
    )
    out(
        "--time",
        action="store_true",
        help="show how many seconds each worker computed and waited, who was last, and the load imbalance "
        "(longest / mean computing time - 1)",
    )


def _add_check(agree: Callable[..., object]) -> None:
    agree(
        "--check",
        nargs="?",
        choices=CHECKS,
        const=CHECKS[0],
        help="fail if registers that the cell bound differ between workers in type, shape or dtype; values: "
        "also if what worker.replicated has marked differs in value; lines: also if workers called a "
        "collective from different lines",
    )


def _add_messages(between: Callable[..., object]) -> None:
    between(
        "--rendezvous",
        action="store_true",
        help="let send wait until recv asks for its message: schedules that hang with NCCL, or with MPI if "
        "messages are large, then fail here",
    )


def _add_variables(data: Callable[..., object]) -> None:
    data("-o", "--out", type=of.name, metavar="NAME", help="bind the result (or the handle) to this variable")
    data(
        "--push",
        type=of.registers,
        default=[],
        metavar="A,B",
        help="before the cell, copy these variables to the workers that run it",
    )
    data(
        "--pull",
        type=of.registers,
        default=[],
        metavar="Y",
        help="after the cell, copy these registers from the first worker that ran it into the notebook",
    )


@lru_cache(maxsize=128)
def cell_options(line: str) -> argparse.Namespace:
    """The options in the text after ``%%disco``, not to be changed: a text is parsed once, which takes 30 us.

    Raises:
        UsageError, HelpAskedFor: see `OptionParser.read`.
    """
    return cell_parser().read(line)


def refuse_contradictions(options: argparse.Namespace) -> None:
    """Raise UsageMistake for options of a cell that exclude each other."""
    if options.nowait and options.block:
        raise UsageMistake("--nowait and --block exclude each other; leave one out")
    for name in ("timeout", "pull", "time", "check"):
        if options.nowait and getattr(options, name):
            raise UsageMistake(
                f"--{name} needs the end of the cell, which --nowait does not wait for; leave one out"
            )
    if options.nowait and options.progress_after is not None:
        raise UsageMistake(
            "--progress-after is for the wait for a cell, which --nowait does not do; leave one out"
        )
    if options.out and options.out in (options.pull or ()):
        raise UsageMistake(f"--out and --pull both bind {options.out}; choose another name for one of them")
    if options.output == "worker0" and options.show is not None:
        raise UsageMistake("--output worker0 and --show both say whose output is shown; leave one out")
    if options.output and options.group_outputs:
        raise UsageMistake(
            "--output (or --stream) and --group-outputs (or -e, -r, --no-stream) both say how output is "
            "shown; leave one out"
        )
