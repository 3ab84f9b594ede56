"""Short lists of what the workers hold and did: ``%disco who|whos|log``. They wait for no worker."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from operator import attrgetter, itemgetter
from textwrap import fill
from typing import TYPE_CHECKING, Final

from IPython.display import display

from disco_magic.core.markup import MARK, UNKNOWN
from disco_magic.core.register_text import is_unseen
from disco_magic.core.snapshot import SessionSnapshot
from disco_magic.core.words import plural
from disco_magic.errors import UsageMistake
from disco_magic.notebook import option_types as of
from disco_magic.notebook.assigned import is_assigned
from disco_magic.notebook.commands.command import Command, session_parser
from disco_magic.notebook.options import refuse
from disco_magic.notebook.targets import parse_workers
from disco_magic.phrases import ranges

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Sequence

    from disco_magic.core.history import Entry, History
    from disco_magic.core.snapshot import RegisterInfo, Row
    from disco_magic.notebook.front import Front
    from disco_magic.notebook.options import OptionParser
    from disco_magic.session.session import Session

_WIDTH: Final = 80
_LAST: Final = 10
_OF_THESE: Final = "of these workers only (as for %%%%disco -w)"


def _who(front: Front, options: Namespace) -> list[str] | None:
    session = front.sessions.require()
    workers = parse_workers(options.workers, session.topology) or tuple(range(session.num_workers))
    rows = _of_types((row.of(workers) for row in session.registers().rows), options.types)
    if is_assigned():
        return [row.name for row in rows]
    if rows:
        _print_names(rows, workers)
    else:
        print(_nothing(session, options.types))
    return None


def _print_names(rows: list[Row], workers: Sequence[int]) -> None:
    named = [(_holders(row, workers), f"{row.name}{_mark(row)}") for row in rows]
    # First the registers that all workers have, then a line for each subset of the workers.
    named.sort(key=lambda each: (len(each[0]) < len(workers), each[0]))
    lines = [(ranges(who), [name for _, name in group]) for who, group in groupby(named, itemgetter(0))]
    indent = max(len(label) for label, _ in lines) + 2
    for label, names in lines:
        told = f"{label:{indent}}{'  '.join(names)}"
        print(fill(told, _WIDTH, subsequent_indent=" " * indent, break_long_words=False))
    marks = {MARK: "differs between workers", UNKNOWN: "compared by type only"}
    shown = set(map(_mark, rows))
    if legend := [f"{mark} {what}" for mark, what in marks.items() if mark in shown]:
        print(", ".join(legend))


def _whos(front: Front, options: Namespace) -> SessionSnapshot | None:
    session = front.sessions.require()
    rows = _of_types(session.registers().rows, options.types)
    snapshot = SessionSnapshot(session.id, session.num_workers, tuple(rows))
    if is_assigned():
        return snapshot
    if options.types and not rows:
        print(_nothing(session, options.types))
    else:
        display(snapshot)  # type: ignore[no-untyped-call]
    return None


def _of_types(rows: Iterable[Row], types: Sequence[str]) -> list[Row]:
    """The registers with a value of any of these types or dtypes, or with any value, by name."""

    def is_one(cell: RegisterInfo) -> bool:
        return not types or cell.type in types or cell.dtype in types

    return sorted((row for row in rows if any(map(is_one, row.present))), key=attrgetter("name"))


def _nothing(session: Session, types: Sequence[str]) -> str:
    none = f"no register is of type {' or '.join(types)}" if types else "0 registers"
    named = next((each for each in types if each in session), "")
    shown = f"; %disco registers {named} shows the one of that name" if named else ""
    return f"Disco session {session.id}: {none}{shown}"


def _holders(row: Row, workers: Sequence[int]) -> tuple[int, ...]:
    return tuple(worker for worker, cell in zip(workers, row.cells, strict=True) if cell is not None)


def _mark(row: Row) -> str:
    unseen = len(row.cells) > 1 and is_unseen(row)
    return MARK if row.differs else UNKNOWN if unseen else ""


def _log(front: Front, options: Namespace) -> History | None:
    from disco_magic.core.history import history_of

    session = front.sessions.require()
    if options.all and options.last is not None:
        raise UsageMistake("--all and -n both say how much is shown; leave one out")
    timeline = session.timeline()
    workers = parse_workers(options.workers, session.topology)
    last = None if options.all else _LAST if options.last is None else options.last
    history = history_of(
        timeline if workers is None else timeline.of(workers),
        last,
        _queued(front, session, workers or range(session.num_workers)),
        session.known.diverged,
    )
    if is_assigned():
        return history
    display(history)  # type: ignore[no-untyped-call]
    return None


def _queued(front: Front, session: Session, workers: Sequence[int]) -> list[Entry]:
    """Entries for commands that have not begun: cells with handles by name, the others by number."""
    from disco_magic.core.history import Entry
    from disco_magic.notebook.handle import handles_of  # brings NumPy
    from disco_magic.notebook.tables.standing import standing_of

    entries, named = [], Counter[int]()
    for handle in sorted(handles_of(front.shell), key=lambda each: each.sent_s):
        if handle.pending.session is session and not handle.pending.is_outlived:
            waiting = tuple(worker for worker in standing_of(handle).queued if worker in workers)
            named.update(waiting)
            entries += [Entry(waiting, handle.pending.label, "queued")] if waiting else []
    others: dict[int, list[int]] = {}
    for position in session.doctor().positions:
        executing = position.state not in ("idle", "queued")
        count = position.behind - executing - named[position.worker]
        if count > 0 and position.worker in workers:
            others.setdefault(count, []).append(position.worker)
    return entries + [
        Entry(tuple(ids), plural(count, "other command" if named else "command"), "queued")
        for count, ids in others.items()
    ]


def _listing_parser(name: str, description: str, workers: str = "") -> OptionParser:
    parser = session_parser(name, description, workers=workers)
    parser.add_argument(
        "types",
        nargs="*",
        metavar="TYPE",
        help="only registers of these types or dtypes: int ndarray float32",
    )
    return parser


def _who_parser() -> OptionParser:
    return _listing_parser("who", f"List the registers by name; {MARK}: differs between workers.", _OF_THESE)


def _whos_parser() -> OptionParser:
    parser = _listing_parser("whos", "List the registers with type and value, equal workers together.")
    instead = "the table has all workers; %disco who -w 0,3 lists what these have, by name"
    refuse(parser, ("-w", "--workers"), instead)
    return parser


def _log_parser() -> OptionParser:
    parser = session_parser(
        "log",
        "Show the last commands of each worker: when they ran, how long, and how they ended.",
        workers=_OF_THESE,
    )
    parser.add_argument(
        "-n", dest="last", type=of.count, metavar="N", help=f"the last N commands of each worker ({_LAST})"
    )
    parser.add_argument("--all", action="store_true", help="all commands that are kept")
    return parser


WHO: Final = Command(_who_parser, _who)
WHOS: Final = Command(_whos_parser, _whos)
LOG: Final = Command(_log_parser, _log)
