r"""The data plane between threads of one process: NumPy arrays through shared memory.

    arguments.read_call --> rendezvous.join --> checks.verdict --> plans.FoldPlan --> blocks.Mover
       (one caller)           (who waits)        (do they fit)     (what goes where)  (bytes)
                                                               \-> small.OnePlan (small arrays)

                        board (left, waiting, abort)   mailbox (send, recv)

The limits, measured on 2 cores: for small arrays waking parked threads (20-40 us each), for large ones memory
bandwidth.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from disco_magic.errors import PlaneMismatch, UsageMistake
from disco_magic.phrases import ranges
from disco_magic.planes.arguments import as_index, check_seat, not_a_worker, read_call, spot_of
from disco_magic.planes.board import Board
from disco_magic.planes.calls import FROM_ROOT, Call
from disco_magic.planes.layout import Expected
from disco_magic.planes.mail import Message, Sent
from disco_magic.planes.mailbox import Mailbox
from disco_magic.planes.memory import HOST
from disco_magic.planes.outs import check_message_fits, check_out_fits
from disco_magic.planes.reductions import check_op, reduction
from disco_magic.planes.rendezvous import Rendezvous
from disco_magic.planes.small import plan_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from disco_magic.core.interfaces import Counts, OfMessage, OfWorker
    from disco_magic.core.seat import Seat
    from disco_magic.errors import Failure
    from disco_magic.planes.meeting import Meeting
    from disco_magic.planes.memory import Memory
    from disco_magic.planes.plans import Plan


class ThreadPlane:
    """Moves arrays between the threads of one process; implements `disco_magic.core.interfaces.Plane`.

    Arrays may have any strides and any dtype without Python objects. Results are fresh arrays of native byte
    order, owned by the caller; for a number the result is a NumPy scalar. The result is written to `out`, if
    given, and `out` is returned. It needs the result's exact shape and dtype, in any byte order, and may be
    the input itself. It costs one more copy if it is not contiguous, has another byte order, or partly
    overlaps some member's input.

    Reductions accumulate in rank order, see `planes.reductions`: all members get the same bits in every run.

    Attributes:
        name: ``"threads"``.
        num_workers: number of workers.
        left, waiting: see `Plane.leave`.
        mail: see `Plane.unread`.
    """

    name = "threads"

    def __init__(self, num_workers: int, *, plan: Callable[[list[Call]], Plan] = plan_of) -> None:
        if operator.index(num_workers) < 1:
            raise UsageMistake(f"a plane needs at least 1 worker, got {num_workers}")
        self.num_workers = num_workers
        self._board = Board(num_workers)
        self._rendezvous = Rendezvous(self._board, num_workers, plan)
        self._mailbox = Mailbox(self._board, num_workers)
        self.left: list[int] = self._board.left
        self.waiting: dict[int, Any] = self._board.waiting
        self.mail: Sequence[Mapping[Any, Any]] = self._mailbox.boxes
        self._libraries = [""] * num_workers

    def waited_s(self, worker: int) -> float:
        """See `Plane.waited_s`."""
        return self._board.asleep[worker].seconds()

    def waiting_s(self, worker: int) -> float | None:
        """See `Plane.waiting_s`."""
        return self._board.asleep[worker].lap()

    def library_of(self, worker: int) -> str:
        """See `Plane.library_of`."""
        return self._libraries[worker]

    def reducible(self, worker: int, x: Any, op: str, out: Any | None) -> Any:
        """See `Plane.reducible`."""
        memory = self.memory_of(worker, x)
        array, _ = memory.read("allreduce", worker, x)
        rule = reduction("allreduce", check_op("allreduce", op), array.dtype)
        memory.check_reduction("allreduce", op, array.dtype)
        if out is not None:
            target, expected = memory.check_out("allreduce", worker, out), Expected(array.shape, rule.result)
            sentence = check_out_fits("allreduce", "out", target, expected, memory)
            if sentence is not None:
                raise UsageMistake(sentence)
        return array

    def observe(self, look: OfWorker, held_up: OfWorker, unreceived: OfMessage) -> None:
        """See `Plane.observe`."""
        self._board.look, self._board.held_up, self._mailbox.why_not = look, held_up, unreceived

    # --- coming and going ----------------------------------------------------------------------------

    def leave(self, worker: int, scope: int, failure: Failure | None = None) -> None:
        """`worker` makes no further call in `scope` or an earlier one; release the workers that wait for it.

        A failure has to be reported here, not by writing `left` first: the reason and the departure must
        become visible together.
        """
        self._board.leave(worker, scope, failure)
        with self._board.lock:
            self._mailbox.forget(worker)
            self._rendezvous.forget()

    def unread(self, worker: int, scope: int) -> list[str]:
        """Messages sent to `worker` in `scope` that it has not received, in words; they vanish on `leave`."""
        return self._mailbox.unread(worker, scope)

    def arrived(self, worker: int, source: int, scope: int, tag: int | str) -> int:
        """See `Plane.arrived`."""
        return len(self.mail[worker].get((source, scope, tag), ()))

    def abort(self, through: int, reason: str) -> None:
        """Make every waiting or future call with ``scope <= through`` raise PlaneAborted.

        A collective that all members have joined still completes, soon and by itself.
        """
        self._board.abort(through, reason)

    def close(self) -> None:
        """Release all waiting workers and refuse further calls. Idempotent."""
        self._board.close()

    def forsake(self, reason: str) -> None:
        """See `Plane.forsake`."""
        self._board.forsake(reason)

    def statistics(self) -> dict[str, int]:
        """How much the plane holds: parked workers, open meetings, unread messages, remembered failures."""
        with self._board.lock:
            return {
                "waiting": len(self.waiting),
                "meetings": self._rendezvous.open,
                "messages": self._mailbox.held,
                "failures": self._board.failures_kept,
            }

    # --- collectives ---------------------------------------------------------------------------------

    def allreduce(self, seat: Seat, x: Any, op: str, out: Any | None) -> Any:
        """Reduce `x` of shape ``s`` over the members; every member gets the result, shape ``s``."""
        return self._collective("allreduce", seat, x, op=op, out=out)

    def reduce(self, seat: Seat, x: Any, op: str, root: int, out: Any | None) -> Any | None:
        """As `allreduce`, for rank `root` only; the others get None, and their `out` is ignored."""
        return self._collective("reduce", seat, x, op=op, root=root, out=out)

    def allgather(self, seat: Seat, x: Any, axis: int, out: Any | None) -> Any:
        """Concatenate along `axis` in rank order; shapes may differ there. 0-d arrays give shape ``(n,)``."""
        return self._collective("allgather", seat, x, axis=axis, out=out)

    def gather(self, seat: Seat, x: Any, root: int, axis: int, out: Any | None) -> Any | None:
        """As `allgather`, for rank `root` only; the others get None, and their `out` is ignored."""
        return self._collective("gather", seat, x, root=root, axis=axis, out=out)

    def reduce_scatter(  # noqa: PLR0917 - by position, as its siblings
        self, seat: Seat, x: Any, op: str, axis: int, counts: Counts, out: Any | None
    ) -> Any:
        """Reduce, then split along `axis`, evenly or by `counts`; rank r gets part r."""
        return self._collective("reduce_scatter", seat, x, op=op, axis=axis, counts=counts, out=out)

    def broadcast(self, seat: Seat, x: Any | None, root: int, out: Any | None) -> Any:
        """Copy the array of rank `root` to every member, also to the root unless its `out` is that array.

        The others pass None, or an array whose shape and dtype are compared with the root's.
        """
        return self._collective("broadcast", seat, x, root=root, out=out)

    def scatter(  # noqa: PLR0917 - by position, as its siblings
        self, seat: Seat, x: Any | None, root: int, axis: int, counts: Counts, out: Any | None
    ) -> Any:
        """Split the array of rank `root` along `axis`, evenly or by its `counts`; rank r gets part r.

        The others pass None, or what is compared with the root's.
        """
        return self._collective("scatter", seat, x, root=root, axis=axis, counts=counts, out=out)

    def alltoall(self, seat: Seat, x: Any, axis: int, counts: Counts, out: Any | None) -> Any:
        """Split along `axis`, evenly or by `counts`; rank j gets part j of each, joined in rank order."""
        return self._collective("alltoall", seat, x, axis=axis, counts=counts, out=out)

    def barrier(self, seat: Seat) -> None:
        """Return when every member has called it."""
        self._collective("barrier", seat)

    def memory_of(self, worker: int, x: object) -> Memory:  # noqa: ARG002 - one memory for all arrays here
        """The memory of `x`, which is the input or the `out` of `worker`."""
        return HOST

    def _collective(
        self,
        kind: str,
        seat: Seat,
        x: Any = None,
        *,
        op: Any = None,
        root: Any = None,
        axis: Any = None,
        counts: Any = None,
        out: Any = None,
    ) -> Any:
        memory = self.memory_of(seat.worker, out if x is None else x)
        return self._meet(
            read_call(kind, seat, x, op=op, root=root, axis=axis, counts=counts, out=out, memory=memory)
        )

    def _meet(self, call: Call) -> Any:
        """Make `call` together with the other members; return the caller's result."""
        plan = self._met(call).plan
        return None if plan is None else plan.result(call.seat.rank)

    def _met(self, call: Call) -> Meeting:
        """Make `call` together with the other members; return their meeting."""
        meeting = self._rendezvous.join(call)
        if call.kind in FROM_ROOT and call.root is not None:
            self._libraries[call.worker] = meeting.calls[call.seat.members[call.root]].seat.library
        return meeting

    # --- point to point ------------------------------------------------------------------------------

    def send(self, seat: Seat, x: Any, to: int) -> Sent:
        """Send a copy of `x` to worker `to` (an id, possibly the caller's own); see `Plane.send`."""
        receiver = self._peer("send", seat, "to", to)
        memory = self.memory_of(seat.worker, x)
        array, scalar = memory.read("send", seat.worker, x)
        call = Call("send", seat, spot_of(seat), memory)
        copy, token = memory.parcel(seat.worker, array, x)
        sent = Sent(call, copy, receiver)
        self._mailbox.post(Message(copy, scalar, call, token, sent))
        if seat.rendezvous:
            self._mailbox.deliver(call, sent)
        return sent

    def deliver(self, seat: Seat, sent: Sent) -> None:
        """See `Plane.deliver`."""
        self._mailbox.deliver(Call("send", seat, spot_of(seat), sent.call.memory), sent)

    def announce(self, seat: Seat, source: int | None) -> None:
        """See `Plane.announce`."""
        sender = None if source is None else self._peer("recv", seat, "source", source)
        self._mailbox.announce(Call("recv", seat, spot_of(seat), HOST), sender)

    def recv(self, seat: Seat, source: int, out: Any | None) -> Any:
        """Wait for the next message that worker `source` (an id) sends to the caller in this scope."""
        sender = self._peer("recv", seat, "source", source)
        memory = self.memory_of(seat.worker, out)
        target = None if out is None else memory.check_out("recv", seat.worker, out)
        message = self._mailbox.take(Call("recv", seat, spot_of(seat), memory), sender)
        array = message.call.memory.unpack(seat.worker, message)
        self._libraries[seat.worker] = message.call.seat.library
        if target is None:
            return array
        wrong = check_message_fits(message, seat.worker, target, memory, seat.theirs)
        if wrong is not None:
            raise PlaneMismatch(f"{wrong}\n  received: {message.describe()}")
        memory.copy(target, array)
        return out

    def probe(self, seat: Seat, sources: Sequence[int] | None) -> int:
        """See `Plane.probe`."""
        return self._mailbox.probe(*self._sources("probe", seat, sources))

    def iprobe(self, seat: Seat, sources: Sequence[int] | None) -> int | None:
        """See `Plane.iprobe`."""
        return self._mailbox.iprobe(*self._sources("iprobe", seat, sources))

    def _sources(self, kind: str, seat: Seat, sources: Sequence[int] | None) -> tuple[Call, Sequence[int]]:
        check_seat(kind, seat._replace(members=(seat.worker,)))
        peers: Sequence[int] = seat.present or range(self.num_workers)
        if sources is not None:
            peers = sorted({self._peer(kind, seat, "source", each) for each in sources})
        return Call(kind, seat, spot_of(seat), HOST), peers

    def _peer(self, kind: str, seat: Seat, name: str, worker: object) -> int:
        check_seat(kind, seat._replace(members=(seat.worker,)))
        kind = seat.within or kind
        peer = as_index(kind, name, worker)
        if not 0 <= peer < self.num_workers:
            raise not_a_worker(kind, name, peer, self.num_workers)
        if seat.present is not None and peer not in seat.present:
            raise UsageMistake(
                f"{kind}: {name}={peer}, but this command was sent to workers {ranges(seat.present)} only, so"
                f" worker {peer} can never answer - send the command to all workers (drop -w or workers=)"
            )
        return peer
