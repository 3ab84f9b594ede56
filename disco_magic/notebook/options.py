"""A parser for what stands behind ``%%disco`` and ``%disco``, in IPython's own form."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from IPython.core.error import UsageError
from IPython.core.magic_arguments import MagicArgumentParser


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
