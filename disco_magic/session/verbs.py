"""Disco's array verbs on references: destination passing, with an optional destination.

``in_group=True`` (Disco's default) works inside each group with its first worker as root, ``False`` on all
workers with worker 0 as root. ``over="tp"`` or ``over=("dp", "tp")`` names axes of the session's mesh
instead: workers take part together if all their other coordinates are equal. Below, `n` workers take part,
and the *first worker* is the root.

The controller calls them; unless they say otherwise they do not wait. Impossible arguments raise UsageMistake
at once, and nothing is sent. Errors that the workers find are raised as a WorkerError by the next `sync_*`,
`get` or end of a cell. Its origin is a PlaneMismatch if the arrays do not fit together or into `dst`, a
UsageMistake if a register does not hold a movable array. Nothing is written then, with one exception:
scatter, gather and allgather detect a `dst` of another dtype only after the move, and fail only on the
worker that has it.

Collectives return a new register; with `dst`, a reference, it holds the same array object as `dst`. Small
arrays cost waking the workers, 20-40 us each (2 cores); large ones what the verb says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from disco_magic.core.numbers import whole_number
from disco_magic.errors import UsageMistake
from disco_magic.functions import builtins, worker_builtins
from disco_magic.functions.participants import who
from disco_magic.functions.shapes import counts_of
from disco_magic.planes.arguments import check_counts
from disco_magic.planes.reductions import check_op
from disco_magic.session.calls import Calls
from disco_magic.session.dref import DRef

if TYPE_CHECKING:
    from disco_magic.core.topology import Axes
    from disco_magic.functions.participants import Who


class ArrayVerbs(Calls):
    """Mixin of `Session`, built from its commands."""

    def _members(self, verb: str, src: DRef, dst: DRef | None, over: Axes | None, *, in_group: bool) -> Who:
        """Who takes part in a verb, as its call carries it; both of its ends are checked."""
        members = self.taking_part(verb, over, in_group=in_group)
        if isinstance(src, str):
            raise UsageMistake(
                f"the source has to be a DRef of session {self.id}, got {src!r}; session[{src!r}] is one of "
                "the register of that name"
            )
        self.check_destination(dst)
        return members

    def _counts(self, verb: str, counts: Any, members: Who) -> tuple[int, ...] | DRef | None:
        """Lengths of parts, as a call carries them; those in a register are checked by its workers."""
        if counts is None or isinstance(counts, DRef):
            return counts
        lengths = counts_of(verb, counts)
        check_counts(verb, lengths, self.topology.part_size(**who(members)))
        return lengths

    def broadcast_from_worker0(
        self,
        src: DRef,
        dst: DRef | None = None,
        in_group: bool = True,  # noqa: FBT001, FBT002 - Disco's own signature
        *,
        over: Axes | None = None,
    ) -> DRef:
        """Copy the first worker's array, shape `s`, to all; the others' `src` is ignored.

        With `dst`, its arrays have shape `s` and the dtype of `src`. Exact. Cost: `src` is read once and
        written once per worker.
        """
        members = self._members("broadcast_from_worker0", src, dst, over, in_group=in_group)
        return self.call_packed(builtins.broadcast_from_worker0, src, members, dst)

    def scatter_from_worker0(
        self,
        src: DRef,
        dst: DRef | None = None,
        in_group: bool = True,  # noqa: FBT001, FBT002 - Disco's own signature
        *,
        over: Axes | None = None,
    ) -> DRef:
        """Split the first worker's array, shape `(n, *s)`, over all; the others' `src` is ignored.

        Each gets shape `s`, or `dst` filled as in `scatter`. Exact. Cost: each element is read and written
        once; `dst` costs one more copy of a part on every worker; without it, one more small broadcast (`s`).
        """
        members = self._members("scatter_from_worker0", src, dst, over, in_group=in_group)
        return self.call_packed(builtins.scatter_from_worker0, src, members, dst, dst is not None)

    def gather_to_worker0(
        self,
        src: DRef,
        dst: DRef | None = None,
        in_group: bool = True,  # noqa: FBT001, FBT002 - Disco's own signature
        *,
        over: Axes | None = None,
    ) -> DRef:
        """Join the workers' arrays on the first worker, in the order of their ids.

        Shapes `(k_i, *s)` of one dtype give `(sum(k_i), *s)`, arrays without axes give `(n,)`; the others get
        None. With `dst`, which only the first worker needs, arrays of equal size fill its array, of any shape
        with ``n * src.size`` elements, in C order, and the others get what `dst` holds there. Exact. Cost:
        each element is read and written once; `dst` costs one more copy of the whole.
        """
        members = self._members("gather_to_worker0", src, dst, over, in_group=in_group)
        return self.call_packed(builtins.gather_to_worker0, src, members, dst, dst is not None)

    def allreduce(
        self,
        src: DRef,
        dst: DRef | None = None,
        op: str = "sum",
        in_group: bool = True,  # noqa: FBT001, FBT002 - Disco's own signature
        *,
        over: Axes | None = None,
    ) -> DRef:
        """Reduce arrays of one shape `s` and dtype element by element; every worker gets the result.

        `op` is one of ``sum prod min max avg``; precision: `WorkerContext.allreduce`. `dst` has shape `s` and
        the result's dtype, and may be `src`. Raises UsageMistake for another `op`; nothing was sent.
        Cost: each element of every worker's array is read once, each of the result written once per worker.

        Example:
            >>> x = session.scatter(np.arange(8).reshape(4, 2))
            >>> session.allreduce(x, op="max").get(0)
            array([6, 7])
        """
        op = check_op("allreduce", op)
        members = self._members("allreduce", src, dst, over, in_group=in_group)
        return self.call_packed(builtins.allreduce, src, op, members, dst)

    def allgather(
        self,
        src: DRef,
        dst: DRef | None = None,
        in_group: bool = True,  # noqa: FBT001, FBT002 - Disco's own signature
        *,
        over: Axes | None = None,
    ) -> DRef:
        """Join the workers' arrays on all of them, in the order of their ids.

        Shapes and `dst` as in `gather_to_worker0`; `dst` holds an array on every worker. Exact. Cost: each
        element is read once and written once per worker; `dst` costs one more copy of the whole.
        """
        members = self._members("allgather", src, dst, over, in_group=in_group)
        return self.call_packed(builtins.allgather, src, members, dst, dst is not None)

    def reduce_scatter(
        self,
        src: DRef,
        dst: DRef | None = None,
        op: str = "sum",
        in_group: bool = True,  # noqa: FBT001, FBT002 - the order of Disco's allreduce
        *,
        counts: Any | None = None,
        over: Axes | None = None,
    ) -> DRef:
        """Reduce as `allreduce`, then split along axis 0, evenly or by `counts`: rank r gets part r.

        Shape `(n * k, *s)` gives `(k, *s)`, or `(counts[r], *s)`; `dst` has that shape and the result's
        dtype. `counts` are `n` whole numbers, the lengths of the parts, or a reference to such, the same on
        all workers. Raises UsageMistake for another `op`, or if `counts` are not `n` whole numbers; nothing
        was sent. The workers find whether they fit the arrays.
        Cost: each element of every worker's array is read once, each of the result written once.

        Example:
            >>> x = session.call_packed(np.arange, 4)
            >>> session.reduce_scatter(x, counts=[0, 1, 3, 0]).get_all()
            [array([], dtype=int64), array([0]), array([ 4,  8, 12]), array([], dtype=int64)]
        """
        op = check_op("reduce_scatter", op)
        members = self._members("reduce_scatter", src, dst, over, in_group=in_group)
        parts = self._counts("reduce_scatter", counts, members)
        return self.call_packed(builtins.reduce_scatter, src, op, members, dst, parts)

    def alltoall(
        self,
        src: DRef,
        dst: DRef | None = None,
        in_group: bool = True,  # noqa: FBT001, FBT002 - the order of Disco's allgather
        *,
        counts: Any | None = None,
        over: Axes | None = None,
    ) -> DRef:
        """Exchange parts along axis 0, even or by `counts`: part j of worker i becomes part i of worker j.

        All arrays have one dtype and one shape `(n * k, *s)`, which is also that of the result and of `dst`.
        With `counts`, first axes may differ. These are `n` whole numbers, the lengths of the parts on every
        worker, or a reference to each worker's own; of arrays, ``alltoall(counts)`` is how much a worker gets
        from each rank. Raises UsageMistake if `counts` are not `n` whole numbers; nothing was sent. The
        workers find whether they fit the arrays.
        Exact. Cost: each element is read and written once.
        """
        members = self._members("alltoall", src, dst, over, in_group=in_group)
        parts = self._counts("alltoall", counts, members)
        return self.call_packed(builtins.alltoall, src, members, dst, parts)

    def barrier(self, *, in_group: bool = True, over: Axes | None = None) -> None:
        """Hold every worker here until all have arrived; the controller does not wait."""
        self.call_packed(builtins.barrier, self.taking_part("barrier", over, in_group=in_group))

    # Between single workers or groups, which Disco offers on its workers only. One command covers both ends
    # of a message here, because `send` and `recv` on workers pair only within a command.

    def reduce(
        self,
        src: DRef,
        dst: DRef | None = None,
        op: str = "sum",
        in_group: bool = True,  # noqa: FBT001, FBT002 - the order of Disco's allreduce
        *,
        root: int = 0,
        over: Axes | None = None,
    ) -> DRef:
        """Reduce arrays of one shape `s` and dtype element by element; one worker gets the result.

        Args:
            src: register of shape `s`.
            dst: register with an array of shape `s` and the result's dtype on the root; may be `src`.
            op: one of ``sum prod min max avg``; precision: `WorkerContext.allreduce`.
            in_group: one result per group, or one of all workers.
            root: rank of the worker that gets it, among those that work together.
            over: one result for each set of workers that differ only along these axes of the mesh.

        Returns:
            Register of shape `s` on the root; the others hold what `dst` holds there, or None.

        Raises:
            UsageMistake: another `op`, or no such rank; nothing was sent.

        Cost: each element of every worker's array is read once, the result is written once.
        """
        op = check_op("reduce", op)
        members = self._members("reduce", src, dst, over, in_group=in_group)
        size = self.topology.part_size(**who(members))
        rank = _number("reduce", "root", root, size, "rank")
        return self.call_packed(worker_builtins.reduce, src, op, rank, members, dst)

    def send_to_worker(
        self, src: DRef, receiver_id: int, sender_id: int = 0, dst: DRef | None = None
    ) -> DRef:
        """Copy one worker's array to another worker; the others' `src` is ignored.

        Args:
            src: register with an array of any shape `s` on the sender.
            receiver_id: id of the worker that gets the copy.
            sender_id: id of the worker that has the array.
            dst: register with an array of that dtype and as many elements on the receiver, filled in C order.

        Returns:
            Register of shape `s`, or `dst`, on the receiver; the others hold what `dst` holds there, or None.
            Exact.

        Raises:
            UsageMistake: there is no worker of that id; nothing was sent.

        Cost: one copy, with `dst` two; no other worker waits.
        """
        sender = _number("send_to_worker", "sender_id", sender_id, self.num_workers, "worker id")
        receiver = _number("send_to_worker", "receiver_id", receiver_id, self.num_workers, "worker id")
        self.check_destination(dst)
        return self.call_packed(worker_builtins.copy_to_worker, src, dst, sender, receiver)

    def send_to_next_group(self, src: DRef, dst: DRef | None = None) -> DRef:
        """Copy each group's arrays to the next group, worker by worker in rank order: a pipeline step.

        Args:
            src: register with arrays of any shape `s`, which may differ between workers; ignored in the last
                group.
            dst: register with arrays of that dtype and as many elements in every group but the first, filled
                in C order.

        Returns:
            Register of what came from the previous group, shape `s` or `dst`; the first group holds what
            `dst` holds there, or None. Exact.

        Raises:
            UsageMistake: the session has one group; nothing was sent.

        Cost: one copy per array, with `dst` two; all groups copy at the same time.
        """
        if self.num_groups == 1:
            raise UsageMistake(
                f"send_to_next_group: session {self.id} has one group, there is no next one; start it with "
                "num_groups=2 or more"
            )
        self.check_destination(dst)
        return self.call_packed(worker_builtins.shift_to_next_group, src, dst)


def _number(verb: str, name: str, value: object, count: int, what: str) -> int:
    number = whole_number(value)
    if number is None or not 0 <= number < count:
        raise UsageMistake(f"{verb}: {name} is {value!r}, expected a {what} from 0 to {count - 1}")
    return number
