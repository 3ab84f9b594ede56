"""The messages between controller and workers: one small immutable class for each.

Ordered commands travel first-in-first-out and are executed one at a time::

    controller --- Call, Run, Sync, ... (seq 1, 2, 3 ...) ---> worker     ordered lane
    controller <-- Failed, Reached, Answer, CellDone --------- worker     events and replies

A command that is sent only to some workers names them in `workers` (None: all). Register operands are
plain ids; `refs` lists the positions of `args` that are such ids, so that integers and registers are never
confused and nothing has to be wrapped.

NamedTuples, not dataclasses: making a frozen dataclass with six fields takes 1.0 us, one of these 0.3 us
(CPython 3.11). Nearly every command is a call to all workers without keywords: it travels as a bare tuple
(`Ordinary`), which CPython makes in a third of the time and unpacks in a quarter; `full` names its fields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    from disco_magic.errors import Failure

Workers = tuple[int, ...] | None

# --- ordered commands ------------------------------------------------------------------------------


class Call(NamedTuple):
    """Store ``function(*args)`` in register `dest`.

    `function` is a register id or, between threads, the callable itself; `kwnames` names the last
    ``len(kwnames)`` of `args`; `kills` are registers to drop first.
    """

    seq: int
    dest: int
    function: int | Callable[..., Any]
    args: tuple[Any, ...]
    refs: tuple[int, ...] = ()
    kwnames: tuple[str, ...] = ()
    kills: tuple[int, ...] = ()
    workers: Workers = None


# (seq, dest, function, args, refs, kills) of a Call to all workers without keywords.
Ordinary = tuple[int, int, int | Callable[..., Any], tuple[Any, ...], tuple[int, ...], tuple[int, ...]]


class Kill(NamedTuple):
    """Drop registers; a register that is already absent is no error."""

    seq: int
    kills: tuple[int, ...]
    workers: Workers = None


class Store(NamedTuple):
    """Put a value of the controller's into a register; each worker takes its own copy.

    `only` names the workers that get the value while the others hold None; None: all get it. A single
    named worker gets the object itself, which the controller made for this message.
    """

    seq: int
    dest: int
    value: Any
    only: Workers = None
    kills: tuple[int, ...] = ()
    workers: Workers = None


class Fetch(NamedTuple):
    """Answer with the value of a register."""

    seq: int
    register: int
    kills: tuple[int, ...] = ()
    workers: Workers = None


class LoadName(NamedTuple):
    """Set register `dest` to the value that `name` has now."""

    seq: int
    dest: int
    name: str
    kills: tuple[int, ...] = ()
    workers: Workers = None


class StoreName(NamedTuple):
    """Bind `name` to the value of a register."""

    seq: int
    name: str
    register: int
    kills: tuple[int, ...] = ()
    workers: Workers = None


class DropNames(NamedTuple):
    """Unbind names; a worker skips those that it does not have."""

    seq: int
    names: tuple[str, ...]
    kills: tuple[int, ...] = ()
    workers: Workers = None


class Run(NamedTuple):
    """Execute a cell in the worker's namespace and put the value of its last expression into `dest`."""

    seq: int
    dest: int
    cell: Any
    kills: tuple[int, ...] = ()
    workers: Workers = None


class Sync(NamedTuple):
    """Report when everything before this has been executed."""

    seq: int
    kills: tuple[int, ...] = ()
    workers: Workers = None


class Stop(NamedTuple):
    """End the worker after everything before this has been executed."""

    seq: int
    kills: tuple[int, ...] = ()
    workers: Workers = None


Command = Call | Kill | Store | Fetch | LoadName | StoreName | DropNames | Run | Sync | Stop


Message = Command | Ordinary


def full(command: Message) -> Command:
    """Return the command with named fields."""
    if type(command) is not tuple:
        return command  # type: ignore[return-value]
    seq, dest, function, args, refs, kills = cast("Ordinary", command)
    return Call(seq, dest, function, args, refs, (), kills)


# --- events and replies ----------------------------------------------------------------------------


class Failed(NamedTuple):
    """A command failed on a worker; sent at once, not at the next sync."""

    worker: int
    seq: int
    failure: Failure


class NotBound(NamedTuple):
    """The worker has no register of the name that a `StoreName` was to bind: the value has failed there."""

    worker: int
    seq: int
    name: str


class Reached(NamedTuple):
    """The worker has executed everything up to and including `seq`."""

    worker: int
    seq: int


class Answer(NamedTuple):
    """The value of a `Fetch`, or the failure that poisons the register."""

    worker: int
    seq: int
    value: Any
    failure: Failure | None = None


class CellDone(NamedTuple):
    """How a cell ended on a worker.

    `shown` is the rendered value of the last expression (MIME type -> data) or None; `digest` compares
    values between workers; `names` are the named registers after the cell. `caught` is the error of a
    collective, in words, if the cell continued after it.
    """

    worker: int
    seq: int
    elapsed_s: float
    names: tuple[str, ...]
    shown: Any = None
    digest: bytes = b""
    failure: Failure | None = None
    caught: str = ""


class Lost(NamedTuple):
    """The worker is gone and will execute nothing more."""

    worker: int
    seq: int
    reason: str


Event = Failed | NotBound | Reached | Answer | CellDone | Lost
