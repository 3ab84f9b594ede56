"""Compares registers between workers: ``%disco check``, and ``--check`` of a cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from disco_magic.errors import DiscoError
from disco_magic.notebook import option_types as of
from disco_magic.notebook.cell_options import CHECKS
from disco_magic.notebook.commands.command import STOPS_NOTHING, Command, session_parser
from disco_magic.notebook.targets import parse_workers

if TYPE_CHECKING:
    from argparse import Namespace

    from disco_magic.core.report import CheckReport
    from disco_magic.notebook.front import Front
    from disco_magic.notebook.options import OptionParser
    from disco_magic.session.arguments import Limit
    from disco_magic.session.pending import PendingCell
    from disco_magic.session.results import CellResult

_UNMARKED: Final = "no values: `worker.replicated` marks what is to be equal"
_EPILOG: Final = """\
It fails if anything differs, as a cell with --check does. Without names it compares all registers by type,
shape and dtype, and by value those that `worker.replicated` or a loading plan has marked. It waits for what
was sent before; Ctrl-C or the stop button ends the wait."""


def _check(front: Front, options: Namespace) -> CheckReport:
    from disco_magic.notebook.output.arrival import await_workers  # not for %load_ext

    session = front.sessions.require()
    timeout = options.timeout
    if any(each.behind for each in session.doctor().positions):
        limit = session.patience(timeout)
        await_workers(session, front.shell, front.settings.output, "%disco check", timeout=timeout)
        timeout = limit.left()
    report = session.check(
        *options.names,
        values=not options.types,
        workers=parse_workers(options.workers, session.topology),
        over=options.over,
        rtol=options.rtol,
        atol=options.atol,
        timeout=timeout,
    )
    report.raise_if_differing()
    unmarked = [row.name for row in report if not row.by_value and row.type != "module"]
    if unmarked and not options.names and not options.types:
        of_it = f"%disco check {unmarked[0]} compares its own"
        front.sessions.say(f"values were compared of marked registers only; {of_it}")
    return report


def checked_cell(cell: PendingCell, result: CellResult, mode: str, limit: Limit) -> str:
    """Check the workers that ran a cell; return a line that says what agrees, or two.

    Raises:
        Divergence: something differs; like all errors of a cell, it has the `result`.
        SyncTimeout: the workers have not answered in time; also with the `result`.
    """
    from disco_magic.session.cell_checks import check_cell, check_lines  # not for %load_ext: loads NumPy

    values = mode == CHECKS[1]
    try:
        # First: from wrong lines everything else may follow.
        lines = f"check {check_lines(cell.session, cell.seq, result.label)}\n" if mode == CHECKS[2] else ""
        report = check_cell(
            cell.session, cell.seq, result.label, result.workers, values=values, timeout=limit
        )
        report.raise_if_differing()
    except (DiscoError, KeyboardInterrupt) as error:
        error.result = result  # type: ignore[union-attr]
        raise
    # Otherwise the user would take the line for the result of a comparison of values.
    has_missed = values and report.rows and not any(row.by_value for row in report)
    return f"{lines}check {report.summary}{f'; {_UNMARKED}' if has_missed else ''}"


def _parser() -> OptionParser:
    parser = session_parser(
        "check",
        "Compare registers between workers, bit for bit or nearly.",
        workers="compare these workers only (as for %%%%disco -w)",
        timeout=STOPS_NOTHING,
    )
    parser.add_argument(
        "names", nargs="*", type=of.part, metavar="NAME", help="a register, or a part: model.0.weight, x[0:2]"
    )
    parser.has_indexes = True
    parser.add_argument(
        "--types", action="store_true", help="compare types, shapes and dtypes only, no values"
    )
    parser.add_argument(
        "--over",
        type=of.axes,
        metavar="AXES",
        help="compare along these axes of the mesh",
    )
    tolerance = parser.add_argument_group("how far numbers may be from the first worker's").add_argument
    tolerance("--rtol", type=of.tolerance, default=0.0, metavar="R", help="relative: R times that number")
    tolerance("--atol", type=of.tolerance, default=0.0, metavar="A", help="absolute: A, added to that")
    parser.epilog = _EPILOG
    return parser


CHECK: Final = Command(_parser, _check, "parts")
