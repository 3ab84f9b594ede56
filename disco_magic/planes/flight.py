"""One member's part of a collective that NCCL was given, and the fate shared by all parts."""

from __future__ import annotations

import sys
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.sites import site_of
from disco_magic.errors import Interrupted, PlaneAborted, WorkerInterrupt
from disco_magic.functions.bridges import claimed, tell
from disco_magic.planes.calls import described
from disco_magic.planes.meeting import WaitForNobody
from disco_magic.planes.verdicts import INCOMPLETE, Verdict

if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable, Iterable, Sequence

    from disco_magic.errors import Failure
    from disco_magic.planes.calls import Call

# How many errors in a chain of contexts are looked at.
_CONTEXTS: Final = 20


def _nothing() -> None:
    """The result of a collective without one: None."""


class Fate:
    """The outcome of one collective, shared by all its members.

    Attributes:
        members: worker ids, ascending.
        communicators: theirs, in rank order.
        verdict: why it will not be completed.
    """

    __slots__ = ("communicators", "members", "verdict")

    def __init__(self, members: tuple[int, ...], communicators: Sequence[Any]) -> None:
        self.members = members
        self.communicators = communicators
        self.verdict: Verdict | None = None

    def note_abort(self, what: str) -> None:
        """Note that `what` it is of has lost its communicators, unless more is known."""
        text = f"{what} was given up: its communicators were aborted - {INCOMPLETE}"
        self.verdict = self.verdict or Verdict(PlaneAborted, text)


class Flight(WaitForNobody):
    """One member's part of a collective in flight, without its arrays; a waiting worker polls its event.

    Attributes:
        fate, done: the collective's fate; an event of the member's stream.
        result, is_new: returns the caller's result while it lives, else None; whether that is not its `out`.
        forgiven: its failure is not raised, because its command has failed already.
    """

    __slots__ = (
        "_facts",
        "_spot",
        "_thread",
        "done",
        "fate",
        "forgiven",
        "is_new",
        "result",
    )

    def __init__(self, call: Call, fate: Fate, done: Any) -> None:
        array = call.array
        shown = None if array is None else (array.dtype, call.given)
        kind, within, axis = call.kind, call.seat.within, call.axis
        if call.seat.theirs is not None:
            kind, within, axis = call.called, "", None
        self._facts = kind, within, shown, call.where, call.op, call.root, axis
        self._spot = call.spot
        self._thread = get_ident()
        self.scope = call.seat.scope
        self.fate = fate
        self.done = done
        self.forgiven = False
        self.result: Callable[[], Any] = _nothing
        self.is_new = call.out is None
        self.to_wake: list[LockType] = []
        self.verdict: Verdict | None = None

    def call_of(self, worker: int) -> tuple[str, str]:  # noqa: ARG002 - a Wait's signature; it is one worker's
        """``allreduce(float32 (3,) on cuda, op=sum)``, ``Cell In[3], line 4``."""
        kind, within, shown, where, op, root, axis = self._facts
        brings = None if shown is None else f"{shown[0]} {shown[1]}{where}"
        return described(kind, within, brings, op=op, root=root, axis=axis), str(site_of(self._spot))

    @property
    def is_mine(self) -> bool:
        """Whether the calling thread has made the call."""
        return self._thread == get_ident()

    def describe(self) -> str:
        """As `seen_by`."""
        return self.seen_by(0)


def unfinished(flights: Iterable[Flight], is_done: Callable[[Flight], bool]) -> list[Flight]:
    """The oldest flight on each communicator that is not done: a worker in C code removes none that are."""
    oldest: dict[int, Flight] = {}
    for flight in list(flights):  # a copy, because the worker may add and remove some meanwhile
        of = id(flight.fate.communicators[0])
        if of not in oldest and not is_done(flight):
            oldest[of] = flight
    return [*oldest.values()]


def given_up(what: str, why: str, failure: Failure | None = None) -> Verdict:
    """The verdict for the members of `what`, which was given up."""
    text = f"{what} was given up while it was being carried out: {why} - {INCOMPLETE}"
    return Verdict(PlaneAborted, text, failure)


def with_it(flight: Flight, verdict: Verdict) -> Verdict:
    """The verdict for a flight that is given up with another one, which has `verdict`."""
    text = f"{flight.describe()} was given up with another call, of the same communicator: {verdict.text}"
    return verdict._replace(kind=PlaneAborted, text=text)


def ended(interrupt: Failure | None) -> int:
    """The number of the calling thread's command that an interrupt ends; unclaimed: of the last interrupt.

    Workers are claimed together, and `interrupt` is noted for one after the other.
    """
    command = claimed()
    return command if command is not None else -1 if interrupt is None else interrupt.seq


def end_cut_short(flights: Iterable[Flight], command: int) -> None:
    """Raise the interrupt that ends `command` if the calling thread waits for one of `flights` in it.

    Once the command is claimed, for any of them: an interrupt gives up what earlier commands have left, too.
    Until then, only for calls that the thread has made in it: others may have been given up long before.

    Not to who cleans up, in an ``except`` or a ``finally`` because of the interrupt, which nothing may end:
    neither here, nor by striking the thread after this has raised.
    """
    is_claimed = claimed() is not None
    if not any(is_claimed or (each.is_mine and each.scope == command) for each in flights):
        return
    # What awaits is cancelled. Only who awaits has imported that.
    cancelled = getattr(sys.modules.get("asyncio.exceptions"), "CancelledError", WorkerInterrupt)
    error = sys.exception()
    for _ in range(_CONTEXTS):
        if error is None:
            break
        if issubclass(type(error), WorkerInterrupt | cancelled):
            return
        error = error.__context__
    tell()
    raise WorkerInterrupt.at(Interrupted.IN_COLLECTIVE)


def interrupted(worker: int) -> str:
    """Why the flights of a worker that was interrupted are given up, for `given_up`."""
    return f"worker {worker} was interrupted"
