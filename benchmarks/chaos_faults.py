"""Faults provoked on workers: errors that name their origin, objects that fail, a trap.

A `Fault` is identified on the controller and on the workers by its number, which its command carries in its
name (``chaos 17``) and its errors carry as a mark. So every error can be traced to the fault that made it.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import disco_magic as disco
from disco_magic.callers.current import calling_worker

if TYPE_CHECKING:
    from collections.abc import Callable

Array = np.ndarray[Any, Any]

PRIME: Final = 1_000_003
LENGTH: Final = 24  # of every array; divisible by each session's number of workers and group size
BIG: Final = LENGTH * 8192  # too big for one worker to move alone in a collective
STUCK_S: Final = 60.0  # a trapped thread that is not released ends by itself

_numbers = itertools.count(1)
_NAME = re.compile(r"chaos (\d+)$")


class Escape(BaseException):
    """An exception that ``except Exception`` does not catch."""


class Mute(Exception):
    """An exception whose `str` and `repr` raise."""

    def __str__(self) -> str:
        raise ZeroDivisionError("no words")

    __repr__ = __str__


@dataclass(frozen=True)
class Frozen(Exception):
    """An exception whose attributes cannot be assigned."""

    text: str


WAYS: Final[dict[str, Callable[[str], BaseException]]] = {
    "ValueError": ValueError,
    "BaseException": Escape,
    "SystemExit": SystemExit,
    "KeyboardInterrupt": KeyboardInterrupt,
    "MemoryError": MemoryError,
    "words that raise": Mute,
    "frozen": Frozen,
    "StopIteration": StopIteration,
    "GeneratorExit": GeneratorExit,
    "CancelledError": asyncio.CancelledError,
    "AssertionError": AssertionError,
}


def marked(way: str, number: int, worker: int) -> BaseException:
    """Make an error that records its fault and worker (-1: the controller)."""
    error = WAYS[way](f"provoked by fault {number} on worker {worker}")
    vars(error)["chaos"] = (number, worker)
    return error


def mark_of(error: BaseException | None) -> tuple[int, int] | None:
    """Return (number of the fault, worker) of a provoked error, or of its cause."""
    while error is not None:
        found: tuple[int, int] | None = vars(error).get("chaos")
        if found is not None:
            return found
        error = error.__cause__
    return None


def number_in(command: str) -> int | None:
    """Return the number of the fault that a command belongs to, from the command's text."""
    found = _NAME.search(command)
    return int(found[1]) if found else None


def begin(salt: int, length: int = LENGTH) -> Array:
    """Make this worker's own array."""
    return own_array(disco.worker().id, salt, length)


def own_array(worker: int, salt: int, length: int = LENGTH) -> Array:
    """Predict what `begin` returns on `worker`."""
    return (np.arange(length, dtype=np.int64) + 31 * worker + salt) % PRIME


def summed(rows: Array, size: int) -> Array:
    """Predict an allreduce in groups of `size` workers; row w is worker w's array."""
    sums = rows.reshape(-1, size, rows.shape[1]).sum(axis=1, keepdims=True) % PRIME
    return np.broadcast_to(sums, (len(rows) // size, size, rows.shape[1])).reshape(rows.shape)


@dataclass
class Fault:
    """Makes `victims` fail at `point` of a collective, in a function or in a cell.

    Attributes:
        point: ``"before"``, ``"inside"`` or ``"after"`` the collective; ``""`` for faults of other kinds.
        way: what is raised, a key of `WAYS`.
        victims: the workers that raise it.
        in_group: whether the collective is within groups.
        allowed: worker -> class of the errors that it may have without our mark.
        caught: workers that entered `trap`.
        number, disco_name: carried by its errors and its command.
    """

    point: str = ""
    way: str = "ValueError"
    victims: frozenset[int] = frozenset()
    in_group: bool = True
    allowed: dict[int, type[BaseException]] = field(default_factory=dict)
    caught: list[int] = field(default_factory=list)
    number: int = field(default_factory=lambda: next(_numbers))
    opened: bool = False
    disco_name: str = ""
    _tickets: list[SimpleQueue[None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.disco_name = f"chaos {self.number}"

    def __call__(self, salt: int) -> Array:
        """Run as a function on a worker; a cell does the same line by line."""
        self.strike("before")
        x = self.operand(begin(salt))
        total = disco.worker().allreduce(x, in_group=self.in_group)
        self.strike("after")
        return np.asarray(total) % PRIME

    def strike(self, point: str) -> None:
        """Raise if this is the fault's point and the calling worker is a victim."""
        me = disco.worker().id
        if point == self.point and me in self.victims:
            raise marked(self.way, self.number, me)

    def operand(self, x: Array) -> Any:
        """Return `x`, or an operand that fails while the collective reads it."""
        me = disco.worker().id
        return Unreadable(self, me) if self.point == "inside" and me in self.victims else x

    def trap(self) -> None:
        """Hold the calling worker in C code until `open`."""
        ticket: SimpleQueue[None] = SimpleQueue()
        self._tickets.append(ticket)
        self.caught.append(disco.worker().id)
        if not self.opened:
            ticket.get(timeout=STUCK_S)

    def open(self) -> None:
        """Release all workers from the trap, and let later ones pass."""
        self.opened = True  # before the tickets are read; `trap` accesses them in the opposite order
        for ticket in list(self._tickets):
            ticket.put(None)

    def __deepcopy__(self, memo: dict[int, Any]) -> Fault:
        return self


class Unreadable:
    """An operand that fails while a collective converts it to an array."""

    def __init__(self, fault: Fault, worker: int) -> None:
        self._fault, self._worker = fault, worker

    def __array__(self, *_: object, **__: object) -> Array:
        raise marked(self._fault.way, self._fault.number, self._worker)


class Fragile:
    """An object that fails when it is copied, shown or dropped.

    Args:
        fault: whose error it raises, on the controller or on the fault's victims.
        stage: ``"copy here"``, ``"copy there"``, ``"show"`` or ``"drop"``.
    """

    def __init__(self, fault: Fault, stage: str) -> None:
        self.fault, self.stage = fault, stage

    def _at(self, stage: str) -> None:
        me = calling_worker()
        where = -1 if me is None else me.id
        if stage == self.stage and (where == -1 or where in self.fault.victims):
            raise marked(self.fault.way, self.fault.number, where)

    def __deepcopy__(self, memo: dict[int, Any]) -> Fragile:
        self._at("copy here" if calling_worker() is None else "copy there")
        return Fragile(self.fault, self.stage)

    def __repr__(self) -> str:
        self._at("show")
        return "Fragile"

    def __del__(self) -> None:
        if self.stage == "drop":
            raise marked(self.fault.way, self.fault.number, -1)


class Litter:
    """Cyclic garbage that holds references and runs Python code when it is collected.

    Args:
        held: anything to keep alive with it, such as DRefs.
        finalize: called by the finalizer, in whichever thread collects it.
    """

    def __init__(self, held: object, finalize: Callable[[], object]) -> None:
        self.me, self.held, self.finalize = self, held, finalize

    def __del__(self) -> None:
        self.finalize()
