"""The calling worker: who it is. What it can do with others is in `collectives`.

`disco_magic.worker()` returns it in any function that a worker executes; cells have it as `worker`, and its
verbs as plain functions.
"""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from disco_magic.callers.callers_worker import CallersWorker
from disco_magic.callers.current import become, calling_worker
from disco_magic.core.topology import axes_of
from disco_magic.errors import UsageMistake
from disco_magic.errors.mistakes import about
from disco_magic.functions.affinity import bind_thread
from disco_magic.functions.agreeing import Agreeing
from disco_magic.functions.asked_for import AskedFor
from disco_magic.functions.marks import Marks
from disco_magic.functions.naming import Naming
from disco_magic.functions.places import HOST_PLACE
from disco_magic.functions.point_to_point import PointToPoint
from disco_magic.functions.process_groups.groups import Verbs
from disco_magic.functions.process_groups.messages import Messages
from disco_magic.functions.process_groups.work import Work
from disco_magic.functions.stepping import Stepping
from disco_magic.isolation import own_folders
from disco_magic.offers import Offers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.core.interfaces import Plane
    from disco_magic.core.place import Place
    from disco_magic.core.topology import Topology
    from disco_magic.functions.calling import Guard


class WorkerContext(Agreeing, PointToPoint, Naming, Stepping, Offers):
    """A worker, as seen by the functions and cells that it executes.

    Attributes:
        id: the worker's number, 0 .. num_workers - 1; never changes.
        num_workers, num_groups, group_size: the session's topology.
        group, group_rank: the worker's group and its rank inside it.
        mesh: the session's `Mesh`, axis -> length; false if it has none.
        place: where its arrays are and its work is queued.
        device: where that is, ``"cpu"`` or ``"cuda:0"``.
        xp: the array module of that device: numpy or cupy.
        session_id: number of the session, as ``%disco status`` shows it.
        cpu_core: the core that the worker is bound to; None: any.
        thread: identity of the thread that runs it now; changes when a thread is given up.
        marks: which of its registers are meant to be equal on all workers.
        passed: how often each `check` of the running cell has passed, by its code and offset.
        bound: names that the last cell with ``--check`` has bound.
        recorder: what it did and when.
        asking: the question that it asks the user now, ``input('name? ')``; empty if it asks none.
        belongings: the worker's own instances of what a process has only once, see `per_worker`.
    """

    _not_offered = frozenset(
        {
            "asking",
            "belongings",
            "bound",
            "command",
            "keep_bound",
            "marks",
            "namespace",
            "passed",
            "place",
            "recorder",
            "rendezvous",
            "thread",
            "waits_for_me",
        }
    )
    _beside = tuple(
        verb.__code__.co_filename
        for verb in (
            Agreeing.check,
            Agreeing.allreduce_tree,
            Agreeing.broadcast_object,
            PointToPoint.send_to_next_group,
            Verbs.allreduce,
            Messages.send,
            Work.wait,
        )
    )

    def __init__(
        self,
        worker: int,
        topology: Topology,
        plane: Plane,
        guard: Guard,
        *,
        session_id: int = 0,
        place: Place = HOST_PLACE,
    ) -> None:
        super().__init__(worker, topology, plane, guard, place)
        self.device = str(place.device)
        self.xp = place.xp
        self.session_id = session_id
        self._be_asked()
        self._asked_for = AskedFor()
        self.cpu_core: int | None = None
        self._bound_thread = 0
        self.thread = 0
        self.marks = Marks()
        self.belongings: dict[object, Any] = {}
        self.passed = {}
        self.asking = ""
        self.bound: frozenset[str] = frozenset()

    @property
    def namespace(self) -> dict[str, Any]:
        """The dictionary of its cells' global variables."""
        return self.marks.namespace

    @property
    def group_id(self) -> int:
        """The worker's group; another name for `group`."""
        return self.group

    @property
    def worker_id(self) -> int:
        """Disco's name for `id`."""
        return self.id

    @property
    def worker_rank(self) -> int:
        """Disco's other name for `id`: the rank among all workers; `group_rank` is the one in the group."""
        return self.id

    @property
    def world_size(self) -> int:
        """What other libraries call `num_workers`."""
        return self.num_workers

    def replicated(self, *values: Any, over: str | Sequence[str] | None = None) -> Any:
        """Mark registers as meant to be equal on all workers, bit for bit; changes and compares nothing.

        ``w = worker.replicated(w)`` marks the name `w`: a later cell may bind it anew or change the array in
        place; `del` removes the mark. `%%disco --check values` and ``session.check(values=True)`` compare
        what marked registers hold. All workers that have the register have to mark it. Parameters that a plan
        replicates are marked when they get a name.

        A part of a register is marked where it is, by ``worker.replicated(model.norm.weight)`` for example,
        or in a loop over a model's parameters; a later cell may put another value there.

        Args:
            *values: arrays, containers of them, or anything else that a register or a part of one holds or is
                about to hold; numbers and text only where the result is assigned to a name, as above.
            over: axes of the mesh along which it is meant to be equal, for workers that share all other
                coordinates. ``over="dp"`` is for shards that every replica has. None: on all workers.

        Returns:
            The value; several as a tuple: ``w, b = worker.replicated(w, b)``.

        Raises:
            UsageMistake: no value, or a number whose register is unknown, or a name that begins with an
                underscore, which is no register; `over` names no axes of the mesh.

        Cost: tens of microseconds; 10 us per later cell of the worker. A value without a name is searched for
        in all registers, 10,000 parts of each at most, when the cell ends: about 10 us per part.

        Example:
            >>> session.run("w = worker.replicated(np.zeros(2)); w[0] = worker_id // 3").errors
            {}
            >>> report = session.check("w", values=True)
            >>> bool(report), report["w"].aspects
            (False, ('value',))
        """
        if not values:
            raise UsageMistake("worker.replicated needs a value: `w = worker.replicated(w)`")
        axes: tuple[str, ...] = ()
        if over is not None:
            with about("worker.replicated"):
                axes = self.mesh.in_order(axes_of(over))
            axes = axes if len(axes) < len(self.mesh) else ()
        self.marks.add_result(values, sys._getframe(1), axes)  # noqa: SLF001 - the caller has the name
        return values[0] if len(values) == 1 else values

    def bind_to_cpu_core(self, core: int) -> None:
        """Let the worker run on one CPU core only, from now on, even after its thread is replaced.

        The worker itself calls it. Threads that its code starts afterwards inherit the binding; existing
        ones, such as those of a BLAS library, do not. It ends with the session's `restart`. Costs 1 us.

        Args:
            core: as Linux numbers them, from 0.

        Raises:
            UsageMistake: there is no such core, this process may not use it, or the system is not Linux.
        """
        bind_thread(core)
        self.cpu_core, self._bound_thread = core, threading.get_native_id()

    def keep_bound(self) -> None:
        """Bind the calling thread if it has taken over a worker that is bound.

        If the process has lost that core meanwhile, the worker goes on without a binding.
        """
        core = self.cpu_core
        if core is not None and threading.get_native_id() != self._bound_thread:
            self.cpu_core = None
            with suppress(UsageMistake):
                self.bind_to_cpu_core(core)

    def __repr__(self) -> str:
        groups = f", group {self.group} of {self.num_groups}" if self.num_groups > 1 else ""
        groups += "".join(f", {name}={place}" for name, place in self.coordinates.items())
        return f"<worker {self.id} of {self.num_workers}{groups} on {self.device}>"

    def __call__(self) -> WorkerContext:
        """Return the worker itself: code written for files, ``worker().id``, can be pasted into a cell."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> WorkerContext:
        return self  # a handle, not a value: a copy would not be a worker


BEHIND = ("np", "num_workers", "worker", "worker_id", "xp")
"""What else cells find without import."""

# What cells see as plain functions.
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
    "probe",
    "iprobe",
    "barrier",
    "broadcast_object",
    "allgather_objects",
    "send_object",
    "allreduce_tree",
)


def enter_worker(context: WorkerContext) -> None:
    """Make the calling code run as that worker; its thread may be a new one."""
    become(context)
    if context.passed:
        context.passed = {}
    if context.cpu_core is not None:
        context.keep_bound()
    own_folders.settle(context)
    context.place.enter()  # at every cell: the previous one may have chosen another device or stream


def calling_context() -> WorkerContext | None:
    """Like `calling_worker`, with the type that has the verbs; None outside of workers."""
    return cast("WorkerContext | None", calling_worker())


@CallersWorker
def worker() -> WorkerContext:
    """The worker that executes the calling function, or has started the thread that does.

    Its attributes can be used without a call, as in cells: ``worker.id``, ``worker.check(x)``.

    Only the worker's own thread may call collectives; in other threads they raise UsageMistake.

    Raises:
        UsageMistake: called outside of a worker: from the notebook itself, or after the session has ended.

    Example:
        >>> def greeting():
        ...     me = disco.worker()
        ...     return f"{me.id + 1} of {me.num_workers}"
        >>> session.call_packed(greeting).get_all()
        ['1 of 4', '2 of 4', '3 of 4', '4 of 4']
    """
    me = calling_context()
    if me is None:
        raise UsageMistake(
            "disco_magic.worker() was called outside of a worker; call it in a %%disco cell, in a program "
            "that %disco run executes, or in a function given to call_packed"
        )
    return me
