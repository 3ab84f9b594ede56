"""Messages between two workers, and the waits for them: for a message, or until one is received."""

from __future__ import annotations

from abc import abstractmethod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from disco_magic.core.seat import PICKLE, not_received, unread_in
from disco_magic.phrases import people
from disco_magic.planes.meeting import Wait

if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import DTypeLike, NDArray

    from disco_magic.core.seat import Seat
    from disco_magic.planes.calls import Call
    from disco_magic.planes.verdicts import Verdict

    Key = tuple[int, int, int | str]  # source, scope, tag


_MOST: Final = 4


def tagged(seat: Seat) -> str:
    """`` with tag 3``, which any text may follow, if `seat` has a tag, else an empty text."""
    return f" with tag {seat.tag!r}" if seat.tag != 0 else ""


class Message(NamedTuple):
    """An array on its way: the sender's copy, and the `token` that `Memory.unpack` needs to hand it over."""

    array: NDArray[Any]
    scalar: bool
    call: Call
    token: Any
    sent: Sent

    def describe(self) -> str:
        """``float32 (3,) from worker 0, sent at Cell In[2], line 5``."""
        tag = tagged(self.call.seat)
        return f"{self.sent.what} from worker {self.call.worker}{tag}, sent at {self.call.site}"


class Sent:
    """The record of a sent message, without its array: where it went, and which call received it.

    Attributes:
        call: the sender's ``send``.
        dtype, shape: of the array, as the sender knows it.
        receiver: the worker that it was sent to.
        number: the plane's messages are numbered in the order in which they were posted.
        taken: the receiver's ``recv``, once it has asked for the message.
    """

    __slots__ = ("call", "dtype", "number", "receiver", "shape", "taken")

    def __init__(self, call: Call, array: NDArray[Any], receiver: int) -> None:
        self.call = call
        self.dtype: DTypeLike = array.dtype
        theirs = call.seat.theirs
        self.shape = array.shape if theirs is None or theirs.shape is None else theirs.shape
        self.receiver = receiver
        self.number = 0
        self.taken: Call | None = None

    @property
    def what(self) -> str:
        """``float32 (3,)``, or ``pickled object (45 bytes)``."""
        if self.call.seat.library == PICKLE:
            return f"pickled object ({self.shape[0]:,} bytes)"
        return f"{self.dtype} {self.shape}"

    def describe(self) -> str:
        """``what worker 2 sent last, to worker 3 at Cell In[3], line 8, was received at ...``."""
        came = "has not been received" if self.taken is None else f"was received at {self.taken.site}"
        to = f"to worker {self.receiver}{tagged(self.call.seat)}"
        return f"what worker {self.call.worker} sent last, {to} at {self.call.site}, {came}"


class LoneWait(Wait):
    """The wait of one worker for others, or for itself alone, which never ends.

    Attributes:
        call: what the waiting worker called.
        peers: the workers that it waits for.
        ends, scope, to_wake, verdict: see `Wait`.
    """

    __slots__ = ("call", "ends", "peers", "tag")

    def __init__(self, call: Call, peers: tuple[int, ...]) -> None:
        self.call = call
        self.peers = peers
        self.ends = call.seat.limit_s is not None
        self.scope, self.tag = call.seat.scope, call.seat.tag
        self.verdict: Verdict | None = None
        self.to_wake: list[LockType] = []

    @property
    def arrived(self) -> int:
        """See `Wait.arrived`."""
        return 0 if self.peers == (self.call.worker,) else 1

    @property
    @abstractmethod
    def said(self) -> str:
        """The waiting call in words, naming the peers."""

    @property
    @abstractmethod
    def lacks(self) -> str:
        """The call that a peer would have to make."""

    @property
    def before(self) -> int:
        """How many such calls of the peer have been answered in this scope, if that is known."""
        return 0

    def others(self) -> list[Message]:
        """The worker's unread messages in this scope, none of them awaited; with the board's lock held."""
        return []

    def missing(self) -> list[int]:
        """The peers, until what is awaited has come."""
        return [] if self.complete else [*self.peers]

    def gates(self) -> list[tuple[int, LockType]]:
        """The waiting worker and its gate."""
        return [(self.call.worker, self.call.gate)]

    def describe(self) -> str:
        """``recv from worker 0 that worker 1 waits in at Cell In[3], line 4``."""
        return f"{self.said} that worker {self.call.worker} waits in at {self.call.site}"

    def call_of(self, worker: int) -> tuple[str, str]:  # noqa: ARG002 - a Wait's signature; one worker waits
        """``recv from worker 0``, ``Cell In[3], line 4``."""
        return self.said, str(self.call.site)

    def __str__(self) -> str:
        return self.seen_by(self.call.worker)

    def _with_tag(self, call: str) -> str:
        return f"{call[:-1]}, tag={self.tag!r})" if self.tag != 0 else call


