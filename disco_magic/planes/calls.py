"""One member's part of a collective: the facts that are compared, and the arrays that are moved."""

from __future__ import annotations

import reprlib
from _thread import allocate_lock
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from disco_magic.callers.sites import site_of
from disco_magic.core.words import plural
from disco_magic.phrases import ranges, who_has
from disco_magic.planes.memory import HOST

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from disco_magic.callers.sites import Site
    from disco_magic.core.seat import Seat, Spot
    from disco_magic.planes.memory import Memory
    from disco_magic.planes.reductions import Reduction

REDUCING = frozenset({"allreduce", "reduce", "reduce_scatter"})
GATHERING = frozenset({"allgather", "gather"})
SPLITTING = frozenset({"reduce_scatter", "scatter", "alltoall"})
FROM_ROOT = frozenset({"broadcast", "scatter"})
TO_ROOT = frozenset({"reduce", "gather"})
ROOTED = FROM_ROOT | TO_ROOT
ALONG_AXIS = GATHERING | SPLITTING


class Call:
    """A collective as one worker called it.

    Attributes:
        kind: the verb, e.g. ``allreduce``.
        seat: who called, with whom, in which command.
        worker: id of the caller.
        spot: where in the user's code the call is.
        memory: where the call's arrays are, if it has any.
        array: the caller's array, C-contiguous; None if the verb takes none from this member.
        scalar: whether the caller gave a number, not an array, and gets a number back.
        op: the reduction, if the verb has one.
        root: the root's rank, if the verb has one.
        axis: the axis, if the verb has one; counted from the front if the caller gave an array.
        counts: the length along the axis of the part for each rank, if parts are not even; of a scatter,
            those of the root decide, of a reduce_scatter all are the same.
        out: where the caller wants the result.
        ready: `array` as NCCL takes it, if NCCL carries the call; with `counts` a list of parts.
        gate: a lock that is held; the caller parks by acquiring it, and the thread that releases it wakes the
            caller. There is one per call, not per worker: a thread that was given up and its replacement have
            the same worker id, and must never wake each other. It costs 0.1 us.
        rule: how `array` is reduced, if the verb has an `op`.
        form: what has to be equal in *plain* calls for them to fit together: verb, `Seat.within`, op, root,
            shape, dtype, memory. A call is plain if nothing else can be wrong, which is the usual case: the
            verb keeps its array's shape, and there is no `out`, or one like the result, on the host writeable
            and with memory of its own, on a GPU contiguous. None: not plain. It describes the arrays as they
            were when the call was made; they must not be reshaped or made read-only until it returns.
    """

    __slots__ = (
        "array",
        "axis",
        "counts",
        "form",
        "gate",
        "kind",
        "memory",
        "op",
        "out",
        "ready",
        "root",
        "rule",
        "scalar",
        "seat",
        "spot",
        "worker",
    )

    def __init__(  # noqa: PLR0917 - see `read_call`
        self,
        kind: str,
        seat: Seat,
        spot: Spot | None,
        memory: Memory,
        array: NDArray[Any] | None = None,
        op: str | None = None,
        rule: Reduction | None = None,
        root: int | None = None,
        axis: int | None = None,
        counts: tuple[int, ...] | None = None,
        out: NDArray[Any] | None = None,
        *,
        scalar: bool = False,
    ) -> None:
        self.kind = kind
        self.seat = seat
        self.worker = seat.worker
        self.spot = spot
        self.memory = memory
        self.array = array
        self.scalar = scalar
        self.op = op
        self.rule = rule
        self.root = root
        self.axis = axis
        self.counts = counts
        self.out = out
        self.ready: Any = None
        self.form: tuple[Any, ...] | None = None
        self.gate = allocate_lock()
        self.gate.acquire()
        if array is None or axis is not None or kind in SPLITTING:
            return
        shape, dtype = array.shape, array.dtype
        if out is not None:
            flags, result = out.flags, dtype if rule is None else rule.result
            if out.shape != shape or out.dtype != result:
                return
            if memory is not HOST:
                if not flags.c_contiguous:
                    return
            elif not flags.owndata or not flags.writeable:
                return
        self.form = kind, seat.within, op, root, shape, dtype, memory

    @property
    def called(self) -> str:
        """The verb that the user called."""
        theirs = self.seat.theirs
        return self.seat.within or self.kind if theirs is None else theirs.verb

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of what the caller brings, as the user knows it; () if it brings nothing."""
        theirs = self.seat.theirs
        if theirs is not None and theirs.shape is not None:
            return theirs.shape
        return () if self.array is None else self.array.shape

    @property
    def given(self) -> tuple[int, ...] | str:
        """`shape`, and of a list of PyTorch's tensors how many these are: ``(2, 3), parts=4``."""
        theirs = self.seat.theirs
        shape = () if self.array is None else self.array.shape
        return shape if theirs is None else theirs.shown(shape)

    @property
    def objects(self) -> int:
        """How many objects are in the user's list, see `Theirs.objects`."""
        return 0 if self.seat.theirs is None else self.seat.theirs.objects

    @property
    def site(self) -> Site:
        """The call's line in the user's code."""
        return site_of(self.spot)

    @property
    def where(self) -> str:
        """`` on cuda``; empty for the host."""
        return "" if self.memory.name == "cpu" else f" on {self.memory.name}"

    def describe(self) -> str:
        """``allreduce(float32 (3,), op=sum)``: the facts that decide whether calls fit."""
        brings = None if self.array is None else f"{self.array.dtype} {self.given}{self.where}"
        over = self.seat.over or None
        if self.seat.theirs is not None:
            brings = plural(self.objects, "object") if self.objects else brings
            return described(self.called, "", brings, op=self.op, root=self.root, over=over)
        counts = None if self.counts is None else reprlib.repr(self.counts)
        facts = {"op": self.op, "root": self.root, "axis": self.axis, "counts": counts, "over": over}
        return described(self.kind, self.seat.within, brings, **facts)


