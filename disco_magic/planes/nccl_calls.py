"""Each verb as calls of NCCL on the members' streams; nothing here waits.

NCCL moves contiguous runs. Verbs that cut or join along another axis than the first use an array of runs in
between, ``(n, *part)``, which costs one more copy on the GPU. Verbs that NCCL has no call for become sends
and receives that start together. NCCL has numbers for dtypes and operations, and cannot reduce all arrays.

While a member's part runs, its GPU waits for the others. Steps that could wait for the GPU itself, such as
allocating memory or loading a kernel on its first use, come before or after the start of all parts:

    ready      by each member, before they meet: the array as NCCL takes it
    allocate   by the last to arrive, for all: memory for what arrives
    start      by the last to arrive, for all: NCCL's calls
    finish     by each member: the result as the caller gets it, queued after these calls
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from disco_magic.errors import UsageMistake
from disco_magic.planes.calls import GATHERING, REDUCING, SPLITTING
from disco_magic.planes.layout import Expected, arriving, axis_of, cut, sent, split
from disco_magic.planes.plans import arrays_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from disco_magic.planes.calls import Call


_JOINING: Final = GATHERING | {"alltoall"}


def ready(call: Call) -> Any:
    """The caller's array as NCCL takes it: in runs or parts, converted; queued on the current stream.

    An array that cannot be split evenly is left as it is, because the call will be refused.
    """
    array = call.array
    if array is None or (call.kind == "scatter" and call.seat.rank != call.root):  # only the root's is sent
        return array
    axis, xp = call.axis or 0, call.memory.cupy  # type: ignore[attr-defined]  # only arrays of cupy come here
    if call.counts is not None:
        return [_converted(xp.ascontiguousarray(each), call) for each in sent(call, axis)]
    if call.kind in SPLITTING:
        array = _in_runs(array, axis, len(call.seat.members), xp)
    return _converted(array, call)


def _converted(array: Any, call: Call) -> Any:
    if call.kind not in REDUCING:
        return array
    how = wire(call.kind, call.op or "", array.dtype)
    return array if how.dtype is None else array.astype(how.dtype)


def _in_runs(array: Any, axis: int, size: int, xp: Any) -> Any:
    """Lay out `array` so that its parts along the axis lie one after the other."""
    if axis == 0 or array.shape[axis] % size:
        return array
    parts = split(array, axis, size)
    runs = xp.empty((size, *parts[0].shape), array.dtype)
    for rank, each in enumerate(parts):
        runs[rank] = each
    return runs


class Part:
    """One member's part of one collective.

    Args:
        calls: of all members in rank order, each `ready`; they fit together.
        rank: the member's.
        target: contiguous, for its result; None: it gets none.

    Attributes:
        call: the member's call.
    """

    def __init__(self, calls: Sequence[Call], rank: int, target: Any) -> None:
        self._calls = calls
        self.call = calls[rank]
        self._rank = rank
        self._size = len(calls)
        self._source = self.call.ready
        # From the dtype of the caller's array: NCCL's may have been converted already.
        array, kind = self.call.array, self.call.kind
        self._how: Wire | None = None
        if array is not None and kind in REDUCING:
            self._how = wire(kind, self.call.op or "", array.dtype)
        self._target = target
        # Where the members' arrays arrive if they are copied into the target afterwards.
        self._runs: list[Any] = []
        self._communicator: Any = None
        self._stream = 0

    # --- before ----------------------------------------------------------------------------------

    def allocate(self) -> None:
        """Allocate memory for parts that cannot arrive in the target directly."""
        call = self.call
        if call.kind not in _JOINING or self._target is None or self._joins_runs:
            return
        shapes = [section.shape for section in self._sections()]
        self._runs = [call.memory.empty(call, Expected(shape, self._target.dtype)) for shape in shapes]

    @property
    def _joins_runs(self) -> bool:
        """Whether each part of the target along the axis is contiguous."""
        return all(length == 1 for length in self._target.shape[: axis_of(self._calls)])

    # --- start -----------------------------------------------------------------------------------

    def start(self, communicator: Any, nccl: Any, stream: int) -> None:
        """Queue the part on the member's `stream`. Any thread may: NCCL knows each communicator's GPU."""
        self._communicator = communicator
        self._stream = stream
        if self._how is not None:
            if self.call.counts is not None:
                with Together(nccl):
                    self._reduce_parts(self._how)
            elif self._source.size:
                self._reduce(self._how)
        elif not any(array.size for array in arrays_of(self._calls)):  # all: gathered arrays differ in length
            return
        elif self.call.kind == "broadcast":
            self._broadcast()
        elif self.call.kind == "allgather" and self._gathers_evenly():
            self._gather_evenly()
        else:
            with Together(nccl):
                self._exchange()

    def _reduce(self, how: Wire) -> None:
        kind, to = self.call.kind, self._communicator
        # In a reduce, only the root has a target.
        source, target = self._source.data.ptr, 0 if self._target is None else self._target.data.ptr
        count = self._source.size * how.per_element
        if kind == "allreduce":
            to.allReduce(source, target, count, how.code, how.op, self._stream)
        elif kind == "reduce":
            to.reduce(source, target, count, how.code, how.op, self.call.root, self._stream)
        else:
            to.reduceScatter(source, target, count // self._size, how.code, how.op, self._stream)

    def _reduce_parts(self, how: Wire) -> None:
        """A reduce_scatter of parts of any length: one to each root. Empty ones are skipped by all."""
        target = self._target.data.ptr
        for rank, part in enumerate(self._source):
            if count := part.size * how.per_element:
                to = target if rank == self._rank else 0
                self._communicator.reduce(part.data.ptr, to, count, how.code, how.op, rank, self._stream)

    def _broadcast(self) -> None:
        source = self._source if self._rank == self.call.root else self._target
        self._communicator.broadcast(
            source.data.ptr, self._target.data.ptr, self._target.nbytes, BYTES, self.call.root, self._stream
        )

    def _gathers_evenly(self) -> bool:
        return self._joins_runs and len({array.shape for array in arrays_of(self._calls)}) == 1

    def _gather_evenly(self) -> None:
        self._communicator.allGather(
            self._source.data.ptr, self._target.data.ptr, self._source.nbytes, BYTES, self._stream
        )

    def _exchange(self) -> None:
        """Queue sends and receives for a verb that NCCL has no call for."""
        kind, root = self.call.kind, self.call.root or 0
        if kind == "allgather":
            going = [(rank, self._source) for rank in range(self._size)]
        elif kind == "gather":
            going = [(root, self._source)]
        elif kind == "scatter" and self._rank != root:
            going = []
        else:
            going = list(enumerate(self._source if self.call.counts is not None else self._cut(self._source)))
        coming = [(root, self._target)] if kind == "scatter" else enumerate(self._arriving())
        # Empty arrays are skipped, as both sides of a pair know: NCCL would synchronize for nothing.
        for rank, array in going:
            if array.size:
                self._communicator.send(array.data.ptr, array.nbytes, BYTES, rank, self._stream)
        for rank, array in coming:
            if array.size:
                self._communicator.recv(array.data.ptr, array.nbytes, BYTES, rank, self._stream)

    def _cut(self, runs: Any) -> Iterator[Any]:
        """The parts of an array whose first axis is divided evenly."""
        length = runs.shape[0] // self._size
        return (runs[rank * length : (rank + 1) * length] for rank in range(self._size))

    def _arriving(self) -> list[Any]:
        """Where each member's array arrives."""
        if self._target is None:
            return []
        return self._runs or self._sections()

    def _sections(self) -> list[Any]:
        """The parts of the target along the axis."""
        return cut(self._target, axis_of(self._calls), arriving(self._calls, self._rank))

    # --- after -----------------------------------------------------------------------------------

    def finish(self) -> Any:
        """Return the result; the last steps for it are queued on the calling thread's current stream."""
        target, call = self._target, self.call
        if target is None:
            return None
        for run, section in zip(self._runs, self._sections() if self._runs else (), strict=True):
            section[...] = run
        if self._how is not None and self._how.divide:
            target /= self._size
        if call.out is None or target is call.out:
            return target
        call.memory.copy(call.out, target)
        return call.out