class _ForMessage(LoneWait):
    """The wait of a worker for a message from one of its peers.

    Args:
        unread: the worker's unread messages by source, scope and tag.
    """

    __slots__ = ("_unread",)

    def __init__(self, call: Call, peers: tuple[int, ...], unread: Mapping[Key, Iterable[Message]]) -> None:
        super().__init__(call, peers)
        self._unread = unread

    def awaits(self, key: Key) -> bool:
        """Whether a message with that source, scope and tag ends the wait."""
        source, scope, tag = key
        return source in self.peers and scope == self.scope and tag == self.tag

    def others(self) -> list[Message]:
        """See `LoneWait.others`."""
        return [message for key, box in self._unread.items() if key[1] == self.scope for message in box]

    @property
    def lacks(self) -> str:
        """``send(..., 1)``."""
        return self._with_tag(f"send(..., {self.call.worker})")


class Receive(_ForMessage):
    """The wait of a worker for a message from one source.

    Attributes:
        message: set by the sender.
        before: how many messages from that source with that tag the worker has received in this scope.
    """

    __slots__ = ("_before", "message")

    def __init__(
        self,
        call: Call,
        source: int,
        before: int = 0,
        unread: Mapping[Key, Iterable[Message]] = MappingProxyType({}),
    ) -> None:
        super().__init__(call, (source,), unread)
        self.message: Message | None = None
        self._before = before

    @property
    def before(self) -> int:
        """See `LoneWait.before`."""
        return self._before

    @property
    def complete(self) -> bool:
        """Whether the message has come."""
        return self.message is not None

    @property
    def said(self) -> str:
        """``recv from worker 0 with tag 3``."""
        return f"recv from worker {self.peers[0]}{tagged(self.call.seat)}"


class Probe(_ForMessage):
    """The wait of a worker until any of its peers has sent it a message.

    Attributes:
        source: set by the sender, to itself.
    """

    __slots__ = ("source",)
    any_suffices = True

    def __init__(self, call: Call, peers: tuple[int, ...], unread: Mapping[Key, Iterable[Message]]) -> None:
        super().__init__(call, peers, unread)
        self.source: int | None = None

    @property
    def complete(self) -> bool:
        """Whether a message has come."""
        return self.source is not None

    @property
    def said(self) -> str:
        """``probe of workers [1-3] with tag 3``; as a part of `recv`, ``recv from any of workers [1-3]``."""
        among, called = f"{people(self.peers)}{tagged(self.call.seat)}", self.call.called
        if called in ("probe", "iprobe"):
            return f"{called} of {among}"
        return f"recv from {'any of ' if len(self.peers) > 1 else ''}{among}"


class Delivery(LoneWait):
    """The wait of a sender until its message is asked for by the one peer, the receiver.

    Attributes:
        sent: the message.
    """

    __slots__ = ("sent",)

    def __init__(self, call: Call, sent: Sent) -> None:
        super().__init__(call, (sent.receiver,))
        self.sent = sent
        self.scope = sent.call.seat.scope  # the receiver's, even if the caller has gone on to a later command

    @property
    def complete(self) -> bool:
        """Whether the receiver has asked for the message."""
        return self.sent.taken is not None

    @property
    def said(self) -> str:
        """``send to worker 0 of float32 (3,) with tag 3``."""
        sent = self.sent
        return f"send to worker {sent.receiver} of {sent.what}{tagged(self.call.seat)}"

    @property
    def lacks(self) -> str:
        """``recv(1)``."""
        return self._with_tag(f"recv({self.call.worker})")


def unread_by(wait: LoneWait) -> str:
    """The first unread messages of the waiting worker, with other tags or from other workers: a line each."""
    others = wait.others()
    more = [f"  and {len(others) - _MOST:,} more"] if len(others) > _MOST else []
    lines = [f"  not received: {each.describe()}" for each in others[:_MOST]]
    return "".join(f"\n{line}" for line in lines + more)


def not_received_in(wait: Wait, workers: Iterable[int], mail: Sequence[Mapping[Any, Any]]) -> str:
    """The first messages that `workers` in a `wait` have not received: a line each."""
    lines = not_received((worker, unread_in(mail[worker], wait.scope)) for worker in workers)
    return "".join(f"\n  {line}" for line in lines)
