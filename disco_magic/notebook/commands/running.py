"""Running a program's file on the workers, ``%disco run``."""

from __future__ import annotations

import argparse
import os
import shlex
from typing import TYPE_CHECKING, Final

from disco_magic.notebook import option_types as of
from disco_magic.notebook.commands.command import Command, parser_of

if TYPE_CHECKING:
    from argparse import Namespace

    from disco_magic.notebook.front import Front
    from disco_magic.notebook.options import OptionParser

_EPILOG: Final = """\
The file runs as a cell does, among the workers' registers, and leaves its own. __name__ == "__main__" is true
in it, and sys.argv has the arguments. Options of %disco run stand before the file."""


def _run(front: Front, options: Namespace) -> None:
    from disco_magic.notebook.execution import execute_file

    chosen = [("-w", options.workers), ("--timeout", options.timeout)]
    line = " ".join(f"{name} {value}" for name, value in chosen if value is not None)
    program = options.program[options.program[0] == "--" :]  # it may stand before the file, as elsewhere
    path = os.path.expanduser(of.unquoted(program[0]))
    execute_file(front, path, shlex.split(" ".join(program[1:])), line)


def _parser() -> OptionParser:
    parser = parser_of("run", "Run a file of Python on the workers, as mpiexec or torchrun would.")
    parser.add_argument("-w", "--workers", metavar="WORKERS", help="these workers only; as for cells")
    parser.add_argument("--timeout", metavar="SECONDS", help="stop it after so long; as for cells")
    # As one: between two argparse takes a -- for its own, which may be the program's.
    parser.add_argument(
        "program", nargs=argparse.PARSER, metavar="FILE", help="what to run, and its arguments"
    )
    parser.epilog = _EPILOG
    return parser


RUN: Final = Command(_parser(), _run)
