"""A parser for the lines of ``%%disco`` and ``%disco``, based on IPython's."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any, Final, NoReturn

from IPython.core.error import UsageError
from IPython.core.magic_arguments import MagicArgumentParser
from IPython.utils.process import arg_split  # type: ignore[attr-defined]  # where magic_arguments has it from

from disco_magic.notebook import option_types as of
from disco_magic.phrases import near_misses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


_GIVEN: Final = "_given"
_FROM_THE_END: Final = re.compile(r"-\d[\d,:-]*$")
_UNKNOWN: Final = re.compile(r"unrecognized arguments: (-[^\s=]+)")
_NUMBER: Final = re.compile(r"unrecognized arguments: (\d+)$")
_AXES: Final = re.compile(r"unrecognized arguments: \w+=\d+\b")
# An index, in which quotes may hold brackets.
_BRACKETS: Final = re.compile(r"""\[(?:'[^']*'|"[^"]*"|[^][])*\]""")
_BEFORE_INDEX: Final = re.compile(r"(?<=[\w\]])\s+(?=\[)")  # Python takes x [0:2], too
_SPACE: Final = "\x1f"  # stands for one that does not end a word
_MORE: Final = re.compile(r"unrecognized arguments: [^-\s]")


class HelpAskedFor(Exception):
    """Ends the parsing when ``-h`` is given; the message is the help text."""


class _Help(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        raise HelpAskedFor(parser.format_help())


def add_session_options(add: Callable[..., object], *workers: str) -> None:
    """Add the options with which a session is started (`option_types.SESSION`)."""
    add(*workers, "--workers", type=of.count, metavar="N", help="how many workers")
    add("--groups", type=of.count, metavar="G", help="divide them into this many groups of equal size")
    add(
        "--mesh",
        type=of.mesh,
        metavar="MESH",
        help="named axes and their lengths, such as dp=2,tp=4, which make eight workers; or none",
    )
    add("--kind", choices=of.KINDS, help="what the workers are; only threads so far")
    add(
        "--ccl",
        choices=of.PLANES,
        help="what carries collectives: threads on the CPU, device or nccl on GPUs",
    )
    add(
        "--devices",
        metavar="DEVICES",
        help="each worker's GPU: 0,1 or 0-3; 0,0,0,0 puts four workers on one; auto: GPUs if any; cpu: none",
    )
    add(
        "--own-modules",
        type=of.own_modules,
        metavar="NAMES",
        help="modules that each worker imports for itself, as processes do, so that it has its own global "
        "variables in them: megatron,utils; . for all but libraries, as after the first %%disco run; none",
    )


class _Once(argparse.Action):
    """Stores the value of an option and refuses a second one, which would replace the first silently."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        given: set[str] = vars(namespace).setdefault(_GIVEN, set())
        if option_string is not None and self.dest in given:
            parser.error(f"{option_string} was given before; give it once")
        given.add(self.dest)
        setattr(namespace, self.dest, values)


class _Refused(argparse.Action):
    def __call__(
        self, parser: argparse.ArgumentParser, _: argparse.Namespace, __: object, option: str | None = None
    ) -> NoReturn:
        parser.error(f"there is no {option} here: {self.const}")


def refuse(parser: argparse.ArgumentParser, options: Iterable[str], instead: str) -> None:
    """Let `parser` say what to use instead of options that other tools have."""
    parser.add_argument(*options, action=_Refused, nargs="?", const=instead, help=argparse.SUPPRESS)


class OptionParser(MagicArgumentParser):
    """An argparse parser that raises IPython's UsageError, one line, instead of exiting.

    Attributes:
        one: what the error says about more values than the command takes; "": where the help is.
        has_indexes: whether spaces in brackets belong to a value, as in ``x[:, -1]``.
    """

    one = ""
    has_indexes = False

    def __init__(self, prog: str, **kwargs: Any) -> None:
        form = argparse.RawDescriptionHelpFormatter
        super().__init__(prog, formatter_class=form, **kwargs)  # type: ignore[no-untyped-call]  # IPython's
        self.allow_abbrev = False
        # Values, not options: workers counted from the end, as -1, -2: and -1,0.
        self._negative_number_matcher = _FROM_THE_END
        for action in (None, "store"):
            self.register("action", action, _Once)
        self.add_argument("-h", "--help", action=_Help, nargs=0, help="show this text")

    def read(self, line: str) -> argparse.Namespace:
        """The options in `line`."""
        if self.has_indexes:
            line = _BEFORE_INDEX.sub("", line)
            line = _BRACKETS.sub(lambda found: found[0].replace(" ", _SPACE), line)
        try:
            words = [word.replace(_SPACE, " ") for word in arg_split(line)]
            options = self.parse_args(words)
        except ValueError as reason:  # a quote that is not closed
            self.error(str(reason)[:1].lower() + str(reason)[1:])
        vars(options).pop(_GIVEN, None)
        return options

    def error(self, message: str) -> NoReturn:
        """Raise a one-line error with a similar option, or with how to get the help."""
        unknown, number = _UNKNOWN.match(message), _NUMBER.match(message)
        long = [option for option in self._option_string_actions if option.startswith("--")]
        meant = near_misses(unknown[1], long) if unknown else ""
        if number and isinstance(self._option_string_actions.get("-n"), _Once):
            meant = f"did you mean -n {number[1]}?"
        elif number and "-w" in self._option_string_actions:
            meant = f"-w {number[1]} chooses a worker, -w 0,{number[1]} two of them"
        if _AXES.match(message) and "--mesh" in self._option_string_actions:
            meant = "commas join the axes of a mesh: --mesh dp=2,tp=2"
        elif self.one and _MORE.match(message):
            meant = self.one
        raise UsageError(f"{self.prog}: {message} ({meant or f'{self.prog} -h shows what there is'})")
