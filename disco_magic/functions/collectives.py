"""The collectives that a worker can take part in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from disco_magic.functions.calling import Calling
from disco_magic.functions.shapes import counts_of

if TYPE_CHECKING:
    from disco_magic.core.topology import Over


class Collectives(Calling):
    """The collectives of a worker; mixed into `WorkerContext`.

    All members of the communicator must call a collective, in the same order, each in its own thread: the
    worker's group with ``in_group=True`` (with one group: all workers), all workers of the session with
    ``in_group=False``. `n` is the number of members, `root` a rank among them. ``over="tp"`` and
    ``over=("dp", "tp")`` name axes of the session's mesh: the members are the workers that share all other
    coordinates. ``over=[0, 2]`` names members by their ids. Ranks always follow the ids.

    Arrays may have any strides and any dtype without Python objects; numbers and lists are taken as arrays.
    The result is fresh, in C order, also of arrays in Fortran's, of native byte order, and of PyTorch or JAX
    for an array of theirs, on its device; or it is `out`, which needs the result's exact shape and dtype, may
    be a PyTorch tensor there or the input itself, and costs one more copy if it is not contiguous,
    byteswapped, or in part an input. What is not reduced is moved exactly; of a reduction all members get the
    same bits.

    Each raises
      * UsageMistake if the caller's own arguments are wrong, or the command was sent to some members only;
        the others are not disturbed, and the caller may call again.
      * PlaneMismatch if the calls do not fit together (verb, shape, dtype, op, root, axis, out, lengths that
        `n` does not divide), or members wait for each other in a circle. On all members; nothing was written.
      * PlaneAborted if a member failed or finished without joining; WorkerInterrupt if interrupted.

    Small arrays cost the waking of the members, 20-40 us each (2 cores); for big ones see the verbs.
    """

    def allreduce(
        self,
        x: Any,
        op: str = "sum",
        *,
        out: Any | None = None,
        in_group: bool = True,
        over: Over | None = None,
    ) -> Any:
        """Reduce element by element over the members; every member gets the result.

        Args:
            x: array or number, shape `s`, any numeric or bool dtype; the same shape and dtype everywhere.
            op: ``"sum"``, ``"prod"``, ``"min"``, ``"max"`` or ``"avg"``. Integers wrap as in NumPy; float16,
                bfloat16 and float8 accumulate in float32 and are rounded once; avg of integers gives float64;
                the sum of bools is *or*, their product *and*.
            out: array of shape `s` that takes the result; may be `x` itself.
            in_group: the worker's group only, or all workers.
            over: axes of the mesh, or ids of the members, instead of `in_group`.

        Returns:
            Array of shape `s` (`out` if given); a NumPy scalar if `x` was a scalar.

        Cost: each element of every member's array is read once, each of the result written once per member.

        Example:
            >>> session.run("allreduce(np.full(2, worker_id))")
            [0-3] array([6, 6])
        """
        return self._call("allreduce", x, op, out, in_group=in_group, over=over)

    def reduce(
        self,
        x: Any,
        op: str = "sum",
        root: int = 0,
        *,
        out: Any | None = None,
        in_group: bool = True,
        over: Over | None = None,
    ) -> Any | None:
        """Like `allreduce`, for rank `root` only: shape `s` or `out` there, None elsewhere (`out` unwritten).

        All members call it. `out`, `in_group`, `over`: as for `allreduce`. Errors: see `Collectives`.
        Cost: each element of every array is read once, the result is written once.

        Example:
            >>> session.run("reduce(np.full(2, worker_id), root=3)").values
            [None, None, None, array([6, 6])]
        """
        return self._call("reduce", x, op, root, out, in_group=in_group, over=over)

    def allgather(
        self,
        x: Any,
        axis: int = 0,
        *,
        out: Any | None = None,
        in_group: bool = True,
        over: Over | None = None,
    ) -> Any:
        """Concatenate the members' arrays along `axis` in rank order; every member gets the whole.

        All members call it, with `x` of one dtype and shape `(..., k_i, ...)`; lengths along `axis` may
        differ. Returns shape `(..., sum(k_i), ...)`, or `(n,)` for numbers and arrays without axes.
        `out`, `in_group`, `over`: as for `allreduce`. Errors: see `Collectives`.
        Cost: each element is read once and written once per member.

        Example:
            >>> session.run("allgather(np.full(1 + worker_id % 2, worker_id))")
            [0-3] array([0, 1, 1, 2, 3, 3])
        """
        return self._call("allgather", x, axis, out, in_group=in_group, over=over)

    def gather(
        self,
        x: Any,
        root: int = 0,
        axis: int = 0,
        *,
        out: Any | None = None,
        in_group: bool = True,
        over: Over | None = None,
    ) -> Any | None:
        """Like `allgather`, for rank `root` only: the whole or `out` there, None elsewhere (`out` unwritten).

        All members call it. `out`, `in_group`, `over`: as for `allreduce`. Errors: see `Collectives`.
        Cost: each element is read once and written once.

        Example:
            >>> session.run("gather(np.full(1, worker_id), root=3)").values
            [None, None, None, array([0, 1, 2, 3])]
        """
        return self._call("gather", x, root, axis, out, in_group=in_group, over=over)

    def reduce_scatter(
        self,
        x: Any,
        op: str = "sum",
        axis: int = 0,
        *,
        counts: Any | None = None,
        out: Any | None = None,
        in_group: bool = True,
        over: Over | None = None,
    ) -> Any:
        """Reduce like `allreduce`, then split along `axis`, evenly or by `counts`: rank r gets part r.

        All members call it, with `x` of one shape `(..., n * k, ...)` and dtype; returns `(..., k, ...)`, or
        `(..., counts[r], ...)`.

        Args:
            x: array.
            op: as for `allreduce`.
            axis: along which it is split.
            counts: `n` whole numbers, the lengths of the parts; all members pass the same.
            out: array of the result's shape that takes it.
            in_group: the worker's group only, or all workers.
            over: axes of the mesh, or ids of the members, in place of `in_group`.

        Errors: see `Collectives`.
        Cost: each element of every array is read once, each of the result written once.

        Example:
            >>> session.run("reduce_scatter(np.arange(4), op='max')").values
            [array([0]), array([1]), array([2]), array([3])]
            >>> session.run("reduce_scatter(np.arange(4), counts=[0, 1, 3, 0])").values
            [array([], dtype=int64), array([0]), array([ 4,  8, 12]), array([], dtype=int64)]
        """
        parts = None if counts is None else counts_of("reduce_scatter", counts)
        return self._call("reduce_scatter", x, op, axis, parts, out, in_group=in_group, over=over)

    def broadcast(
        self,
        x: Any | None = None,
        root: int = 0,
        *,
        out: Any | None = None,
        in_group: bool = True,
        over: Over | None = None,
    ) -> Any:
        """Give every member a copy of rank `root`'s array, shape `s`, any dtype; a number gives a scalar.

        All members call it. The others pass None, or an array of the same shape and dtype, which is only
        compared. `root` gets a copy too, unless its `out` is `x`.
        `out`, `in_group`, `over`: as for `allreduce`. Errors: see `Collectives`.
        Cost: each element is read once and written once per member.

        Example:
            >>> session.run("broadcast(np.arange(3) if worker_id == 1 else None, root=1)")
            [0-3] array([0, 1, 2])
        """
        return self._call("broadcast", x, root, out, in_group=in_group, over=over)

    def scatter(
        self,
        x: Any | None = None,
        root: int = 0,
        axis: int = 0,
        *,
        counts: Any | None = None,
        out: Any | None = None,
        in_group: bool = True,
        over: Over | None = None,
    ) -> Any:
        """Split rank `root`'s array along `axis`, evenly or by `counts`: rank r gets part r.

        All members call it. Shape `(..., n * k, ...)` gives `(..., k, ...)`, or `(..., counts[r], ...)`: the
        axis stays, unlike in `Session.scatter`.

        Args:
            x: the array at the root. The others pass None, or an array of the same shape and dtype, which is
                only compared.
            root: rank of the member that has the array.
            axis: along which it is split.
            counts: `n` whole numbers, the lengths of the parts; only the root has to pass them.
            out: array of the result's shape that takes it.
            in_group: the worker's group only, or all workers.
            over: axes of the mesh, or ids of the members, in place of `in_group`.

        Errors: see `Collectives`. Cost: each element is read once and written once.

        Example:
            >>> session.run("scatter(np.arange(8) if worker_id == 0 else None)").values
            [array([0, 1]), array([2, 3]), array([4, 5]), array([6, 7])]
            >>> session.run("scatter(np.arange(4), counts=[0, 1, 3, 0])").values
            [array([], dtype=int64), array([0]), array([1, 2, 3]), array([], dtype=int64)]
        """
        parts = None if counts is None else counts_of("scatter", counts)
        return self._call("scatter", x, root, axis, parts, out, in_group=in_group, over=over)

    def alltoall(
        self,
        x: Any,
        axis: int = 0,
        *,
        counts: Any | None = None,
        out: Any | None = None,
        in_group: bool = True,
        over: Over | None = None,
    ) -> Any:
        """Split along `axis`, evenly or by `counts`; send part j to rank j, join what arrives in rank order.

        All members call it, with `x` of one shape `(..., n * k, ...)` and dtype; the shape stays.

        Args:
            x: array.
            axis: along which it is split and joined.
            counts: `n` whole numbers, per member: the lengths of its parts along `axis`; the whole may then
                differ in length, too. ``alltoall(counts)`` returns how much a member gets from each rank.
            out: array of the result's shape that takes it.
            in_group: the worker's group only, or all workers.
            over: axes of the mesh, or ids of the members, in place of `in_group`.

        `out`, `in_group`, `over`: as for `allreduce`. Errors: see `Collectives`.
        Cost: each element is read once and written once.

        Example:
            >>> session.run("alltoall(10 * worker_id + np.arange(4))")[1]
            array([ 1, 11, 21, 31])
            >>> session.run("alltoall(np.full(3, worker_id), counts=[0, 2, 0, 1])").values[1:]
            [array([0, 0, 1, 1, 2, 2, 3, 3]), array([], dtype=int64), array([0, 1, 2, 3])]
        """
        parts = None if counts is None else counts_of("alltoall", counts)
        return self._call("alltoall", x, axis, parts, out, in_group=in_group, over=over)

    def barrier(self, *, in_group: bool = True, over: Over | None = None) -> None:
        """Wait until every member has called it. Cost: the waking of the members; nothing is moved.

        On GPUs it does not wait for work, but orders it: what a member queues afterwards, on its current
        stream, runs after what all of them had queued before.

        Example:
            >>> session.run("barrier(); 'all are here'")
            [0-3] 'all are here'
        """
        self._call("barrier", in_group=in_group, over=over)