def described(kind: str, within: str, brings: str | None, **facts: object) -> str:
    """A call in words, see `Call.describe`, with its array `brings` and the `facts` that are not None."""
    given = [brings] if brings is not None else ["no array"] if kind in FROM_ROOT else []
    given += [f"{name}={value}" for name, value in facts.items() if value is not None]
    whose = f"{within}'s " if within else ""
    return f"{whose}{kind}({', '.join(given)})"


def describe_array(array: NDArray[Any]) -> str:
    """``float32 (3,)``."""
    return f"{array.dtype} {array.shape}"


def remedy_for_dtypes(calls: Sequence[Call]) -> str:
    """What to do if the dtypes of these calls differ."""
    kinds = {(call.array.dtype.name, call.scalar) for call in calls if call.array is not None}
    if kinds == {("int64", True), ("uint64", True)}:
        return "NumPy reads Python's integers from 2**63 on as uint64: pass np.uint64(x), or floats, on all"
    given = {call.array.dtype for call in calls if call.array is not None}
    if {dtype.kind for dtype in given} in ({"U"}, {"S"}):
        longest = max(given, key=attrgetter("itemsize")).str.lstrip("<>|")
        return (
            f"texts are as long as their dtype says: pass np.array(x, {longest!r}) on all, or send Python's "
            "own with allgather_objects, broadcast_object or send_object"
        )
    return "make the dtypes equal"


def grouped(calls: Iterable[Call]) -> dict[tuple[str, str], list[int]]:
    """(description, site) -> the workers that made this call there."""
    return who_has((call.worker, (call.describe(), str(call.site))) for call in calls)


def table(calls: Iterable[Call]) -> str:
    """One line per distinct call, with the workers that made it."""
    lines = [f"  {ranges(workers)} {text} at {site}" for (text, site), workers in grouped(calls).items()]
    return "\n".join(lines)