class Together:
    """Context that groups NCCL's calls: they start together at its end, so that none waits for the next."""

    def __init__(self, nccl: Any) -> None:
        self._nccl = nccl

    def __enter__(self) -> None:
        self._nccl.groupStart()

    def __exit__(self, *_: object) -> None:
        self._nccl.groupEnd()  # also after an error, or the thread would stay in the group for ever


# ncclDataType_t of nccl.h; cupy has no names for all of them.
BYTES: Final = 1
_TYPES: Final = {
    "int8": 0,
    "uint8": 1,
    "int32": 2,
    "uint32": 3,
    "int64": 4,
    "uint64": 5,
    "float16": 6,
    "float32": 7,
    "float64": 8,
    "bfloat16": 9,
    "float8_e4m3fn": 10,
    "float8_e5m2": 11,
}
# ncclRedOp_t.
_OPS: Final = {"sum": 0, "prod": 1, "max": 2, "min": 3, "avg": 4}
# On bytes of 0 and 1: *or*, *and*.
_OF_BOOLS: Final = {"sum": "max", "prod": "min", "min": "min", "max": "max"}


class Wire(NamedTuple):
    """How arrays of one dtype are reduced with one operation.

    Attributes:
        dtype: what arrays are converted to first; None: they are taken as they are.
        code: NCCL's type of the elements that it sees.
        per_element: how many of those one element of the array is.
        op: NCCL's number for the operation.
        divide: whether to divide by the number of members afterwards.
    """

    dtype: np.dtype[np.float64] | None
    code: int
    per_element: int
    op: int
    divide: bool


@lru_cache(maxsize=256)
def wire(verb: str, op: str, dtype: np.dtype[np.generic]) -> Wire:
    """How NCCL reduces arrays of `dtype` with `op`.

    NCCL adds in the arrays' own precision, also float16, and in its own order; all members get the same bits.

    Raises:
        UsageMistake: NCCL cannot reduce them; the message says what to do instead.
    """
    if op == "avg" and dtype.kind in "biu":  # the average is a float64, as on all planes
        return Wire(np.dtype(np.float64), _TYPES["float64"], 1, _OPS["sum"], divide=True)
    if dtype.kind == "b":
        return Wire(None, BYTES, 1, _OPS[_OF_BOOLS[op]], divide=False)
    if dtype.kind == "c":
        if op not in ("sum", "avg"):
            raise UsageMistake(
                f"{verb}: NCCL has no {op} of complex numbers - allgather them and reduce the result"
            )
        return Wire(None, _TYPES[f"float{dtype.itemsize * 4}"], 2, _OPS[op], divide=False)
    code = _TYPES.get(dtype.name)
    if code is None:
        wider = {"int16": "int32", "uint16": "uint32"}.get(dtype.name)
        advice = f"convert with x.astype('{wider}') first" if wider else "convert first"
        raise UsageMistake(f"{verb}: NCCL cannot reduce arrays of dtype {dtype} - {advice}")
    return Wire(None, code, 1, _OPS[op], divide=False)
