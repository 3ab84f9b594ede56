"""Messages between two workers, and waiting for them: for what is sent, or until it is received."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from disco_magic.planes.calls import describe_array

if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Iterable, Mapping

    from numpy.typing import DTypeLike, NDArray

    from disco_magic.core.interfaces import Seat
    from disco_magic.planes.calls import Call
    from disco_magic.planes.meeting import Verdict


def tagged(seat: Seat) -> str:
    """``, tag 3`` of a message that bears one."""
    return f", tag {seat.tag!r}" if seat.tag != 0 else ""


class Message(NamedTuple):
    """An array on its way: the sender's copy; its memory makes it the receiver's own, with the `token`."""

    array: NDArray[Any]
    scalar: bool
    call: Call
    token: Any
    sent: Sent

    def describe(self) -> str:
        """``float32 (3,) from worker 0, sent at Cell In[2], line 5``."""
        tag = tagged(self.call.seat)
        return f"{describe_array(self.array)} from worker {self.call.worker}{tag}, sent at {self.call.site}"


class Sent:
    """That a message was sent, without what was in it: whom it went to, and who received it where.

    Attributes:
        call: the sender's ``send``.
        dtype, shape: of the array.
        receiver: worker it went to.
        taken: the receiver's ``recv``, once it has asked for the message.
    """

    __slots__ = ("call", "dtype", "receiver", "shape", "taken")

    def __init__(self, call: Call, array: NDArray[Any], receiver: int) -> None:
        self.call = call
        self.dtype: DTypeLike = array.dtype
        self.shape = array.shape
        self.receiver = receiver
        self.taken: Call | None = None

    def describe(self) -> str:
        """``what worker 2 sent last, to worker 3 at Cell In[3], line 8, was received at ...``."""
        came = "has not been received" if self.taken is None else f"was received at {self.taken.site}"
        to = f"to worker {self.receiver}{tagged(self.call.seat)}"
        return f"what worker {self.call.worker} sent last, {to} at {self.call.site}, {came}"


class WaitForOne(ABC):
    """Most of a `Wait` of one worker for one other, or for itself, which never ends.

    Attributes:
        call: what the worker called.
        peer: whom it waits for.
        arrived, scope, to_wake, verdict: see `Wait`.
    """

    __slots__ = ("arrived", "call", "peer", "scope", "tag", "to_wake", "verdict")

    def __init__(self, call: Call, peer: int) -> None:
        self.call = call
        self.peer = peer
        self.arrived = 0 if peer == call.worker else 1
        self.scope, self.tag = call.seat.scope, call.seat.tag
        self.verdict: Verdict | None = None
        self.to_wake: list[LockType] = []

    @property
    @abstractmethod
    def complete(self) -> bool:
        """See `Wait.complete`."""

    @property
    @abstractmethod
    def said(self) -> str:
        """What it waits in, in words that name the peer."""

    @property
    @abstractmethod
    def lacks(self) -> str:
        """What the peer would have to call."""

    def missing(self) -> list[int]:
        """The peer, until it has come."""
        return [] if self.complete else [self.peer]

    def gates(self) -> list[tuple[int, LockType]]:
        """The one that waits."""
        return [(self.call.worker, self.call.gate)]

    def describe(self) -> str:
        """``recv from worker 0 that worker 1 waits in at Cell In[3], line 4``."""
        return f"{self.said} that worker {self.call.worker} waits in at {self.call.site}"

    def call_of(self, worker: int) -> tuple[str, str]:  # noqa: ARG002 - a Wait's signature; one worker waits here
        """``recv from worker 0``, ``Cell In[3], line 4``."""
        return self.said, str(self.call.site)

    def seen_by(self, worker: int) -> str:
        """``recv from worker 0 at Cell In[3], line 4``."""
        return " at ".join(self.call_of(worker))

    def __str__(self) -> str:
        return self.seen_by(self.call.worker)

    def _with_tag(self, call: str) -> str:
        return f"{call[:-1]}, tag={self.tag!r})" if self.tag != 0 else call


class Receive(WaitForOne):
    """A worker that waits for a message; `peer` is its source.

    Attributes:
        message: set by the sender.
        before: how many messages of that source and tag it has received in this scope.
    """

    __slots__ = ("_others", "before", "message")

    def __init__(
        self,
        call: Call,
        source: int,
        before: int = 0,
        others: Mapping[Any, Iterable[Message]] = MappingProxyType({}),
    ) -> None:
        super().__init__(call, source)
        self.message: Message | None = None
        self.before = before
        self._others = others

    def others(self) -> list[Message]:
        """What has come for the worker in this scope, and is not what it waits for. With the board's lock."""
        return [message for key, box in self._others.items() if key[1] == self.scope for message in box]

    @property
    def awaits(self) -> tuple[int, int, int | str]:
        """Source, scope and tag of the message."""
        return self.peer, self.scope, self.tag

    @property
    def complete(self) -> bool:
        """The message is there."""
        return self.message is not None

    @property
    def said(self) -> str:
        """``recv from worker 0, tag 3``."""
        return f"recv from worker {self.peer}{tagged(self.call.seat)}"

    @property
    def lacks(self) -> str:
        """``send(..., 1)``."""
        return self._with_tag(f"send(..., {self.call.worker})")


class Delivery(WaitForOne):
    """A worker that waits until its message is asked for; `peer` is the receiver.

    Attributes:
        sent: the message.
    """

    __slots__ = ("sent",)

    def __init__(self, call: Call, sent: Sent) -> None:
        super().__init__(call, sent.receiver)
        self.sent = sent
        self.scope = sent.call.seat.scope  # in which it can be asked for, also if the caller has gone on

    @property
    def complete(self) -> bool:
        """The receiver has asked for it."""
        return self.sent.taken is not None

    @property
    def said(self) -> str:
        """``send to worker 0 of float32 (3,), tag 3``."""
        sent = self.sent
        return f"send to worker {self.peer} of {sent.dtype} {sent.shape}{tagged(self.call.seat)}"

    @property
    def lacks(self) -> str:
        """``recv(1)``."""
        return self._with_tag(f"recv({self.call.worker})")
