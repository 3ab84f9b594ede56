"""Moves values between notebook and workers: ``%disco put|get|broadcast|scatter|gather|rm``."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from disco_magic.errors import SessionClosed, SyncTimeout, UnknownName, UsageMistake, WorkerError
from disco_magic.errors.mistakes import about
from disco_magic.notebook import option_types as of
from disco_magic.notebook.assigned import is_assigned
from disco_magic.notebook.commands.command import Command, session_parser
from disco_magic.notebook.options import refuse
from disco_magic.notebook.targets import list_workers, parse_workers
from disco_magic.phrases import no_register

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from disco_magic.notebook.front import Front
    from disco_magic.notebook.options import OptionParser
    from disco_magic.session.dref import DRef
    from disco_magic.session.results import CellResult
    from disco_magic.session.session import Session

_COPIES_NOTHING: Final = " for what was sent before; then say what each worker is doing, and copy nothing"
# Workers that were idle have freed something long before.
_SOON_S: Final = 1.0


class _Move(NamedTuple):
    """A command that moves values, after everything that was sent to the workers before."""

    front: Front
    session: Session
    name: str
    timeout: float | None
    sent: Iterable[str] = ()

    def wait(self, workers: Sequence[int] | None = None) -> None:
        """Wait for all or some workers; after a second, show where each worker is."""
        from disco_magic.notebook.output.arrival import await_workers  # not for %load_ext

        shell, output, verb = self.front.shell, self.front.settings.output, f"%disco {self.name}"
        await_workers(self.session, shell, output, verb, timeout=self.timeout, workers=workers)

    @contextmanager
    def telling(self) -> Iterator[None]:
        """If the block fails before the values have arrived, add to the error that they were not sent."""
        try:
            yield
        except (KeyboardInterrupt, SessionClosed, SyncTimeout, WorkerError) as error:
            lost = list(map(repr, self.sent))
            if lost:
                were = "was" if len(lost) == 1 else "were"
                why = str(error) or f"%disco {self.name} was interrupted"
                error.args = (f"{', '.join(lost)} {were} not sent: {why}",)
                if isinstance(error, WorkerError):  # notebooks show what has failed, and the notes
                    error.add_note(f"{', '.join(lost)} {were} not sent: run the line again")
            raise

    def bind(self, registers: Mapping[str, DRef], workers: tuple[int, ...] | None = None) -> None:
        """Name registers once every worker has its copies, so that no name is bound if one fails.

        The registers have values on `workers` and None on the others; `workers` None means all.
        """
        self.wait()
        for name, register in registers.items():
            self.session.bind(name, register, workers)
        self.session.sync_all()  # so that the next line finds the registers


def _put(front: Front, options: Namespace) -> None:
    from disco_magic.notebook.variables import stored  # brings NumPy; loading the extension does not

    values = front.variables(options.names)
    session = front.sessions.ensure(front.settings)
    move = _Move(front, session, "put", options.timeout, values)
    with move.telling():
        move.bind(stored(session, values, (0,)))


def _broadcast(front: Front, options: Namespace) -> None:
    from disco_magic.notebook.variables import stored  # as above

    values = front.variables(options.names)
    session = front.sessions.ensure(front.settings)
    chosen = parse_workers(options.workers, session.topology)
    move = _Move(front, session, "broadcast", options.timeout, values)
    with move.telling():
        move.bind(stored(session, values, chosen), chosen)


def _scatter(front: Front, options: Namespace) -> None:
    from disco_magic.notebook.commands.splitting import split

    values = front.variables(options.names)
    session = front.sessions.ensure(front.settings)
    groups = session.topology.parts(in_group=False, over=options.over)
    parts = {name: split(name, value, options.axis, len(groups[0])) for name, value in values.items()}
    move, registers = _Move(front, session, "scatter", options.timeout, values), {}
    with move.telling():
        for name, pieces in parts.items():
            registers[name] = register = session.store(None)
            with about(f"{name!r} was not sent"):
                for group in groups:
                    for worker, piece in zip(group, pieces, strict=True):
                        register.set(worker, piece)
        move.bind(registers)


def _get(front: Front, options: Namespace) -> Any:
    from disco_magic.notebook.variables import fetched

    session = front.sessions.require()
    chosen = list_workers(options.workers, session.topology)
    everybody = range(session.num_workers)
    workers: Sequence[int] = (0,) if options.workers is None else chosen or everybody
    _Move(front, session, "get", options.timeout).wait(workers)
    values = fetched(session, _named_once(options.names), workers)
    single = len(workers) == 1
    return _bound(front, options, {name: parts[0] if single else parts for name, parts in values.items()})


def _gather(front: Front, options: Namespace) -> Any:
    from disco_magic.notebook.commands.splitting import join
    from disco_magic.notebook.variables import fetched

    session = front.sessions.require()
    workers = _gathered(options, session)
    _Move(front, session, "gather", options.timeout).wait(workers)
    values = fetched(session, _named_once(options.names), workers)
    held = {name: dict(zip(workers, parts, strict=True)) for name, parts in values.items()}
    return _bound(front, options, {name: join(name, parts, options.axis) for name, parts in held.items()})


def _bound(front: Front, options: Namespace, values: dict[str, Any]) -> Any:
    """Bind notebook variables; if the command's own value is assigned, return them in the order asked for."""
    front.bind({name: value for name, value in values.items() if name.isidentifier()})
    if not is_assigned():  # IPython would show the value
        return None
    found = tuple(values[name] for name, _ in options.names)
    return found[0] if len(found) == 1 else found


