"""Who makes a call of a plane, with whom, and where from; whom it can hope for while it waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import CodeType

    # A place in code: the code, and the offset of an instruction in it. Finding its line takes longer.
    Spot = tuple[CodeType, int]

PICKLE: Final = "pickle"
"""`Seat.library` of a message whose bytes are a pickled object."""


class Theirs(NamedTuple):
    """A call of `torch.distributed` as its user knows it; the plane carries it flat, under a name of ours.

    Attributes:
        verb: what the user called: ``all_to_all_single``.
        shape: of the tensor that is given, or of each in a list; None: that of the plane's array.
        out: shape of the tensor that is to be filled, of as many elements as come.
        takes: how many elements the caller has room for, by rank, in an alltoall, or an allgather into a
            list: so many have to come.
        row: elements in a row of the tensors, if such lengths were given in rows; else 0.
        parts: of a call with a list of tensors, one for each member, how many these are; else 0.
        unlike: shapes of the tensors in a list that is given, in words, if they are not all alike.
        objects: how many objects are in the user's list, of a call that carries a number for each; else 0.
    """

    verb: str
    shape: tuple[int, ...] | None = None
    out: tuple[int, ...] | None = None
    takes: tuple[int, ...] | None = None
    row: int = 0
    parts: int = 0
    unlike: str = ""
    objects: int = 0

    def shown(self, shape: tuple[int, ...]) -> tuple[int, ...] | str:
        """What is shown as the shape of what is given, ``(2, 3), parts=4``; `shape` of the plane's array."""
        given = self.unlike or (shape if self.shape is None else self.shape)
        return f"{given}, parts={self.parts}" if self.parts else given


class Seat(NamedTuple):
    """Who makes a plane call, with whom, and as part of which command.

    Attributes:
        worker: id of the calling worker.
        members: ids of the workers that make this call together, ascending; contains `worker`.
        scope: sequence number of the command being executed. Calls of different scopes never meet.
        present: ids of the workers the command was sent to; None means all.
        spot: the user's code that makes the call, and where in it; None: the plane looks for it.
        library: the package whose array the caller passes, if it is not the plane's own: ``torch``; or
            `PICKLE`.
        over: the words by which the call named the members, if it did: ``tp``.
        within: the verb that the user called, if this call is a part of it: ``allreduce_tree``.
        tag: of a message; a receiver gets the messages with the same tag. Collectives with different tags
            never meet.
        rendezvous: of a `send`: whether it waits until its message is asked for.
        theirs: the call of `torch.distributed` that this is, if its arguments are not the plane's.
        limit_s: of a `probe`: how many seconds it may wait; None: as long as it takes.
    """

    worker: int
    members: tuple[int, ...]
    scope: int
    present: tuple[int, ...] | None = None
    spot: Spot | None = None
    library: str = ""
    over: str = ""
    within: str = ""
    tag: int | str = 0
    rendezvous: bool = False
    theirs: Theirs | None = None
    limit_s: float | None = None

    @property
    def rank(self) -> int:
        """Position of the caller among the members."""
        return self.members.index(self.worker)


_MOST: Final = 4
_LINES: Final = 10


def hopes(wait: Any, left: Sequence[int]) -> list[int]:
    """The missing workers of a plane's wait that can still come."""
    return [worker for worker in wait.missing() if left[worker] < wait.scope]


def unread_in(mail: Mapping[Any, Any], scope: int) -> tuple[str, ...]:
    """The first messages that a worker has not received in a command, in words, and how many more there are.

    From any thread, without a lock.

    Args:
        mail: of the worker, see `Plane.mail`.
        scope: the command.
    """
    if not mail:
        return ()
    # Copied first: other threads change both, and in CPython these copies are atomic.
    there = [message for key, box in list(mail.items()) if key[1] == scope for message in list(box)]
    more = [f"{len(there) - _MOST:,} more"] if len(there) > _MOST else []
    return (*(message.describe() for message in there[:_MOST]), *more)


def not_received(unread: Iterable[tuple[int, Sequence[str]]], yet: str = "") -> list[str]:
    """A line for each message that workers have not received, for as many as say enough."""
    lines = [f"not received{yet} by worker {worker}: {each}" for worker, those in unread for each in those]
    return [*lines[:_LINES], *["..."] * (len(lines) > _LINES)]
