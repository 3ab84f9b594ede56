"""The waits of workers: for the other members of a collective. Waits for messages are in `mail`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from disco_magic.core.seat import unread_in
from disco_magic.core.unmet import Unmet, described
from disco_magic.phrases import people

if TYPE_CHECKING:
    from _thread import LockType
    from collections import deque
    from collections.abc import Mapping

    from disco_magic.planes.blocks import Fold
    from disco_magic.planes.calls import Call
    from disco_magic.planes.plans import Plan
    from disco_magic.planes.verdicts import Verdict


class Wait(ABC):
    """Something that workers wait for; its attributes are guarded by the board's lock.

    Attributes:
        any_suffices: whether one of the missing workers is enough; else all of them have to come.
        ends: whether it ends by itself, after some time.
        to_wake: gates of workers that are woken one by one, each by the one before; see `Board.wake`. Whoever
            pops a gate opens it, with the lock or without.
    """

    __slots__ = ("scope", "to_wake", "verdict")

    any_suffices = ends = False
    scope: int
    to_wake: list[LockType]
    verdict: Verdict | None

    @property
    @abstractmethod
    def arrived(self) -> int:
        """How many have come: if no more wait in all, there is no circle. 0 for one that waits for itself."""

    @property
    @abstractmethod
    def complete(self) -> bool:
        """Whether nobody is missing; the worker that completed it wakes the waiting ones."""

    @abstractmethod
    def missing(self) -> list[int]:
        """Workers that have to come, all or one of them, before the waiting ones can go on."""

    @abstractmethod
    def gates(self) -> list[tuple[int, LockType]]:
        """(worker, gate) of the workers that have come."""

    @abstractmethod
    def describe(self) -> str:
        """What is waited for, who waits, and where."""

    @abstractmethod
    def call_of(self, worker: int) -> tuple[str, str]:
        """The call that `worker` waits in, and its line."""

    def seen_by(self, worker: int) -> str:
        """The call that `worker` waits in, with whom, and its line."""
        return " at ".join(self.call_of(worker))


class WaitForNobody(Wait):
    """A wait that no other worker ends, but NCCL or the worker's GPU."""

    __slots__ = ()

    arrived = 0
    complete = True

    def missing(self) -> list[int]:
        """Nobody."""
        return []

    def gates(self) -> list[tuple[int, LockType]]:
        """None: no worker is woken."""
        return []


class Meeting(Wait):
    """One collective call of one communicator, from the first member's arrival to the last one's departure.

    Every collective gets a new meeting, so a later call cannot see anything of an earlier one.

    Attributes:
        members: worker ids, ascending.
        scope: the command that the call is part of.
        calls: worker -> its call, if it has arrived.
        verdict: why the call fails, for the members that have arrived and those still to come.
        plan: what is moved; set by the last member to arrive.
        pieces: what is still to be moved, when several members share the work. Members take pieces with
            `deque.popleft`, which is documented to be thread-safe; no lock is held while data moves.
        busy: number of members that are moving pieces.
        resting: members that found no more pieces and wait for the busy ones.
        moved: whether everything was moved.
        size: number of members.
        to_wake: see `Wait`.
    """

    __slots__ = (
        "busy",
        "calls",
        "members",
        "moved",
        "pieces",
        "plan",
        "resting",
        "size",
    )

    def __init__(self, members: tuple[int, ...], scope: int) -> None:
        self.members = members
        self.size = len(members)
        self.scope = scope
        self.calls: dict[int, Call] = {}
        self.verdict: Verdict | None = None
        self.plan: Plan | None = None
        self.pieces: deque[Fold] | None = None
        self.busy = 0
        self.resting: list[Call] = []
        self.moved = False
        self.to_wake: list[LockType] = []

    @property
    def arrived(self) -> int:
        """Number of members that have arrived."""
        return len(self.calls)

    @property
    def complete(self) -> bool:
        """Whether all members have arrived."""
        return len(self.calls) == self.size

    def missing(self) -> list[int]:
        """Members that have not arrived."""
        calls = self.calls
        return [member for member in self.members if member not in calls]

    def gates(self) -> list[tuple[int, LockType]]:
        """(worker, gate) of the members that have arrived."""
        return [(worker, call.gate) for worker, call in self.calls.items()]

    def in_rank_order(self) -> list[Call]:
        """The calls of a complete meeting, in rank order."""
        return [self.calls[member] for member in self.members]

    def describe(self) -> str:
        """``allreduce(float32 (3,), op=sum) that workers [0-1] wait in at Cell In[3], line 4``."""
        return described((worker, self.call_of(worker)) for worker in self.calls)

    def call_of(self, worker: int) -> tuple[str, str]:
        """``allreduce(float32 (3,), op=sum)``, ``Cell In[3], line 4``."""
        call = self.calls[worker]
        return call.describe(), str(call.site)

    def unmet_by(self, worker: int, mail: Mapping[Any, Any]) -> Unmet:
        """What `worker`, which has come and has that `mail`, waited in if the meeting has failed."""
        return Unmet(*self.call_of(worker), self.members, self.scope, unread_in(mail, self.scope))

    def seen_by(self, worker: int) -> str:
        """``allreduce(float32 (3,), op=sum) of workers [0-3] at Cell In[3], line 4``."""
        call, site = self.call_of(worker)
        return f"{call} of {people(self.members)} at {site}"

    def __str__(self) -> str:
        missing = f" (for {people(self.missing())})" if not self.complete else ""
        return f"{self.seen_by(next(iter(self.calls)))}{missing}"
