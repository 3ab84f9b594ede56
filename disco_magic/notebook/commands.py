"""The ``%disco`` subcommands: each reads its options, asks the session for one thing, and shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from IPython.display import display

from disco_magic.core.words import human_bytes
from disco_magic.errors import UnknownName, UsageMistake, near_misses, ranges
from disco_magic.functions.kinds import is_gpu_array
from disco_magic.notebook.keeper import Wanted
from disco_magic.notebook.live.views import can_show
from disco_magic.notebook.options import OUT, command_parsers, overview
from disco_magic.notebook.targets import parse_workers

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Sequence

    from disco_magic.core.snapshot import Row, SessionSnapshot
    from disco_magic.core.timeline import Timeline
    from disco_magic.notebook.front import Front
    from disco_magic.notebook.inspector.panel import Inspector
    from disco_magic.notebook.timeline_view import TimelineView
    from disco_magic.session.results import CellResult
    from disco_magic.session.session import Session


def perform(front: Front, line: str) -> Any:
    """Carry out ``%disco line``; what becomes ``Out[n]``.

    Raises:
        UsageMistake, UsageError: the line is wrong; nothing was done.
    """
    name, _, rest = line.strip().partition(" ")
    if name in ("", "-h", "--help"):
        print(overview())
        return None
    if name not in COMMANDS:
        hint = near_misses(name, COMMANDS, cutoff=0.5) or f"there are: {', '.join(COMMANDS)}"
        raise UsageMistake(f"%disco has no subcommand {name!r}; {hint}")
    return COMMANDS[name](front, command_parsers()[name].read(rest))


def _start(front: Front, options: Namespace) -> None:
    running = front.sessions.find()
    if running is None:
        front.sessions.start(front.settings, Wanted(*(getattr(options, name) for name in Wanted._fields)))
    else:
        front.sessions.say(
            f"{running!r} is running already, with its registers; %disco restart gives it new workers and "
            "empties them, %disco stop ends it so that another one can be started"
        )


def _stop(front: Front, _: Namespace) -> None:
    session = front.sessions.require()
    session.shutdown(timeout=0.0)
    front.sessions.say(f"Disco session {session.id} is stopped")


def _restart(front: Front, _: Namespace) -> None:
    session = front.sessions.require()
    session.restart()
    session.sync_all()
    front.sessions.say(f"{session!r} \u00b7 restarted, registers are empty")


def _status(front: Front, _: Namespace) -> None:
    session = front.sessions.find()
    if session is None:
        front.sessions.say(
            f"no session is running; %disco start makes one of {front.settings.workers} workers"
        )
        return
    snapshot = session.registers(sample=0)
    totals = ", ".join(f"{ranges((worker,))} {human_bytes(n)}" for worker, n in enumerate(snapshot.nbytes))
    front.sessions.say(f"{session!r} \u00b7 {len(snapshot.rows)} registers: {totals}")
    for device in session.stats().devices:
        front.sessions.say(str(device))
    display(session.doctor())  # type: ignore[no-untyped-call]


def _registers(front: Front, options: Namespace) -> Inspector | SessionSnapshot | Row:
    session = front.sessions.require()
    widget = not options.table and can_show(front.shell)
    workers = parse_workers(options.workers, session.num_workers)
    numbered = options.numbered or (options.name or "").startswith("#")
    looked = {"sample": 0} if widget else {}  # the widget looks by itself; here it is about the names
    snapshot = session.registers(numbered=numbered, **looked)
    known = [row.name for row in snapshot.rows]
    if options.name is not None and options.name not in known:
        raise UnknownName(_unknown(options.name, known))
    if not widget:
        return snapshot if options.name is None else snapshot.row(options.name)
    from disco_magic.notebook.inspector.panel import Inspector

    inspector = front.views.open(front.shell, lambda: Inspector(front, front.refresher))
    inspector.look_at(options.name, options.face, workers or ())
    inspector.set_live(options.live)
    return inspector


def _timeline(front: Front, options: Namespace) -> TimelineView | Timeline | None:
    session = front.sessions.require()
    if options.save is not None:
        session.timeline(options.last).save(options.save)
        front.sessions.say(f"{options.save} has the timeline; https://ui.perfetto.dev opens it")
        return None
    if not can_show(front.shell):
        return session.timeline(options.last)
    from disco_magic.notebook.timeline_view import TimelineView

    return front.views.open(
        front.shell, lambda: TimelineView(lambda: front.sessions.require().timeline(), options.last)
    )


def _put(front: Front, options: Namespace) -> None:
    _send(front, options, only=0)


def _broadcast(front: Front, options: Namespace) -> None:
    _send(front, options, only=None)


def _send(front: Front, options: Namespace, only: int | None) -> None:
    from disco_magic.notebook.execution import put

    values = front.variables(options.names)
    session = front.sessions.ensure(front.settings)
    for name, value in values.items():
        put(session, name, value, only)
    session.sync_all()  # what the next line looks at is there


def _get(front: Front, options: Namespace) -> None:
    session = front.sessions.require()
    registers = {name: session[name] for name in options.names}
    front.bind({name: register.get(0) for name, register in registers.items()})


def _scatter(front: Front, options: Namespace) -> None:
    values = front.variables(options.names)
    session = front.sessions.ensure(front.settings)
    parts = {name: _split(name, value, options.axis, session) for name, value in values.items()}
    for name, pieces in parts.items():
        register = session.store(None)
        for worker, piece in enumerate(pieces):
            register.set(worker, piece)
        session[name] = register
    session.sync_all()


def _split(name: str, value: Any, axis: int, session: Session) -> list[Any]:
    import numpy as np

    array = value.get() if is_gpu_array(type(value)) else np.asarray(value)
    if array.dtype.hasobject:
        raise UsageMistake(f"scatter: {name!r} is a {type(value).__name__}, expected an array of numbers")
    if not -array.ndim <= axis < array.ndim:
        raise UsageMistake(f"scatter: {name!r} has shape {array.shape}, which has no axis {axis}")
    length, count = array.shape[axis], session.num_workers
    if length % count:
        raise UsageMistake(
            f"scatter: axis {axis} of {name!r} has length {length}, which {count} workers cannot share "
            f"evenly; expected a multiple of {count} (shape {array.shape}); pad or cut it"
        )
    return np.split(array, count, axis)


def _gather(front: Front, options: Namespace) -> None:
    session = front.sessions.require()
    registers = {name: session[name] for name in options.names}
    joined = {name: _join(name, ref.get_all(), options.axis) for name, ref in registers.items()}
    front.bind(joined)


def _join(name: str, values: list[Any], axis: int) -> Any:
    import numpy as np

    arrays = [np.atleast_1d(np.asarray(value)) for value in values]
    wrong = [worker for worker, array in enumerate(arrays) if array.dtype.hasobject]
    if wrong:
        kind = type(values[wrong[0]]).__name__
        raise UsageMistake(
            f"gather: {name!r} is a {kind} on workers {ranges(wrong)}, expected arrays of numbers"
        )
    try:
        return np.concatenate(arrays, axis)
    except ValueError as reason:
        shapes = ", ".join(f"{ranges((worker,))} {array.shape}" for worker, array in enumerate(arrays))
        raise UsageMistake(
            f"gather: {name!r} cannot be joined along axis {axis}: {reason}; shapes are {shapes}"
        ) from None


def _rm(front: Front, options: Namespace) -> None:
    session = front.sessions.find()
    known = () if session is None else session.names()
    names = dict.fromkeys(options.names)
    results = {name: _result(front, name) for name in names if name not in known}
    for name, result in results.items():
        if result is None:
            raise _no_register(front, name, known)
    for name in names:
        if name in results:
            cast("CellResult", results[name]).release()
        else:
            del cast("Session", session)[name]
    if session is not None:
        session.flush()  # now, not with the next command: the memory may be needed for something else


def _result(front: Front, name: str) -> CellResult | None:
    """The result of a cell that `name` (``Out[3]``, ``_3``, a variable) means in the notebook."""
    from disco_magic.session.results import CellResult

    number = OUT.fullmatch(name)
    names = front.shell.user_ns
    found = names.get("_oh", {}).get(int(number[1])) if number else names.get(name)
    return found if isinstance(found, CellResult) else None


def _no_register(front: Front, name: str, known: tuple[str, ...]) -> UsageMistake:
    if OUT.fullmatch(name):
        return UnknownName(f"{name} holds no result of a %%disco cell; nothing was removed")
    front.sessions.require()
    return UnknownName(f"{_unknown(name, known)}; nothing was removed")


def _unknown(name: str, known: Sequence[str]) -> str:
    hint = near_misses(name, known) or f"there are: {', '.join(known) or 'none'}"
    return f"register {name!r} is not defined on any worker; {hint}"


def _sync(front: Front, _: Namespace) -> None:
    front.sessions.require().sync_all()


def _interrupt(front: Front, options: Namespace) -> None:
    session = front.sessions.require()
    session.interrupt(parse_workers(options.workers, session.num_workers))


COMMANDS: Final[dict[str, Callable[[Front, Namespace], Any]]] = {
    "start": _start,
    "stop": _stop,
    "restart": _restart,
    "status": _status,
    "registers": _registers,
    "timeline": _timeline,
    "put": _put,
    "get": _get,
    "broadcast": _broadcast,
    "scatter": _scatter,
    "gather": _gather,
    "rm": _rm,
    "sync": _sync,
    "interrupt": _interrupt,
}
