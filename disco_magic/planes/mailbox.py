"""Messages: buffered by the sender, first in, first out per (source, receiver, scope, tag)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from disco_magic.errors import PlaneAborted
from disco_magic.planes.meeting import Message, Receive, Sent

if TYPE_CHECKING:
    from disco_magic.planes.board import Board
    from disco_magic.planes.calls import Call


class Mailbox:
    """The messages of one plane that wait for their receivers, and the receivers that wait for messages.

    Args:
        board: the bookkeeping of the plane.
        num_workers: number of workers.

    Attributes:
        boxes: receiver -> (source, scope, tag) -> messages that it has not received.
    """

    def __init__(self, board: Board, num_workers: int) -> None:
        self._board = board
        self.boxes: list[dict[tuple[int, int, int | str], deque[Message]]] = [{} for _ in range(num_workers)]

    @property
    def held(self) -> int:
        """Number of messages that nobody has received yet."""
        return sum(len(box) for boxes in self.boxes for box in boxes.values())

    def post(self, call: Call, message: Message, to: int) -> None:
        """Give `message` to worker `to`: into its hands if it waits for it, else into its box.

        Raises:
            PlaneAborted: `to` has left the scope and will never receive it.
        """
        board, scope, tag = self._board, call.seat.scope, call.seat.tag
        with board.lock:
            board.admit(call.called, call.seat)
            if board.left[to] >= scope:
                raise PlaneAborted(
                    f"worker {to} has finished without receiving the {message.array.dtype}"
                    f" {message.array.shape} that worker {call.worker} sends it at {call.site}"
                )
            sent = board.sent[call.worker] = Sent(call, to)
            wait = board.waiting.get(to)
            if isinstance(wait, Receive) and wait.awaits == (call.worker, scope, tag):
                wait.message = message
                sent.taken = wait.call
                board.wake(wait)
                return
            self.forget(to)
            self.boxes[to].setdefault((call.worker, scope, tag), deque()).append(message)

    def take(self, call: Call, source: int) -> Message:
        """The next message of `source` for the caller that bears the tag of `call`; waits for it.

        Raises:
            PlaneAborted: `source` left without sending.
            PlaneMismatch: `source` itself waits for the caller.
        """
        board = self._board
        wait = Receive(call, source)
        key = wait.awaits
        with board.lock:
            board.admit(call.called, call.seat)
            boxes = self.boxes[call.worker]
            if key in boxes:
                message = boxes[key].popleft()
                sent = board.sent[source]
                if sent.call is message.call:
                    sent.taken = call
                if not boxes[key]:
                    del boxes[key]
                return message
            board.park(call.worker, wait)
        board.sleep(call, wait)
        if wait.message is not None:
            return wait.message
        if wait.verdict is None:
            raise AssertionError("woken without a message and without a verdict")
        raise wait.verdict.error()

    def unread(self, worker: int, scope: int) -> list[str]:
        """The messages of `scope` that `worker` has not received, in words."""
        if not self.boxes[worker]:
            return []
        with self._board.lock:
            return self._sent_in(worker, scope)

    def _sent_in(self, worker: int, scope: int) -> list[str]:
        # Not in the body of a `with`, see `notebook.libraries.caught`: an interrupt may strike here.
        boxes = [box for (_, sent_in, _), box in self.boxes[worker].items() if sent_in == scope]
        return [message.describe() for box in boxes for message in box]

    def forget(self, worker: int) -> None:
        """Drop messages to `worker` of scopes it has left; with the board's lock held."""
        boxes = self.boxes[worker]
        if not boxes:
            return
        over = max(self._board.left[worker], self._board.ended)
        for key in [key for key in boxes if key[1] <= over]:
            del boxes[key]
