"""The collectives that a worker can join, and messages to and from single workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.core.interfaces import Seat
from disco_magic.errors import UsageMistake
from disco_magic.functions.arrays import taken
from disco_magic.functions.facts import facts_of
from disco_magic.functions.returned import as_array_of
from disco_magic.functions.sites import runtime_file
from disco_magic.functions.tensors import filled, read_out
from disco_magic.phrases import class_name
from disco_magic.recorder import Recorder

if TYPE_CHECKING:
    from disco_magic.core.interfaces import Place, Plane
    from disco_magic.functions.context import Guard, Topology

_NOBODY: Final = ()
_BETWEEN_TWO: Final = frozenset({"send", "recv"})
_FROM_ANOTHER: Final = frozenset({"broadcast", "scatter", "recv"})
_HERE: Final = (lambda: None).__code__.co_filename


class Collectives:
    """What a worker can do together with others; mixed into `WorkerContext`.

    The collectives must be called by all members of the communicator, in the same order: by the worker's
    group with ``in_group=True`` (with one group: all workers), by all workers of the session with
    ``in_group=False``; by each in its own thread. `n` is the number of members, `root` a rank among them.

    Arrays may have any strides and any dtype without Python objects; numbers and lists are taken as arrays.
    The result is fresh, of native byte order, and of PyTorch or JAX for an array of theirs, on its device; or
    `out`, which needs the result's exact shape and dtype, may be a PyTorch tensor there or the input
    itself, and costs one more copy if not contiguous, byteswapped or in part an input. What is not reduced
    is moved exactly; of a reduction all get the same bits.

    Each raises
      * UsageMistake if the caller's own arguments are wrong, or the command was sent to some members only;
        the others are not disturbed, the caller may call again.
      * PlaneMismatch if the calls do not fit together (verb, shape, dtype, op, root, axis, out, lengths that
        `n` does not divide), or members wait for each other in a circle. All members; nothing was written.
      * PlaneAborted if a member failed or finished without joining; WorkerInterrupt if interrupted.

    Small arrays cost the waking of the members, 20-40 us each (2 cores); big ones what the verb says.
    """

    def __init__(self, worker: int, topology: Topology, plane: Plane, guard: Guard, place: Place) -> None:
        self.id = worker
        self.place = place
        self.num_workers = topology.num_workers
        self.num_groups = topology.num_groups
        self.group_size = topology.group_size
        self.group = worker // topology.group_size
        self.group_rank = worker % topology.group_size
        self._plane = plane
        self._guard = guard
        self._group_members = topology.members(self.group)
        self._everybody = tuple(range(topology.num_workers))
        self.recorder = Recorder()

    def _call(self, verb: str, *arguments: Any, in_group: bool) -> Any:
        given, lent, library = arguments[0] if arguments else 0, False, ""
        members = self._group_members if in_group else self._everybody
        # As `read_early` begins, without a call in the usual case.
        if arguments and type(given) is not np.ndarray and verb != "recv":
            arguments, lent, library = taken(verb, arguments, self.id, members, self.place)
        out = arguments[-1] if arguments else None
        if out is not None and type(out) is not np.ndarray and verb != "send":
            target = read_out(verb, out, self.place)
            lent = lent or (target is not out and not isinstance(target, np.ndarray))
            arguments = (*arguments[:-1], target)
        facts = facts_of(verb, arguments, _HERE)
        recorder, error, refused = self.recorder, "", False  # first: a thread that is given up keeps this one
        scope, present = self._guard.enter()  # outside of try: what did not begin must not be left
        try:
            to_meet = _NOBODY if verb in _BETWEEN_TWO else members
            joined = recorder.joins(facts, scope, to_meet)
            spot = None if runtime_file(facts[4].co_filename) else facts[4:]
            result = getattr(self._plane, verb)(
                Seat(self.id, members, scope, present, spot, library), *arguments
            )
            if verb in _FROM_ANOTHER:
                library = self._plane.library_of(self.id)
        except BaseException as reason:
            error, refused = class_name(reason), issubclass(type(reason), UsageMistake)
            raise
        finally:
            recorder.parts(joined, self._plane.waited_s(self.id), error, refused=refused)
            try:
                self._guard.leave()
            finally:
                if lent:  # its library may change or free it from now on, on a stream of its own
                    self.place.finish()
        if result is None or result is arguments[-1]:
            return None if result is None else filled(out)
        if not library:
            return result
        if not lent and not isinstance(result, np.ndarray):
            self.place.finish()  # what fails on its way could no longer be found in registers
        return as_array_of(library, result, given)

    def allreduce(self, x: Any, op: str = "sum", *, out: Any | None = None, in_group: bool = True) -> Any:
        """Element-wise reduction over the members; every member gets the result.

        Args:
            x: array or number, shape `s`, any numeric or bool dtype; the same shape and dtype everywhere.
            op: ``"sum"``, ``"prod"``, ``"min"``, ``"max"`` or ``"avg"``. Integers wrap as in NumPy; float16,
                bfloat16 and float8 accumulate in float32 and are rounded once; avg of integers gives float64;
                the sum of bools is *or*, their product *and*.
            out: array of shape `s` that takes the result; may be `x` itself.
            in_group: the worker's group only, or all workers.

        Returns:
            Array of shape `s` (`out` if given); a NumPy scalar if `x` was a scalar.

        Cost: each element of every member's array is read once, each of the result written once per member.

        Example:
            >>> session.run("allreduce(np.full(2, worker_id))")
            [0-3] array([6, 6])
        """
        return self._call("allreduce", x, op, out, in_group=in_group)

    def reduce(
        self, x: Any, op: str = "sum", root: int = 0, *, out: Any | None = None, in_group: bool = True
    ) -> Any | None:
        """As `allreduce`, for rank `root` only: shape `s` or `out` there, None elsewhere (`out` unwritten).

        All members call it. Cost: each element of every array is read once, the result is written once.
        """
        return self._call("reduce", x, op, root, out, in_group=in_group)

    def allgather(self, x: Any, axis: int = 0, *, out: Any | None = None, in_group: bool = True) -> Any:
        """Concatenate the members' arrays along `axis` in rank order; every member gets the whole.

        All members call it, with `x` of one dtype and shape `(..., k_i, ...)`; `axis` may differ in length.
        Returns shape `(..., sum(k_i), ...)`, of numbers and arrays without axes `(n,)`.
        Cost: each element is read once and written once per member.

        Example:
            >>> session.run("allgather(np.full(1 + worker_id % 2, worker_id))")
            [0-3] array([0, 1, 1, 2, 3, 3])
        """
        return self._call("allgather", x, axis, out, in_group=in_group)

    def gather(
        self, x: Any, root: int = 0, axis: int = 0, *, out: Any | None = None, in_group: bool = True
    ) -> Any | None:
        """As `allgather`, for rank `root` only: the whole or `out` there, None elsewhere (`out` unwritten).

        All members call it. Cost: each element is read once and written once.
        """
        return self._call("gather", x, root, axis, out, in_group=in_group)

    def reduce_scatter(
        self, x: Any, op: str = "sum", axis: int = 0, *, out: Any | None = None, in_group: bool = True
    ) -> Any:
        """Reduce as `allreduce`, then split evenly along `axis`: rank r gets part r.

        All members call it, with `x` of one shape `(..., n * k, ...)` and dtype; returns `(..., k, ...)`.
        Cost: each element of every array is read once, each of the result written once.

        Example:
            >>> session.run("reduce_scatter(np.arange(4), op='max')").values
            [array([0]), array([1]), array([2]), array([3])]
        """
        return self._call("reduce_scatter", x, op, axis, out, in_group=in_group)

    def broadcast(
        self, x: Any | None = None, root: int = 0, *, out: Any | None = None, in_group: bool = True
    ) -> Any:
        """Every member gets a copy of rank `root`'s array, shape `s`, any dtype; a number gives a scalar.

        All members call it. The others pass None, or an array of shape `s` and that dtype, which is only
        compared. `root` gets a copy too, unless its `out` is `x`.
        Cost: each element is read once and written once per member.

        Example:
            >>> session.run("broadcast(np.arange(3) if worker_id == 1 else None, root=1)")
            [0-3] array([0, 1, 2])
        """
        return self._call("broadcast", x, root, out, in_group=in_group)

    def scatter(
        self,
        x: Any | None = None,
        root: int = 0,
        axis: int = 0,
        *,
        out: Any | None = None,
        in_group: bool = True,
    ) -> Any:
        """Split rank `root`'s array of shape `(..., n * k, ...)` evenly along `axis`: rank r gets part r.

        All members call it. The others pass None, or an array of that shape and dtype, which is only
        compared. Returns `(..., k, ...)`: the axis stays, unlike in `Session.scatter`.
        Cost: each element is read once and written once.

        Example:
            >>> session.run("scatter(np.arange(8) if worker_id == 0 else None)").values
            [array([0, 1]), array([2, 3]), array([4, 5]), array([6, 7])]
        """
        return self._call("scatter", x, root, axis, out, in_group=in_group)

    def alltoall(self, x: Any, axis: int = 0, *, out: Any | None = None, in_group: bool = True) -> Any:
        """Split evenly along `axis`, send part j to rank j, join what came in rank order.

        All members call it, with `x` of one shape `(..., n * k, ...)` and dtype; the shape stays.
        Cost: each element is read once and written once.

        Example:
            >>> session.run("alltoall(10 * worker_id + np.arange(4))")[1]
            array([ 1, 11, 21, 31])
        """
        return self._call("alltoall", x, axis, out, in_group=in_group)

    def barrier(self, *, in_group: bool = True) -> None:
        """Return when every member has called it. Cost: the waking of the members; nothing is moved.

        On GPUs it waits for no work, but orders it: what a member queues afterwards, on its current stream,
        runs after what all of them had queued before.
        """
        self._call("barrier", in_group=in_group)

    def send(self, x: Any, to: int) -> None:
        """Hand a copy of `x`, any shape and dtype, to worker `to`; does not wait.

        `to` is an id of the session, as `worker_id`, also with groups, where `root` of a collective is a rank
        in the group: `send` reaches every worker and takes no `in_group`.

        The sender calls it. The other worker takes it with `recv` in the same cell or command; messages of
        one sender arrive in order. One that is not taken by then is reported as an error of the receiver.
        Raises PlaneAborted if the receiver has ended the command already. Cost: one copy.

        Example:
            >>> cell = "send(np.ones(2), to=3) if worker_id == 0 else recv(0) if worker_id == 3 else None"
            >>> session.run(cell)[3]
            array([1., 1.])
        """
        self._call("send", x, to, in_group=False)

    def recv(self, source: int, out: Any | None = None) -> Any:
        """The next array that worker `source` sends to this one; waits for it.

        `source` is an id of the session, as with `send`. The receiver calls it.

        Returns the shape and dtype sent (a NumPy scalar for a number), or `out`. Raises
        PlaneMismatch if `out` differs in them: the message is used up. Cost: with `out` one copy.
        """
        return self._call("recv", source, out, in_group=False)

    def send_to_next_group(self, x: Any) -> None:
        """Hand a copy of `x` to the worker of the same rank in the next group; does not wait.

        Every worker but those of the last group can call it; the other end is `recv_from_prev_group`, in the
        same cell or command. Otherwise as `send`.

        Raises:
            UsageMistake: the worker is in the last group.
        """
        if self.group == self.num_groups - 1:
            raise self._no_group("send_to_next_group", "last", "next", "worker.group + 1 < worker.num_groups")
        self.send(x, self.id + self.group_size)

    def recv_from_prev_group(self, out: Any | None = None) -> Any:
        """The next array that the worker of the same rank in the previous group sends; waits for it.

        Every worker but those of the first group can call it. Otherwise as `recv`.

        Raises:
            UsageMistake: the worker is in the first group.
        """
        if self.group == 0:
            raise self._no_group("recv_from_prev_group", "first", "previous", "worker.group > 0")
        return self.recv(self.id - self.group_size, out)

    def recv_from_worker0(self, out: Any | None = None) -> Any:
        """The next array that worker 0 of the session sends to this one; waits for it. As ``recv(0, out)``.

        Raises:
            UsageMistake: the caller is worker 0 itself.
        """
        if self.id == 0:
            raise UsageMistake(
                "recv_from_worker0 was called on worker 0, which would wait for itself; "
                "call it on the others: if worker_id != 0"
            )
        return self.recv(0, out)

    def _no_group(self, call: str, which: str, neighbour: str, condition: str) -> UsageMistake:
        groups = f"{self.num_groups} groups" if self.num_groups > 1 else "1 group, which is the only one"
        return UsageMistake(
            f"{call} was called on worker {self.id} of group {self.group}, the {which} of {groups}: "
            f"there is no {neighbour} group; call it where {condition}"
        )
