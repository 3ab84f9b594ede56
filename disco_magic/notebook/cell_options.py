"""The options of ``%%disco``."""

from __future__ import annotations

from functools import cache
from typing import Final

from disco_magic.notebook import option_types as of
from disco_magic.notebook.options import OptionParser
from disco_magic.notebook.page import MODES

GROUPINGS: Final = ("type", "engine", "order")
CHECKS: Final = ("types", "values")


@cache
def cell_parser() -> OptionParser:
    """Options of ``%%disco``."""
    parser = OptionParser(
        "%%disco",
        description="Run the cell on every worker, each in its own namespace; names it binds are registers.",
        epilog="WORKERS: numbers and ranges like 0, 1,2, 1:3, 0-2, ::2 or all. %disco -h: all but cells.",
    )
    who = parser.add_argument_group("who runs it, and who is shown").add_argument
    who(
        "-w",
        "--workers",
        "-t",
        "--targets",
        metavar="WORKERS",
        help="run it on these only; collectives in the cell then fail",
    )
    who("-g", "--group", type=int, metavar="G", help="run it on the workers of one group only")
    who("--show", metavar="WORKERS", help="show output and values of these only; all run")
    how = parser.add_argument_group("waiting").add_argument
    how(
        "-a",
        "--nowait",
        "--noblock",
        action="store_true",
        help="return a handle at once: .wait() .done() .cancel()",
    )
    how("-b", "--block", action="store_true", help="wait for the cell, which is the default")
    how("--timeout", type=of.seconds, metavar="SECONDS", help="stop the cell if it takes longer")
    out = parser.add_argument_group("output").add_argument
    out(
        "--output",
        choices=MODES,
        help="live; ordered: by worker, at the end; grouped: equal text once; worker0; none",
    )
    out(
        "--group-outputs",
        choices=GROUPINGS,
        help="at the end: by type of output, by engine (= worker), or in turns (order)",
    )
    out(
        "--progress-after",
        type=of.patience,
        metavar="SECONDS",
        help="show where the workers are once they have shown nothing for so long; 0: at once, none: never",
    )
    out("--time", action="store_true", help="show how long each worker took")
    parser.add_argument_group("workers that should agree").add_argument(
        "--check",
        nargs="?",
        choices=CHECKS,
        const=CHECKS[0],
        help="fail if registers that the cell bound differ between workers in type, shape or dtype; "
        "values: or those marked by worker.replicated in value",
    )
    data = parser.add_argument_group("variables").add_argument
    data("-o", "--out", type=of.name, metavar="NAME", help="bind the result (or the handle) to this variable")
    data(
        "--push", type=of.names, default=[], metavar="A,B", help="copy these variables to every worker first"
    )
    data(
        "--pull",
        type=of.names,
        default=[],
        metavar="Y",
        help="copy these registers into the notebook afterwards, from the first worker that ran",
    )
    return parser
