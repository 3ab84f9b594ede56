"""The life of a session: ``%disco start|stop|restart|status|sync|interrupt``."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from IPython.display import display

from disco_magic.core.register_text import totals
from disco_magic.core.words import human_bytes, plural
from disco_magic.errors import UsageMistake, is_of_interrupt
from disco_magic.notebook.assigned import is_assigned
from disco_magic.notebook.commands.command import STOPS_NOTHING, Command, parser_of, session_parser
from disco_magic.notebook.option_types import mesh_named, modules_named
from disco_magic.notebook.options import add_session_options, refuse
from disco_magic.notebook.shell import stopped_by
from disco_magic.notebook.targets import parse_workers
from disco_magic.phrases import people, who_has

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from disco_magic.core.doctor import Diagnosis, Position
    from disco_magic.core.snapshot import Row, SessionSnapshot
    from disco_magic.notebook.front import Front
    from disco_magic.notebook.options import OptionParser
    from disco_magic.session.session import Session

_MUCH: Final = 1 << 20
"""Bytes on all workers from which on it is said what keeps them."""


def _start(front: Front, options: Namespace) -> Session | None:
    running = front.sessions.find()
    if running is None:
        running = front.sessions.start(front.settings, options)
    else:
        _say_running(front, running, options)
    return running if is_assigned() else None  # a line says what was started: IPython would show it again


def _say_running(front: Front, running: Session, options: Namespace) -> None:
    """Say that there is a session; refuse if it is not the one that the options ask for."""
    there = f"{running!r} is running already, with its registers"
    if other := _another_than(running, options):
        raise UsageMistake(f"{there}; for {other} end it first, with %disco stop")
    front.sessions.say(
        f"{there}; %disco restart gives it new workers and empties them, %disco stop ends it so that another "
        "one can be started"
    )


def _another_than(running: Session, options: Namespace) -> str:
    """The first option that the running session does not match, in words; empty if it matches all."""
    from disco_magic.session.equipment import names_others  # not for %load_ext

    for what, number in {"workers": running.num_workers, "groups": running.num_groups}.items():
        wanted = getattr(options, what)
        if wanted not in (None, number):
            return f"{wanted} {what}"
    if options.mesh is not None and mesh_named(options.mesh) != running.mesh:
        return f"--mesh {options.mesh}"
    plane = "nccl" if running.plane_name == "rccl" else running.plane_name  # --ccl calls both nccl
    if options.ccl not in (None, "auto", plane):
        return f"--ccl {options.ccl}"
    if options.own_modules is not None and modules_named(options.own_modules) != running.own_modules:
        return f"--own-modules {options.own_modules}"
    if options.devices is not None and names_others(options.devices, running.devices):
        return f"--devices {options.devices}"
    return ""


def _stop(front: Front, _: Namespace) -> None:
    session = front.sessions.require()
    front.refresher.now()  # what the last cells have left stays in view
    session.shutdown(timeout=0.0)
    front.sessions.say(f"Disco session {session.id} is stopped")


def _restart(front: Front, _: Namespace) -> None:
    from disco_magic.notebook.output.arrival import await_workers  # not for %load_ext

    session = front.sessions.require()
    session.restart()
    await_workers(session, front.shell, front.settings.output)
    front.sessions.say(f"{session!r} \u00b7 restarted, registers are empty")


def _status(front: Front, _: Namespace) -> Diagnosis | None:
    session = front.sessions.find()
    if session is not None and is_assigned():
        return session.doctor()
    _show_status(front, session)
    return None


def _show_status(front: Front, session: Session | None) -> None:
    from disco_magic.notebook.handle import handles_of  # brings NumPy
    from disco_magic.notebook.tables.standing import standings_of

    if session is None:
        front.sessions.say(
            f"no session is running; %disco start makes one of {plural(front.settings.expected, 'worker')}"
        )
    else:
        _say_status(front, session)
    handles = handles_of(front.shell)
    if session is not None:  # after a restart, the outcome of earlier cells does not matter
        handles = [each for each in handles if not (each.pending.is_outlived and each.done())]
    cells = standings_of(handles)
    if cells is not None:
        display(cells)  # type: ignore[no-untyped-call]


def _say_status(front: Front, session: Session) -> None:
    from disco_magic.session.current import open_sessions

    everything = session.registers(numbered=True, sample=0)
    named = replace(everything, rows=tuple(row for row in everything.rows if not row.name.startswith("#")))
    front.sessions.say(f"{session!r} \u00b7 {plural(len(named.rows), 'register')}{_sizes(named)}")
    kept = [row for row in everything.rows if row.name.startswith("#") and not row.is_none]
    besides = replace(everything, rows=tuple(kept))
    if besides.rows:
        values = plural(len(besides.rows), "value")
        largest = _largest_of(front, session, kept)
        front.sessions.say(f"besides, {values} that results and references keep{_sizes(besides)}{largest}")
    if session.mesh:
        shown = {"text/plain": str(session.mesh), "text/html": session.mesh._repr_html_()}
        front.shell.display_pub.publish(shown)
    for device in session.stats().devices:
        front.sessions.say(str(device))
    display(session.doctor())  # type: ignore[no-untyped-call]
    others = [each for each in open_sessions() if each is not session]
    if others:
        said = "; ".join(map(repr, others))
        front.sessions.say(f"also open: {said} (%disco status --session {others[0].id})")


def _largest_of(front: Front, session: Session, kept: list[Row]) -> str:
    """What keeps the largest of these values, and how to free it; "" if that is not worth a word."""
    from disco_magic.notebook.inspector.holders import holders  # brings NumPy

    row = max(kept, key=_size)
    if _size(row) < _MUCH:
        return ""
    who = holders(session, front.shell.user_ns).get(row.name)
    if who is None:  # it is being freed
        return ""
    way = f" (%disco rm {who} frees it)" if who.startswith("Out[") and "," not in who else ""
    return f"; the largest, {human_bytes(_size(row))} in all, by {who}{way}"


def _size(row: Row) -> int:
    """Bytes of a register on all workers."""
    return sum(cell.nbytes for cell in row.present)


def _sizes(snapshot: SessionSnapshot) -> str:
    """The sizes in words; empty if none are known, as for plain objects."""
    return f": {totals(snapshot)}" if any(snapshot.nbytes) else ""


def _sync(front: Front, options: Namespace) -> None:
    from disco_magic.notebook.handle import handles_of  # brings NumPy
    from disco_magic.notebook.output.arrival import await_workers

    session = front.sessions.require()
    await_workers(session, front.shell, front.settings.output, timeout=options.timeout)
    failures = session.failures_of_handles()  # this command also asks for the outcome of those cells
    for handle in handles_of(front.shell):
        failures += [each for each in handle.failures_unasked(session) if each not in failures]
    session.raise_failures([each for each in failures if not is_of_interrupt(each)])


def _interrupt(front: Front, options: Namespace) -> None:
    session = front.sessions.require()
    workers = parse_workers(options.workers, session.topology)
    places = [each for each in session.doctor().positions if workers is None or each.worker in workers]
    queued = any(each.behind > 1 for each in places)
    steps = {} if workers is not None else _last_steps(session, places)
    for seq, last in steps.items():
        there = [each for each in places if each.seq == seq]
        front.sessions.say(
            f"told to stop after {plural(last, 'step')}: {there[0].command} on"
            f" {people([each.worker for each in there])}; %disco interrupt again stops it at once"
        )
    left = [each for each in places if each.seq not in steps]
    if steps:
        session.skip_unbegun()
        workers = tuple(each.worker for each in left)
    if left:
        session.interrupt(workers)
    at_work = who_has((each.worker, each.command or "what was sent") for each in left if each.behind)
    told = [f"{command} on {people(who)}" for command, who in at_work.items()]
    if told:
        front.sessions.say(f"told to stop: {'; '.join(told)}")
    if queued:
        front.sessions.say("what was sent after that is skipped")
    if told:
        _say_who_is_left(front, session, workers)
    elif not steps:
        front.sessions.say("nothing to interrupt: the workers are idle")


def _say_who_is_left(front: Front, session: Session, workers: Sequence[int] | None) -> None:
    """Wait a while for the interrupted workers; say which threads were replaced and which clean up."""
    given_up, cleaning_up = session.see_stopped(workers)
    if given_up:
        front.sessions.say(
            f"the thread of {people(tuple(given_up))} did not end and was replaced by a new one with the same"
            " registers: it is in a call that cannot be interrupted"
        )
    if cleaning_up:
        front.sessions.say(
            f"still cleaning up: {people(tuple(cleaning_up))}; .cancel() of the handle,"
            f" or {stopped_by(front.shell)} in the next cell, gives the thread up"
        )


def _last_steps(session: Session, places: Sequence[Position]) -> dict[int, int]:
    """Number of a cell -> the step after which it ends, if its workers are in loops of ``worker.steps``."""
    from disco_magic.functions.stepping import ask  # not for %load_ext

    running = who_has((each.worker, each.seq) for each in places if each.seq is not None)
    asked = {seq: ask(session.id, who, seq) for seq, who in running.items()}
    return {seq: last for seq, last in asked.items() if last is not None}


def _start_parser() -> OptionParser:
    parser = parser_of("start", "Start the workers. %config DiscoMagics has the defaults.")
    add_session_options(parser.add_argument, "-n")
    return parser


def _restart_parser() -> OptionParser:
    parser = session_parser(
        "restart", "Replace all workers by new ones. Registers are lost, options of the start are kept."
    )

    instead = "workers start again as they were started; for others: %disco stop, then %disco start"
    add_session_options(lambda *names, **_: refuse(parser, names, instead), "-n")
    together = "all workers are replaced together; %disco interrupt -w 2 stops what worker 2 is doing"
    refuse(parser, ["-w"], together)
    return parser


START: Final = Command(_start_parser, _start)
STOP: Final = Command(partial(session_parser, "stop", "End the workers. Registers are lost."), _stop)
RESTART: Final = Command(_restart_parser, _restart)
STATUS: Final = Command(
    partial(
        session_parser, "status", "Show the session, what every worker is doing, and who keeps whom waiting."
    ),
    _status,
)
SYNC: Final = Command(
    partial(
        session_parser,
        "sync",
        "Wait for all that was sent; raise what failed in it, also in --nowait cells.",
        timeout=STOPS_NOTHING,
    ),
    _sync,
)
INTERRUPT: Final = Command(
    partial(
        session_parser,
        "interrupt",
        "Stop what the workers are executing.",
        workers="stop these workers only (as for %%%%disco -w)",
    ),
    _interrupt,
)
