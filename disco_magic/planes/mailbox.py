"""Messages: buffered by the sender, first in, first out per (source, receiver, scope, tag).

A message counts as *received* when its receiver has asked for it: the receiver waits for it, has taken it, or
has announced that it will. The sender can wait for that with `Mailbox.deliver`.
"""

from __future__ import annotations

from collections import deque
from itertools import count
from typing import TYPE_CHECKING, Final, cast

from disco_magic.core.seat import unread_in
from disco_magic.planes import verdicts
from disco_magic.planes.mail import Delivery, Message, Probe, Receive, Sent, tagged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.core.interfaces import OfMessage
    from disco_magic.planes.board import Board
    from disco_magic.planes.calls import Call
    from disco_magic.planes.mail import Key, LoneWait

    Announced = tuple[int | None, Call]  # from which source, None: any; the announcing call

_MOST: Final = 4
"""Number of senders of whom an error says how many of their messages were received."""


class Mailbox:
    """The messages of one plane that wait for their receivers, and the receivers that wait for messages.

    Args:
        board: the bookkeeping of the plane.
        num_workers: number of workers.

    Attributes:
        boxes: receiver -> (source, scope, tag) -> messages that it has not taken.
        why_not: says what a receiver that has left a scope asked for in the place of a message.
    """

    def __init__(self, board: Board, num_workers: int) -> None:
        self._board = board
        self.boxes: list[dict[Key, deque[Message]]] = [{} for _ in range(num_workers)]
        board.mail = self.boxes
        # Receiver -> how many messages were sent to it, for errors.
        self._sent: list[dict[Key, int]] = [{} for _ in range(num_workers)]
        self.why_not: OfMessage = lambda *_: ""
        self._number = count()
        self._tidied = [-1] * num_workers  # the last scope in which a receiver was sent something
        # Receiver -> scope and tag -> announcements for which no message has come yet, oldest first.
        self._announced: list[dict[tuple[int, int | str], list[Announced]]] = [{} for _ in range(num_workers)]

    @property
    def held(self) -> int:
        """Number of messages that no receiver has taken yet."""
        return sum(len(box) for boxes in self.boxes for box in boxes.values())

    def post(self, message: Message) -> None:
        """Give `message` to its receiver: directly if the receiver waits for it, else into its box.

        Raises:
            PlaneAborted: the receiver has left the scope and will never receive it.
        """
        board, call, sent = self._board, message.call, message.sent
        to, key = sent.receiver, (call.worker, call.seat.scope, call.seat.tag)
        with board.lock:
            board.admit(call)
            if board.left[to] >= call.seat.scope:
                what = f"the {sent.what}{tagged(call.seat)} that worker {call.worker} sends it at {call.site}"
                why = self.why_not(to, call.seat.scope, call.worker, call.seat.tag)
                raise verdicts.unreceived(to, what, why, board.failure_of(to, call.seat.scope)).error()
            board.sent[call.worker] = sent
            sent.number = next(self._number)
            if call.seat.scope > self._tidied[to]:
                self._tidied[to] = call.seat.scope
                self.forget(to)
            counts = self._sent[to]
            counts[key] = counts.get(key, 0) + 1
            wait = board.waiting.get(to)
            if isinstance(wait, Receive) and wait.awaits(key):
                wait.message = message
                sent.taken = wait.call
                board.wake(wait)
                return
            sent.taken = self._awaited(to, key)
            self.boxes[to].setdefault(key, deque()).append(message)
            if isinstance(wait, Probe) and not wait.complete and wait.awaits(key):
                wait.source = call.worker
                board.wake(wait)

    def deliver(self, call: Call, sent: Sent) -> None:
        """Wait until the receiver has asked for `sent`, the caller's message.

        Raises:
            PlaneAborted: the receiver left without doing so.
            PlaneMismatch: the receiver itself waits for the caller.
        """
        board = self._board
        wait = Delivery(call, sent)
        with board.lock:
            board.admit(call)
            if sent.taken is not None:
                return
            board.park(call.worker, wait)
        self._await(call, wait)

    def announce(self, call: Call, source: int | None) -> None:
        """Announce that the caller will take the next unannounced message with the tag of `call`.

        One of `source`, or if that is None, of any worker.

        Raises:
            PlaneAborted: the caller has left the scope.
        """
        board, key = self._board, (source, call.seat.scope, call.seat.tag)
        with board.lock:
            board.admit(call)
            self.forget(call.worker)
            message = min(self._untaken(call.worker, key), key=_number, default=None)
            if message is None:
                self._announced[call.worker].setdefault(key[1:], []).append((source, call))
            else:
                self._receive(message, call)

    def _untaken(self, worker: int, key: tuple[int | None, int, int | str]) -> list[Message]:
        """What nobody has taken of the messages to `worker` with that scope, tag and source, or of any."""
        boxes, source = self.boxes[worker], key[0]
        fit = [each for each in boxes if each[1:] == key[1:] and source in (None, each[0])]
        return [message for each in fit for message in boxes[each] if message.sent.taken is None]

    def take(self, call: Call, source: int) -> Message:
        """Wait for the next message of `source` to the caller with the tag of `call`, and return it.

        Raises:
            PlaneAborted: `source` left without sending.
            PlaneMismatch: `source` itself waits for the caller.
        """
        board, boxes = self._board, self.boxes[call.worker]
        key = source, call.seat.scope, call.seat.tag
        with board.lock:
            board.admit(call)
            if key in boxes:
                message = boxes[key].popleft()
                if not boxes[key]:
                    del boxes[key]
                self._receive(message, call)
                return message
            self._awaited(call.worker, key)  # if there is one, this is the announced call
            wait = Receive(call, source, self._sent[call.worker].get(key, 0), boxes)
            board.park(call.worker, wait)
        self._await(call, wait)
        return cast("Message", wait.message)

    def probe(self, call: Call, sources: Sequence[int]) -> int:
        """Wait for a message of any of `sources` to the caller with the tag of `call`; return its sender.

        Of several messages, that of the one posted first. It stays in its box.

        Raises:
            PlaneAborted: all `sources` left without sending.
            PlaneMismatch: those that have not left wait for the caller, directly or through others.
        """
        board = self._board
        with board.lock:
            board.admit(call)
            sender = self._oldest(call, sources)
            if sender is not None:
                return sender
            wait = self._probe(call, sources)
            board.park(call.worker, wait)
        self._await(call, wait)
        return cast("int", wait.source)

    def iprobe(self, call: Call, sources: Sequence[int]) -> int | None:
        """As `probe`, but do not wait; return None if there is no message, but still may be one.

        Raises:
            PlaneAborted: see `probe`.
        """
        board = self._board
        with board.lock:
            board.admit(call)
            sender = self._oldest(call, sources)
            if sender is not None:
                return sender
            wait = self._probe(call, sources)
            lost = board.lost(wait)
            if lost is None:
                return None
            verdict = board.gone(lost, wait)
        raise verdict.error()

    def _await(self, call: Call, wait: LoneWait) -> None:
        """Sleep until `wait`, in which the caller is parked, is over; raise unless it is complete."""
        self._board.sleep(call, wait)
        if wait.complete:
            return
        if wait.verdict is not None:
            raise wait.verdict.error()
        if call.seat.limit_s is None:
            raise AssertionError("woken without a message and without a verdict")
        with self._board.lock:
            raise verdicts.late(wait, call.seat.limit_s, self._board.whereabouts(wait.scope))

    def _awaited(self, receiver: int, key: Key) -> Call | None:
        """The first announcement that a message fits, which is over now; with the lock held."""
        announced = self._announced[receiver].get(key[1:], [])
        for place, (source, call) in enumerate(announced):
            if source in (None, key[0]):
                del announced[place]
                return call
        return None

    def _probe(self, call: Call, sources: Sequence[int]) -> Probe:
        # Only others can still send something to a worker that waits.
        others = tuple(source for source in sources if source != call.worker)
        return Probe(call, others or tuple(sources), self.boxes[call.worker])

    def _oldest(self, call: Call, sources: Sequence[int]) -> int | None:
        """The sender of the oldest unread message; with the lock held."""
        to, boxes = (call.seat.scope, call.seat.tag), self.boxes[call.worker]
        heads = [box[0] for key, box in boxes.items() if key[1:] == to and key[0] in sources]
        return min(heads, key=_number).call.worker if heads else None

    def _receive(self, message: Message, call: Call) -> None:
        """Note that `call` asks for `message`, and wake a sender that waits for that; with the lock held."""
        sent, board = message.sent, self._board
        if sent.taken is not None:
            return
        sent.taken = call
        wait = board.waiting.get(sent.call.worker)
        if isinstance(wait, Delivery) and wait.sent is sent:
            board.wake(wait)

    def unread(self, worker: int, scope: int) -> list[str]:
        """The first messages of `scope` that `worker` has not taken, in words, and how many more.

        And how many it has taken before, from whom: in a loop, that is the step.
        """
        boxes = self.boxes[worker]
        if not boxes:
            return []
        with self._board.lock:
            found = unread_in(boxes, scope)  # none, if all that is there is of commands to come
            return [*found, *self._received_before(worker, scope)] if found else []

    def _received_before(self, worker: int, scope: int) -> list[str]:
        """How many messages `worker` has taken, first from those of whom there are more; lock held."""
        boxes, taken = self.boxes[worker], dict[int, int]()
        keys = [key for key in self._sent[worker] if key[1] == scope]
        for key in sorted(keys, key=lambda key: (not boxes.get(key), key[0])):
            before = self._sent[worker][key] - len(boxes.get(key, ()))
            taken[key[0]] = taken.get(key[0], 0) + before
        told = [f"{count:,} from worker {source}" for source, count in taken.items() if count]
        return [f"received before: {', '.join(told[:_MOST])}"] if told else []

    def forget(self, worker: int) -> None:
        """Drop the messages to `worker` in scopes that it has left; with the board's lock held."""
        if not self._sent[worker] and not self._announced[worker]:
            return
        over = max(self._board.left[worker], self._board.ended)
        for boxes in (self.boxes[worker], self._sent[worker]):
            for key in [key for key in boxes if key[1] <= over]:
                del boxes[key]
        announced = self._announced[worker]
        for to in [to for to in announced if to[0] <= over]:
            del announced[to]


def _number(message: Message) -> int:
    return message.sent.number
