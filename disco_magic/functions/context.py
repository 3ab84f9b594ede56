"""The calling worker: who it is, and the collectives it can join.

`disco_magic.worker()` finds it from any function a worker executes; a cell has it as `worker`, and the
verbs as plain functions.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from disco_magic.core.interfaces import Seat
from disco_magic.errors import UsageMistake

if TYPE_CHECKING:
    from types import ModuleType

    from disco_magic.core.interfaces import Plane


class Guard(Protocol):
    """The driver's side of a plane call: where we are, and no asynchronous exception meanwhile."""

    def enter(self) -> tuple[int, tuple[int, ...] | None]:
        """Begin a plane call: (sequence number of the command, workers it was sent to or None for all)."""

    def leave(self) -> None:
        """End it; raises WorkerInterrupt if the command was interrupted meanwhile."""


@dataclass(frozen=True, slots=True)
class Topology:
    """Workers and groups: ``group = id // group_size``, rank in the group ``= id % group_size``."""

    num_workers: int
    num_groups: int = 1

    def __post_init__(self) -> None:
        for name, value in (("num_workers", self.num_workers), ("num_groups", self.num_groups)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise UsageMistake(f"{name} is {value!r}, expected a whole number of at least 1")
        if self.num_workers % self.num_groups:
            fits = [n for n in range(1, self.num_workers + 1) if self.num_workers % n == 0]
            raise UsageMistake(
                f"{self.num_workers} workers cannot be split into {self.num_groups} equal groups; "
                f"num_groups can be one of {fits}"
            )

    @property
    def group_size(self) -> int:
        """Workers per group."""
        return self.num_workers // self.num_groups

    def members(self, group: int) -> tuple[int, ...]:
        """Ids of the workers of a group, ascending."""
        start = group * self.group_size
        return tuple(range(start, start + self.group_size))


class WorkerContext:
    """What a function or a cell sees of the worker it runs on.

    Attributes:
        id: the worker's number, 0 .. num_workers - 1; never changes.
        num_workers, num_groups, group_size: the session's topology.
        group, group_rank: the worker's group and its rank inside it.
        device: ``"cpu"``.
        xp: the array module of that device: numpy.
        session_id: number of the session, as ``%disco status`` shows it.

    The collectives must be called by all members of the communicator, in the same order: by the worker's
    group with ``in_group=True`` (with one group: all workers), by all workers of the session with
    ``in_group=False``; by each in its own thread. `n` is the number of members, `root` a rank among them.

    Arrays may have any strides and any dtype without Python objects; numbers and lists are taken as arrays.
    The result is a fresh array of native byte order, or `out`, which needs the result's exact shape and
    dtype, may be the input itself, and costs one more copy if it is not contiguous or overlaps an input in
    part. What is not reduced is moved exactly; of a reduction all members get the same bits.

    Each raises
      * UsageMistake if the caller's own arguments are wrong, or the command was sent to some members only;
        the others are not disturbed, the caller may call again.
      * PlaneMismatch if the calls do not fit together (verb, shape, dtype, op, root, axis, out, lengths that
        `n` does not divide), or members wait for each other in a circle. All members; nothing was written.
      * PlaneAborted if a member failed or finished without joining; WorkerInterrupt if interrupted.

    Small arrays cost the waking of the members, 20-40 us each (2 cores); big ones what the verb says.
    """

    def __init__(
        self,
        worker: int,
        topology: Topology,
        plane: Plane,
        guard: Guard,
        *,
        session_id: int = 0,
        device: str = "cpu",
        xp: ModuleType = np,
    ) -> None:
        self.id = worker
        self.num_workers = topology.num_workers
        self.num_groups = topology.num_groups
        self.group_size = topology.group_size
        self.group = worker // topology.group_size
        self.group_rank = worker % topology.group_size
        self.device = device
        self.xp = xp
        self.session_id = session_id
        self._plane = plane
        self._guard = guard
        self._group_members = topology.members(self.group)
        self._everybody = tuple(range(topology.num_workers))

    @property
    def group_id(self) -> int:
        """The worker's group; another name for `group`."""
        return self.group

    def __repr__(self) -> str:
        groups = f", group {self.group} of {self.num_groups}" if self.num_groups > 1 else ""
        return f"<worker {self.id} of {self.num_workers}{groups} on {self.device}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> WorkerContext:
        return self  # a handle, not a value: a copy would not be a worker

    def _call(self, verb: str, *arguments: Any, in_group: bool) -> Any:
        scope, present = self._guard.enter()  # outside of try: what did not begin must not be left
        try:
            members = self._group_members if in_group else self._everybody
            return getattr(self._plane, verb)(Seat(self.id, members, scope, present), *arguments)
        finally:
            self._guard.leave()

    def allreduce(self, x: Any, op: str = "sum", *, out: Any | None = None, in_group: bool = True) -> Any:
        """Element-wise reduction over the members; every member gets the result.

        Args:
            x: array or number, shape `s`, any numeric or bool dtype; the same shape and dtype everywhere.
            op: ``"sum"``, ``"prod"``, ``"min"``, ``"max"`` or ``"avg"``. Integers wrap as in NumPy; float16
                and bfloat16 accumulate in float32 and are rounded once; avg of integers gives float64.
            out: array of shape `s` that takes the result; may be `x` itself.
            in_group: the worker's group only, or all workers.

        Returns:
            Array of shape `s` (`out` if given); a NumPy scalar if `x` was a scalar.

        Cost: each element of every member's array is read once, each of the result written once per member.
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
        """
        return self._call("reduce_scatter", x, op, axis, out, in_group=in_group)

    def broadcast(
        self, x: Any | None = None, root: int = 0, *, out: Any | None = None, in_group: bool = True
    ) -> Any:
        """Every member gets a copy of rank `root`'s array, shape `s`, any dtype; a number gives a scalar.

        All members call it. The others pass None, or an array of shape `s` and that dtype, which is only
        compared. `root` gets a copy too, unless its `out` is `x`.
        Cost: each element is read once and written once per member.
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
        """
        return self._call("scatter", x, root, axis, out, in_group=in_group)

    def alltoall(self, x: Any, axis: int = 0, *, out: Any | None = None, in_group: bool = True) -> Any:
        """Split evenly along `axis`, send part j to rank j, join what came in rank order.

        All members call it, with `x` of one shape `(..., n * k, ...)` and dtype; the shape stays.
        Cost: each element is read once and written once.
        """
        return self._call("alltoall", x, axis, out, in_group=in_group)

    def barrier(self, *, in_group: bool = True) -> None:
        """Return when every member has called it. Cost: the waking of the members; nothing is moved."""
        self._call("barrier", in_group=in_group)

    def send(self, x: Any, to: int) -> None:
        """Hand a copy of `x`, any shape and dtype, to worker `to` (id in the session); does not wait.

        The sender calls it. The other worker takes it with `recv` in the same cell or command; messages of
        one sender arrive in order. One that is not taken by then is reported as an error of the receiver.
        Raises PlaneAborted if the receiver has ended the command already. Cost: one copy.
        """
        self._call("send", x, to, in_group=False)

    def recv(self, source: int, out: Any | None = None) -> Any:
        """The next array that worker `source` (id in the session) sends to this one; waits for it.

        The receiver calls it. Returns the shape and dtype sent (a NumPy scalar for a number), or `out`;
        raises PlaneMismatch if `out` differs in them: the message is used up. Cost: with `out` one copy.
        """
        return self._call("recv", source, out, in_group=False)


VERBS = (
    "allreduce",
    "allgather",
    "reduce_scatter",
    "reduce",
    "broadcast",
    "scatter",
    "gather",
    "alltoall",
    "send",
    "recv",
    "barrier",
)

_current: ContextVar[WorkerContext] = ContextVar("disco_magic_worker")
enter_worker = _current.set


def refuse_in_worker(session_id: int, what: str) -> None:
    """Raise UsageMistake if the calling code runs on a worker of that session: it would wait for itself."""
    me = _current.get(None)
    if me is not None and me.session_id == session_id:
        raise UsageMistake(
            f"{what} was called on worker {me.id} of the same session, which would wait for itself; "
            "call it in the notebook, outside of cells and functions that workers execute"
        )


def worker() -> WorkerContext:
    """The worker that executes the calling function.

    Raises:
        UsageMistake: called outside of a worker: from the notebook itself, or from a thread that user code
            started (a worker's collectives belong to its one thread).
    """
    try:
        return _current.get()
    except LookupError:
        raise UsageMistake(
            "disco_magic.worker() was called outside of a worker; call it in a %%disco cell or in a function "
            "given to call_packed, in the worker's own thread"
        ) from None
