"""What may stand behind ``%%disco`` and ``%disco``: one parser each, in IPython's own form."""

from __future__ import annotations

import argparse
import re
from functools import cache
from typing import Any, Final, NoReturn

from IPython.core.error import UsageError
from IPython.core.magic_arguments import MagicArgumentParser

from disco_magic.notebook.page import MODES

GROUPINGS: Final = ("type", "engine", "order")
CHECKS: Final = ("types", "values")
FACE_OPTIONS: Final = ("summary", "heatmap", "histogram", "values", "difference")
OUT: Final = re.compile(r"Out\[(\d+)\]")
_NAME_HELP = "names of variables"


class HelpAskedFor(Exception):
    """``-h`` was given: ends the parsing; the text is the message."""


class _Help(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        raise HelpAskedFor(parser.format_help())


class OptionParser(MagicArgumentParser):
    """argparse that raises IPython's UsageError, one line, instead of leaving the process."""

    def __init__(self, prog: str, **kwargs: Any) -> None:
        form = argparse.RawDescriptionHelpFormatter
        super().__init__(prog, formatter_class=form, **kwargs)  # type: ignore[no-untyped-call]  # IPython's
        self.allow_abbrev = False
        self.add_argument("-h", "--help", action=_Help, nargs=0, help="show this text")

    def read(self, line: str) -> argparse.Namespace:
        """The options in `line`.

        Raises:
            UsageError: they are wrong.
            HelpAskedFor: the help was asked for.
        """
        options: argparse.Namespace = self.parse_argstring(line)  # type: ignore[no-untyped-call]  # IPython's
        return options

    def error(self, message: str) -> NoReturn:
        """One line, with the way to the help."""
        raise UsageError(f"{self.prog}: {message} ({self.prog} -h shows what there is)")


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    wrong = [name for name in names if not name.isidentifier()]
    if wrong:
        raise argparse.ArgumentTypeError(f"{wrong[0]!r} is not a variable name; write names with commas: a,b")
    return names


def _name(text: str) -> str:
    if not text.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is not a variable name")
    return text


def _name_or_result(text: str) -> str:
    return text if OUT.fullmatch(text) else _name(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not seconds > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write seconds, e.g. 30 or 0.5")
    return seconds


def _patience(text: str) -> float:
    """Seconds, 0 included; ``none`` is for ever."""
    try:
        seconds = float("inf" if text == "none" else text)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write seconds, e.g. 5 or 0.5, or none")
    return seconds


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
    how("--timeout", type=_seconds, metavar="SECONDS", help="stop the cell if it takes longer")
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
        type=_patience,
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
    data("-o", "--out", type=_name, metavar="NAME", help="bind the result (or the handle) to this variable")
    data("--push", type=_names, default=[], metavar="A,B", help="copy these variables to every worker first")
    data(
        "--pull",
        type=_names,
        default=[],
        metavar="Y",
        help="copy these registers into the notebook afterwards, from the first worker that ran",
    )
    return parser


@cache
def command_parsers() -> dict[str, OptionParser]:
    """Options of every ``%disco`` subcommand, by its name."""
    start = _command(
        "start", "Start the workers; without options with the configured numbers (%config DiscoMagics)."
    )
    start.add_argument("-n", "--workers", type=int, metavar="N", help="how many workers")
    start.add_argument("--groups", type=int, metavar="G", help="how many groups of equal size they form")
    start.add_argument("--kind", choices=["threads"], help="what the workers are")
    start.add_argument(
        "--ccl", choices=["auto", "threads", "device", "nccl"], help="what carries collectives"
    )
    start.add_argument(
        "--devices",
        metavar="DEVICES",
        help="each worker's GPU: 0,1 or 0,0,0,0 for four on one; auto: GPUs if there are any; cpu: none",
    )
    rm = _command("rm", "Unbind registers on every worker, or free the values that a result keeps there.")
    rm.add_argument(
        "names",
        nargs="+",
        metavar="NAME",
        type=_name_or_result,
        help="names of registers, or results: Out[3], _3, a variable bound by --out; what they show stays",
    )
    interrupt = _command("interrupt", "Stop what the workers are executing.")
    interrupt.add_argument("-w", "--workers", metavar="WORKERS", help="stop these only; as for cells")
    parsers = [
        start,
        _command("stop", "End the workers. Registers are gone."),
        _command("restart", "New workers with the same numbers. Registers are gone."),
        _command("status", "Say what there is and what every worker is doing."),
        _registers(),
        _timeline(),
        _command("sync", "Wait until the workers have executed everything sent so far; raise what failed."),
        interrupt,
        _moving("put", "Copy notebook variables to worker 0; the other workers hold None."),
        _moving("get", "Copy registers of worker 0 into notebook variables."),
        _moving("broadcast", "Copy notebook variables to every worker."),
        _moving("scatter", "Split notebook arrays evenly over the workers.", axis=True),
        _moving("gather", "Join the workers' arrays in a notebook variable.", axis=True),
        rm,
    ]
    return {parser.prog.split()[1]: parser for parser in parsers}


def _timeline() -> OptionParser:
    parser = _command("timeline", "Show who did what when, who kept others waiting, and what that cost.")
    parser.add_argument("--last", type=_seconds, metavar="SECONDS", help="show only the last seconds")
    parser.add_argument(
        "--save", metavar="FILE", help="do not show it, write it as a trace for https://ui.perfetto.dev"
    )
    return parser


def _registers() -> OptionParser:
    parser = _command("registers", "Show what every register holds on every worker, live in a notebook.")
    parser.add_argument("name", nargs="?", metavar="NAME", help="look closely at this one")
    parser.add_argument(
        "--as",
        dest="face",
        choices=FACE_OPTIONS,
        default=FACE_OPTIONS[0],
        help="how NAME is drawn: its statistics, a slice as a picture, the distribution, the elements, or "
        "one worker minus another",
    )
    parser.add_argument("-w", "--workers", metavar="WORKERS", help="which one is drawn; two to compare: 2,0")
    parser.add_argument("--live", action="store_true", help="look again every second, also while a cell runs")
    parser.add_argument("--table", action="store_true", help="a table that stays as it is")
    parser.add_argument(
        "--numbered", action="store_true", help="in a table: with registers that only references keep"
    )
    return parser


def _command(name: str, description: str) -> OptionParser:
    return OptionParser(f"%disco {name}", description=description)


def _moving(name: str, description: str, *, axis: bool = False) -> OptionParser:
    parser = _command(name, description)
    parser.add_argument("names", nargs="+", metavar="NAME", type=_name, help=_NAME_HELP)
    if axis:
        parser.add_argument("--axis", type=int, default=0, metavar="AXIS", help="along which axis (0)")
    return parser


def overview() -> str:
    """Help of ``%disco``."""
    commands = command_parsers()
    width = max(map(len, commands))
    lines = [f"  {name:<{width}}  {parser.description}" for name, parser in commands.items()]
    return "\n".join(
        [
            "usage: %disco COMMAND ...",
            "",
            *lines,
            "",
            "%disco COMMAND -h shows a command's options; %%disco? those of cells.",
        ]
    )
