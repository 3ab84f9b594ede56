"""One ``%disco`` subcommand."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

from disco_magic.notebook import option_types as of
from disco_magic.notebook.options import OptionParser

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from disco_magic.notebook.front import Front


STOPS_NOTHING: Final = ", and say what each worker is doing; stops nothing"
"""What a command's ``--timeout`` does."""


class Command:
    """A subcommand: reads its options, asks the session for one thing, and shows it.

    Args:
        make_parser: makes what parses the text after its name. Called once that is needed, because most
            notebooks type a few commands only.
        run: executes it; the return value becomes ``Out[n]``.
        completes: what its arguments name: notebook variables, registers, or registers and their parts.
        expands: whether ``$name`` and ``{name}`` are the notebook's variables.
    """

    def __init__(
        self,
        make_parser: Callable[[], OptionParser],
        run: Callable[[Front, Namespace], Any],
        completes: Literal["notebook", "registers", "parts"] | None = None,
        *,
        expands: bool = True,
    ) -> None:
        self._make_parser = make_parser
        self.run, self.completes, self.expands = run, completes, expands

    @cached_property
    def parser(self) -> OptionParser:
        """Parses the text after its name."""
        return self._make_parser()


def parser_of(name: str, description: str) -> OptionParser:
    """A parser for ``%disco name``, without options yet."""
    return OptionParser(f"%disco {name}", description=description)


def session_parser(name: str, description: str, *, workers: str = "", timeout: str = "") -> OptionParser:
    """A parser for a command on one session, with the option ``--session``; see `table.perform`.

    `workers` and `timeout` say what the options ``--workers`` and ``--timeout`` do; empty: there are none.
    """
    parser = parser_of(name, description)
    parser.add_argument(
        "--session",
        type=of.session,
        metavar="VARIABLE",
        help="another session than the current one: the variable that holds it, or its number",
    )
    if workers:
        parser.add_argument("-w", "--workers", metavar="WORKERS", help=workers)
    if timeout:
        parser.add_argument(
            "--timeout", type=of.limit, metavar="SECONDS", help=f"wait no longer than this{timeout}"
        )
    return parser
