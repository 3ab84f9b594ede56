"""What one member brings to a collective: the facts that are compared, and the arrays that are moved."""

from __future__ import annotations

from _thread import allocate_lock
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from disco_magic.errors import ranges
from disco_magic.functions.sites import site_of

if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from disco_magic.core.interfaces import Seat, Spot
    from disco_magic.functions.sites import Site
    from disco_magic.planes.memory import Memory

REDUCING = frozenset({"allreduce", "reduce", "reduce_scatter"})
GATHERING = frozenset({"allgather", "gather"})
SPLITTING = frozenset({"reduce_scatter", "scatter", "alltoall"})
FROM_ROOT = frozenset({"broadcast", "scatter"})
TO_ROOT = frozenset({"reduce", "gather"})


def _closed_gate() -> LockType:
    gate = allocate_lock()
    gate.acquire()
    return gate


@dataclass(slots=True, eq=False)
class Call:
    """A collective as one worker called it.

    Attributes:
        kind: the verb, e.g. ``allreduce``.
        seat: who called, with whom, in which command.
        spot: where in the user's code.
        memory: where its arrays are, if it has any.
        array: the caller's array, C-contiguous; None where the verb takes none from this member.
        scalar: the caller gave a number, not an array, and gets one back.
        op: reduction, where the verb has one.
        root: rank of the root, where the verb has one.
        axis: where the verb has one; counted from the front if the caller gave an array.
        out: where the caller wants the result.
        ready: `array` as NCCL takes it, where that carries the call.
        gate: a lock that is held; the caller parks by acquiring it, whoever releases it wakes the caller.
            A gate per call and not per worker: a thread that was given up and its replacement, which have
            the same worker id, can never wake each other. It costs 0.1 us.
    """

    kind: str
    seat: Seat
    spot: Spot | None
    memory: Memory
    array: NDArray[Any] | None = None
    scalar: bool = False
    op: str | None = None
    root: int | None = None
    axis: int | None = None
    out: NDArray[Any] | None = None
    ready: Any = None
    gate: LockType = field(default_factory=_closed_gate)

    @property
    def worker(self) -> int:
        """Id of the caller."""
        return self.seat.worker

    @property
    def site(self) -> Site:
        """The line of the user's code."""
        return site_of(self.spot)

    @property
    def where(self) -> str:
        """`` on cuda``; empty for the host."""
        return "" if self.memory.name == "cpu" else f" on {self.memory.name}"

    def describe(self) -> str:
        """``allreduce(float32 (3,), op=sum)``: what decides whether two calls fit."""
        facts = []
        if self.array is not None:
            facts.append(f"{describe_array(self.array)}{self.where}")
        elif self.kind in FROM_ROOT:
            facts.append("no array")
        facts += [
            f"{name}={value}"
            for name, value in (("op", self.op), ("root", self.root), ("axis", self.axis))
            if value is not None
        ]
        return f"{self.kind}({', '.join(facts)})"


def describe_array(array: NDArray[Any]) -> str:
    """``float32 (3,)``."""
    return f"{array.dtype} {array.shape}"


def grouped(calls: Iterable[Call]) -> dict[tuple[str, str], list[int]]:
    """(description, site) -> the workers that made this call there."""
    groups: dict[tuple[str, str], list[int]] = {}
    for call in calls:
        groups.setdefault((call.describe(), str(call.site)), []).append(call.worker)
    return groups


def table(calls: Iterable[Call]) -> str:
    """One line per distinct call with the workers that made it."""
    lines = [f"  {ranges(workers)} {text} at {site}" for (text, site), workers in grouped(calls).items()]
    return "\n".join(lines)
