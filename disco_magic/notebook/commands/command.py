"""One ``%disco`` subcommand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from disco_magic.notebook import option_types as of
from disco_magic.notebook.options import OptionParser

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from disco_magic.notebook.front import Front


class Command(NamedTuple):
    """A subcommand: reads its options, asks the session for one thing, and shows it.

    Attributes:
        parser: of what stands behind its name.
        run: carries it out; what it returns becomes ``Out[n]``.
        written: what a line is made into before its options are read; None: it is taken as it is.
        completes: which names its arguments are: of notebook variables, of registers, or also of their parts.
    """

    parser: OptionParser
    run: Callable[[Front, Namespace], Any]
    written: Callable[[Front, str], str] | None = None
    completes: Literal["notebook", "registers", "parts"] | None = None


def parser_of(name: str, description: str) -> OptionParser:
    """A parser for ``%disco name``, which has no options yet."""
    return OptionParser(f"%disco {name}", description=description)


def session_parser(name: str, description: str) -> OptionParser:
    """The same for a command that is about one session: ``--session`` says which, see `table.perform`."""
    parser = parser_of(name, description)
    parser.add_argument(
        "--session",
        type=of.name,
        metavar="VARIABLE",
        help="the session that this variable holds, instead of the current one",
    )
    return parser
