"""Looks that work while workers are busy: ``%disco registers|timeline``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from disco_magic.errors import UnknownName, UsageMistake
from disco_magic.notebook import option_types as of
from disco_magic.notebook.commands.command import Command, session_parser
from disco_magic.notebook.live.views import can_show
from disco_magic.notebook.targets import list_workers
from disco_magic.phrases import no_register

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from disco_magic.core.register_parts import RegisterParts
    from disco_magic.core.snapshot import Row, SessionSnapshot
    from disco_magic.core.timeline import Timeline
    from disco_magic.notebook.front import Front
    from disco_magic.notebook.inspector.panel import Inspector
    from disco_magic.notebook.options import OptionParser
    from disco_magic.notebook.timeline.view import TimelineView
    from disco_magic.session.session import Session

FACE_OPTIONS: Final = ("summary", "heatmap", "histogram", "lines", "values", "difference")
_OF_WORKERS: Final = FACE_OPTIONS[1:]


def _registers(front: Front, options: Namespace) -> Inspector | SessionSnapshot | RegisterParts | Row:
    from disco_magic.values.parts import split

    session = front.sessions.require()
    is_current = options.session is None or front.sessions.is_current(session)
    drawn = "--live" if options.live else f"--as {options.face}" if options.face != FACE_OPTIONS[0] else ""
    if drawn and not is_current:
        raise UsageMistake(
            f"{drawn} is about the current session, and {options.session} is another one: leave one out"
        )
    widget = not options.table and is_current and can_show(front.shell)
    workers = _drawn(options, session)
    numbered = options.numbered or (options.name or "").startswith("#")
    looked = {"sample": 0} if widget else {}  # only the names are needed: the widget looks by itself
    snapshot = session.registers(numbered=numbered, **looked)
    known = [row.name for row in snapshot.rows]
    name, written = split(options.name or "")
    if name and name not in known:
        raise UnknownName(no_register(name, known, session.former_names))
    if not widget:
        if options.face != FACE_OPTIONS[0]:
            raise UsageMistake(
                f"--as {options.face} is drawn by a notebook's widgets; without it there is a table here"
            )
        return _of_one(session, options.name) if name else snapshot
    if written:
        session.look_at(options.name)  # raises if there is no such register, and names similar ones
    from disco_magic.notebook.inspector.panel import Inspector

    inspector = front.views.open(front.shell, lambda: Inspector(front))
    inspector.look_at(options.name, options.face, workers or ())
    inspector.set_live(options.live)
    return inspector


def _of_one(session: Session, name: str) -> RegisterParts | Row:
    """One register or part, with a table of its parts if it has any."""
    inside = session.look_into(name)
    return inside if inside.rows else inside.row


def _drawn(options: Namespace, session: Session) -> tuple[int, ...] | None:
    """The workers to draw: one, or the two to compare; None: the usual ones."""
    workers = list_workers(options.workers, session.topology)
    compares = options.face == "difference"
    if workers is not None and options.face not in _OF_WORKERS:
        drawn = "|".join(_OF_WORKERS)
        raise UsageMistake(f"-w chooses workers for --as {drawn}; everything else shows all of them")
    if workers is not None and len(workers) != 1 + compares:
        what = "compares two workers, as in -w 2,0" if compares else "draws one worker, as in -w 2, or all"
        raise UsageMistake(f"--as {options.face} {what}; -w {options.workers} names {len(workers)}")
    return workers


def _timeline(front: Front, options: Namespace) -> TimelineView | Timeline | None:
    session = front.sessions.require()
    choose = _part_of_timeline(options)
    if options.save is not None:
        choose(session.timeline()).save(options.save)
        front.sessions.say(f"{options.save} has the timeline; https://ui.perfetto.dev opens it")
        return None
    if not can_show(front.shell):
        return choose(session.timeline())
    from disco_magic.notebook.timeline.view import TimelineView

    chosen = choose if options.cell or options.last is not None else None
    take = session.timeline if options.session else lambda: front.sessions.require().timeline()
    return front.views.open(front.shell, lambda: TimelineView(take, chosen))


def _part_of_timeline(options: Namespace) -> Callable[[Timeline], Timeline]:
    if options.cell and options.last is not None:
        raise UsageMistake("--cell and --last are two times; say one of them")
    if options.cell:
        return lambda timeline: timeline.of_cell()
    return lambda timeline: timeline if options.last is None else timeline.last(options.last)


def _registers_parser() -> OptionParser:
    parser = session_parser(
        "registers",
        "Show what every register holds on every worker; in a notebook, live.",
        workers="draw the value of this worker; two to compare: 2,0",
    )
    parser.one = "one name at a time; without a name it shows all registers"
    parser.has_indexes = True
    parser.add_argument(
        "name",
        nargs="?",
        type=of.part,
        metavar="NAME",
        help="look closely at this one, or a part of it: model.0.weight, x[0,2:4]",
    )
    parser.add_argument(
        "--as",
        dest="face",
        choices=FACE_OPTIONS,
        default=FACE_OPTIONS[0],
        help="draw NAME as: its statistics, a slice as a picture, the distribution, a line per worker, the "
        "elements, or how far two workers are apart",
    )
    parser.add_argument(
        "--live",
        action="store_true",
        help="look again every second, also while a cell runs; for the current session only",
    )
    parser.add_argument("--table", action="store_true", help="show a table that does not change")
    parser.add_argument(
        "--numbered",
        action="store_true",
        help="include numbered registers, which only references in Python hold",
    )
    return parser


def _timeline_parser() -> OptionParser:
    parser = session_parser(
        "timeline", "Show which worker did what when, who kept others waiting, and what that cost."
    )
    parser.add_argument("--cell", action="store_true", help="show only the last cell")
    parser.add_argument("--last", type=of.seconds, metavar="SECONDS", help="show only the last SECONDS")
    parser.add_argument(
        "--save",
        type=of.file,
        metavar="FILE",
        help="write it to a file, as a trace for https://ui.perfetto.dev, and show nothing",
    )
    return parser


REGISTERS: Final = Command(_registers_parser, _registers, "parts")
TIMELINE: Final = Command(_timeline_parser, _timeline)
