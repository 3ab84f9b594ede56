"""``%disco auto``: whether plain cells run on the workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from disco_magic.notebook.commands.command import Command, parser_of

if TYPE_CHECKING:
    from argparse import Namespace

    from disco_magic.notebook.front import Front
    from disco_magic.notebook.options import OptionParser


def _auto(front: Front, options: Namespace) -> None:
    since = ""
    if options.state is not None:
        # The rest of the current cell has been transformed already.
        since = " from the next cell on" if front.plain.on != (options.state == "on") else ""
        front.plain.on = options.state == "on"
    if front.plain.on:
        where, other = "on all workers", "%%local runs one in the notebook, %disco auto off ends this"
    else:
        where, other = "in the notebook", "%%disco runs one on all workers, %disco auto on runs all there"
    front.sessions.say(f"plain cells run {where}{since}; {other}")


def _parser() -> OptionParser:
    parser = parser_of(
        "auto",
        "Run plain cells on all workers (on) or in the notebook (off), or show which.",
    )
    parser.add_argument(
        "state",
        nargs="?",
        choices=("on", "off"),
        help="while on, %%%%local at the top of a cell runs it in the notebook",
    )
    return parser


AUTO: Final = Command(_parser, _auto)
