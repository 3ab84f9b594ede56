"""Who makes a call of a plane, with whom, and where from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from types import CodeType

    # A place in code: the code, and the offset of an instruction in it. Finding its line takes longer.
    Spot = tuple[CodeType, int]

PICKLE: Final = "pickle"
"""`Seat.library` of a message whose bytes are a pickled object."""


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

    @property
    def rank(self) -> int:
        """Position of the caller among the members."""
        return self.members.index(self.worker)
