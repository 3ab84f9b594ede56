"""Values between the notebook and the workers, ``%disco put|get|broadcast|scatter|gather|rm``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from disco_magic.errors import UnknownName, UsageMistake, ranges
from disco_magic.functions.kinds import is_gpu_array
from disco_magic.notebook import option_types as of
from disco_magic.notebook.commands.command import Command, parser_of
from disco_magic.notebook.commands.looking import unknown

if TYPE_CHECKING:
    from argparse import Namespace

    from disco_magic.notebook.front import Front
    from disco_magic.notebook.options import OptionParser
    from disco_magic.session.results import CellResult
    from disco_magic.session.session import Session


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

    number = of.OUT.fullmatch(name)
    names = front.shell.user_ns
    found = names.get("_oh", {}).get(int(number[1])) if number else names.get(name)
    return found if isinstance(found, CellResult) else None


def _no_register(front: Front, name: str, known: tuple[str, ...]) -> UsageMistake:
    if of.OUT.fullmatch(name):
        return UnknownName(f"{name} holds no result of a %%disco cell; nothing was removed")
    front.sessions.require()
    return UnknownName(f"{unknown(name, known)}; nothing was removed")


def _moving_parser(name: str, description: str, *, axis: bool = False) -> OptionParser:
    parser = parser_of(name, description)
    parser.add_argument("names", nargs="+", metavar="NAME", type=of.name, help="names of variables")
    if axis:
        parser.add_argument("--axis", type=int, default=0, metavar="AXIS", help="along which axis (0)")
    return parser


def _rm_parser() -> OptionParser:
    parser = parser_of(
        "rm", "Unbind registers on every worker, or free the values that a result keeps there."
    )
    parser.add_argument(
        "names",
        nargs="+",
        metavar="NAME",
        type=of.name_or_result,
        help="names of registers, or results: Out[3], _3, a variable bound by --out; what they show stays",
    )
    return parser


PUT: Final = Command(
    _moving_parser("put", "Copy notebook variables to worker 0; the other workers hold None."),
    _put,
    completes="notebook",
)
GET: Final = Command(
    _moving_parser("get", "Copy registers of worker 0 into notebook variables."), _get, completes="registers"
)
BROADCAST: Final = Command(
    _moving_parser("broadcast", "Copy notebook variables to every worker."), _broadcast, completes="notebook"
)
SCATTER: Final = Command(
    _moving_parser("scatter", "Split notebook arrays evenly over the workers.", axis=True),
    _scatter,
    completes="notebook",
)
GATHER: Final = Command(
    _moving_parser("gather", "Join the workers' arrays in a notebook variable.", axis=True),
    _gather,
    completes="registers",
)
RM: Final = Command(_rm_parser(), _rm, completes="registers")