def _named_once(sources: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Variable -> what it gets."""
    found: dict[str, str] = {}
    for name, label in sources:
        if found.setdefault(name, label) != label:
            raise UsageMistake(f"{name!r} is to get {found[name]} and {label}; nothing was copied")
    return found


def _gathered(options: Namespace, session: Session) -> Sequence[int]:
    """The workers whose values are joined: those named, or those along the axes with the one named."""
    groups = session.topology.parts(in_group=False, over=options.over)
    chosen = list_workers(options.workers, session.topology)
    if chosen is None:
        return groups[0]
    if options.over is None:
        return chosen
    if len(chosen) != 1:
        raise UsageMistake(f"with --over, -w names one worker, {options.workers!r} names {len(chosen)}")
    return next(group for group in groups if chosen[0] in group)


def _rm(front: Front, options: Namespace) -> None:
    session = front.sessions.find()
    known = () if session is None else session.names_now()
    names = dict.fromkeys(options.names)
    results = {name: _result(front, name) for name in names if name not in known}
    for name, result in results.items():
        if result is None:
            raise _no_register(front, name, known)
    positions = () if session is None else session.doctor().positions
    busy = [each for each in positions if each.state not in ("idle", "queued")]
    for name in names:
        if name in results:
            cast("CellResult", results[name]).release()
        else:
            del cast("Session", session)[name]
    if session is not None:
        session.flush()  # now, not with the next command, because the memory may be needed
        if not busy:
            with suppress(SyncTimeout):  # another thread may have sent something meanwhile
                session.let_go(_SOON_S)  # so that %disco status in the same cell says what is left
        registers = [name for name in names if name not in results]
        if busy and registers:
            commands = ", ".join(dict.fromkeys(each.command for each in busy))
            front.sessions.say(
                f"{', '.join(registers)}: removed after {commands}, with what that binds to it meanwhile"
            )


def _result(front: Front, name: str) -> CellResult | None:
    """The cell result that `name` (``Out[3]``, ``_3``, a variable) refers to in the notebook."""
    from disco_magic.session.results import CellResult

    number = of.OUT.fullmatch(name)
    names = front.shell.user_ns
    found = names.get("_oh", {}).get(int(number[1])) if number else names.get(name)
    return found if isinstance(found, CellResult) else None


def _no_register(front: Front, name: str, known: tuple[str, ...]) -> UsageMistake:
    if of.OUT.fullmatch(name):
        return UnknownName(f"{name} holds no result of a %%disco cell; nothing was removed")
    former = front.sessions.require().former_names
    return UnknownName(f"{no_register(name, known, former)}; nothing was removed")


def _moving_parser(
    name: str, description: str, rule: str = "", over: str = "", workers: str = ""
) -> OptionParser:
    parser = session_parser(name, description, workers=workers, timeout=_COPIES_NOTHING)
    parser.epilog = rule
    of_both = "a name, for both the variable and the register"
    if name in ("get", "gather"):
        of_both += f"; or VARIABLE=PART: w=params['w'][0:2]. v = %%disco {name} PART gives v the value"
        parser.add_argument("names", nargs="+", metavar="NAME", type=of.source, help=of_both)
        parser.has_indexes = True
    else:
        parser.add_argument("names", nargs="+", metavar="NAME", type=of.register, help=of_both)
    if rule:
        parser.add_argument("--axis", type=int, default=0, metavar="AXIS", help="the axis of arrays (0)")
        parser.add_argument("--over", type=of.axes, metavar="AXES", help=over)
    return parser


def _rm_parser() -> OptionParser:
    parser = session_parser("rm", "Delete registers on every worker, or free what a result keeps there.")
    parser.add_argument(
        "names",
        nargs="+",
        metavar="NAME",
        type=of.name_or_result,
        help="a register, or a result: Out[3], _3, a variable bound by --out; its output stays visible",
    )
    return parser


def _put_parser() -> OptionParser:
    parser = _moving_parser("put", "Copy notebook variables to worker 0; the other workers hold None.")
    refuse(parser, ("-w", "--workers"), "%disco broadcast -w 2 copies to worker 2")
    return parser


PUT: Final = Command(_put_parser, _put, "notebook")
GET: Final = Command(
    partial(
        _moving_parser,
        "get",
        "Copy registers of worker 0, or of other workers, into notebook variables.",
        workers="copy from this worker; from several, or all, you get a list of values (as for %%%%disco -w)",
    ),
    _get,
    "registers",
)
BROADCAST: Final = Command(
    partial(
        _moving_parser,
        "broadcast",
        "Copy notebook variables to every worker, or to some.",
        workers="copy to these workers only (as for %%%%disco -w); the others keep what they have",
    ),
    _broadcast,
    "notebook",
)
SCATTER: Final = Command(
    partial(
        _moving_parser,
        "scatter",
        "Split notebook variables over the workers: arrays evenly, tables and lists about evenly.",
        rule="An array is split into equal parts or refused: collectives need equal shapes. DataFrames,\n"
        "Series, lists, tuples and ranges are split in order, as by numpy.array_split: 5 rows on 4\n"
        "workers are 2, 1, 1, 1. If one of the variables cannot be split or copied, none is sent.",
        over="split along these axes of the mesh: tp or dp,tp; workers at the same place along them get the "
        "same part",
    ),
    _scatter,
    "notebook",
)
GATHER: Final = Command(
    partial(
        _moving_parser,
        "gather",
        "Join the workers' arrays, tables or lists in a notebook variable.",
        rule="Parts are joined in the order of the workers. Numbers and arrays become an array, tensors a\n"
        "tensor, DataFrames and Series one that keeps its index, tuples a tuple, lists and ranges a list.\n"
        "If one of the registers cannot be joined, no variable is bound.",
        over="join along these axes of the mesh: tp or dp,tp; from workers at 0 on all other axes",
        workers="join from these workers only; with --over, from those along the axes through this one",
    ),
    _gather,
    "registers",
)
RM: Final = Command(_rm_parser, _rm, "registers")
