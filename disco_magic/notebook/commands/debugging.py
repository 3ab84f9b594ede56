"""``%disco debug``: opens the debugger where a worker failed."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from IPython.core.error import StdinNotImplementedError

from disco_magic.core.topology import Topology
from disco_magic.errors import UsageMistake
from disco_magic.notebook import option_types as of
from disco_magic.notebook.commands.command import Command, parser_of
from disco_magic.notebook.targets import parse_workers

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from disco_magic.notebook.front import Front
    from disco_magic.notebook.options import OptionParser
    from disco_magic.session.session import Session

_PATIENCE_S: Final = 1.0

_EPILOG: Final = """\
A cell that was stopped can be looked at, too: where each worker was.

The last failure is kept with its frames and what their variables hold, until the next cell or command fails
on a worker, the session is stopped or restarted, or --forget. Large arrays stay in memory as long. IPython
also keeps it until any cell fails (sys.last_value), and so do a result that --out has bound (its .errors)
and registers that the failure poisoned (%disco rm)."""


def _debug(front: Front, options: Namespace) -> None:
    from disco_magic.notebook.debugging.postmortem import examine
    from disco_magic.notebook.handle import handles_of

    last = front.settings.last_failure
    last.note_shown(front.sessions, front.shell)
    ended = (handle.error for handle in handles_of(front.shell) if handle.done())
    last.note_unasked(ended, front.sessions)
    last.settle()
    if options.forget:
        last.forget(front.shell)
        return
    last.check()
    session = last.session
    topology = Topology(max(last.failures) + 1) if session is None else session.topology
    failure = last.on(_one(options.worker, topology))
    with _beside(session, failure.worker):
        try:
            examine(front.shell, failure, options.commands)
        except StdinNotImplementedError:
            raise UsageMistake(
                "whoever runs this notebook takes no input, as nbconvert and papermill; say what to look at: "
                "%disco debug -c 'p x' -c up -c 'p y'"
            ) from None


@contextmanager
def _beside(session: Session | None, worker: int) -> Iterator[None]:
    """Work on the worker's device and stream, where its arrays are accepted and have been computed."""
    if session is None:
        yield
        return
    with session.beside(worker, _PATIENCE_S) as is_done:
        if not is_done:
            print(f"worker {worker} has still work on its GPU; what is computed here waits for that")
        yield


def _one(text: str | None, topology: Topology) -> int | None:
    if text is None:
        return None
    chosen = parse_workers(text, topology)
    if chosen is None:
        chosen = tuple(range(topology.num_workers))
    if len(chosen) != 1:
        raise UsageMistake(
            f"%disco debug looks at one worker at a time, {text!r} names {len(chosen)}; name one, as -w 0"
        )
    return chosen[0]


def _parser() -> OptionParser:
    parser = parser_of("debug", "Open IPython's debugger where a worker failed last.")
    parser.add_argument(
        "-w",
        "--worker",
        metavar="WORKER",
        help="look at this worker. Default: the one that the error names first, where the failure began; if "
        "collectives did not match, one whose call or line differs from most; after an interrupt, one that "
        "others waited for",
    )
    parser.add_argument(
        "-c",
        "--command",
        dest="commands",
        action="append",
        default=[],
        type=of.unquoted,
        metavar="COMMAND",
        help='execute this command and leave, without a prompt; may be given again: -c "p x" -c up -c "p y"',
    )
    parser.add_argument(
        "--forget", action="store_true", help="free what the last failure keeps, open nothing"
    )
    parser.epilog = _EPILOG
    return parser


DEBUG: Final = Command(_parser, _debug, expands=False)  # its commands name the worker's
