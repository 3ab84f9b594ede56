"""``%disco run``: runs a program, a file or a module, on the workers."""

from __future__ import annotations

import os
import shlex
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from disco_magic.notebook import option_types as of
from disco_magic.notebook.cell_options import add_execution_options
from disco_magic.notebook.commands.command import Command
from disco_magic.notebook.options import OptionParser, refuse

if TYPE_CHECKING:
    import argparse
    from argparse import Namespace
    from collections.abc import Sequence

    from disco_magic.notebook.front import Front

_EPILOG: Final = """\
The file runs like a cell: it sees the workers' registers, and the names that it binds become registers.
__name__ == "__main__" is true in it, and sys.argv has the arguments. Options of %disco run go before the
file. `%disco run -m shop.train` finds the program by its module name, and its relative imports work; of a
package or a folder, __main__.py is run. {lr} and $lr are variables of the notebook, as in other magics:
for lr in (0.1, 0.2): %disco run train.py --lr {lr}"""

_OF_LAUNCHERS: Final = {
    "the session's workers run the program, and %disco start -n 4 starts four": (
        "-n",
        "-np",
        "--nproc-per-node",
        "--nproc_per_node",
    ),
    "there is one host, and what torchrun's agents agree on is known": (
        *("--standalone", "--nnodes", "--rdzv-endpoint", "--rdzv_endpoint"),
        *("--master-addr", "--master_addr", "--master-port", "--master_port"),
    ),
}
"""What is here instead of options of torchrun and mpiexec."""


class _RunParser(OptionParser):
    """Parses options up to the first other word, which is the program, followed by its arguments."""

    # IPython's parser passes only a list.
    def parse_args(self, args: Sequence[str], namespace: None = None) -> Namespace:  # type: ignore[override]
        start = self._start_of_program(args)
        program = args[start + (args[start : start + 1] == ["--"]) :]
        # After a --, because argparse would take it for the optional value of --check.
        file = ["--", program[0]] if program else []
        options: Namespace = super().parse_args([*args[:start], *file], namespace)
        options.arguments = shlex.split(" ".join(program[1:]))  # `read` reports unclosed quotes
        return options

    def _start_of_program(self, words: Sequence[str]) -> int:
        start = 0
        while start < len(words) and words[start].startswith("-") and words[start] != "--":
            action = self._last_option(words[start])
            start += 1
            if action is None or start == len(words):
                continue
            is_value = words[start] in (action.choices or ()) if action.nargs == "?" else action.nargs is None
            start += is_value
        return start

    def _last_option(self, word: str) -> argparse.Action | None:
        """The option whose value may be the next word: ``--out``, or the last letter of ``-ao``."""
        known = self._option_string_actions
        if word in known or word.startswith("--"):
            return known.get(word)
        for position, letter in enumerate(word[1:], 2):
            action = known.get(f"-{letter}")
            if action is None or action.nargs is None:  # the rest of the word is its value
                return action if position == len(word) else None
        return action


def _run(front: Front, options: Namespace) -> Any:
    # Not for %load_ext, of which these would be a fifth.
    from disco_magic.functions.execution.scripts import compile_file, compile_module
    from disco_magic.notebook.execution import execute_program

    name, arguments = of.unquoted(options.program), options.arguments
    if options.module:
        return execute_program(front, partial(compile_module, name, arguments), options)
    return execute_program(front, partial(compile_file, os.path.expanduser(name), arguments), options)


def _parser() -> OptionParser:
    parser = _RunParser(
        "%disco run", description="Run a program on all workers, as torchrun or mpiexec python would."
    )
    add_execution_options(parser)
    parser.add_argument(
        "--reload",
        action="store_true",
        help="import modules from the file's folder anew, because they have changed, or keep what an earlier "
        "run has left in them",
    )
    parser.add_argument(
        "-m", dest="module", action="store_true", help="FILE is the name of a module, as with python -m"
    )
    for instead, theirs in _OF_LAUNCHERS.items():
        refuse(parser, theirs, instead)
    parser.set_defaults(local=False)
    parser.add_argument("program", metavar="FILE", help="the program; its own arguments follow it")
    parser.epilog = _EPILOG
    return parser


RUN: Final = Command(_parser, _run)
