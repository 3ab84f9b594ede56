"""Each verb as NCCL's calls, on the calling thread's current stream; nothing here waits.

NCCL moves contiguous runs. Verbs that cut or join along another axis than the first go through an array of
runs, ``(n, *part)``, which costs one more copy on the GPU. What NCCL has no call for is sends and receives
that start together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from disco_magic.planes.layout import lengths, part, sample, split
from disco_magic.planes.wire import BYTES, wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from disco_magic.planes.calls import Call


class _Part:
    """What one member does of one collective."""

    def __init__(self, communicator: Any, calls: Sequence[Call], rank: int, target: Any) -> None:
        self.communicator = communicator
        self.calls = calls
        self.rank = rank
        self.call = calls[rank]
        self.array: Any = self.call.array
        self.target = target
        self.size = len(calls)
        self.xp = self.call.memory.cupy  # type: ignore[attr-defined]  # only arrays of cupy come here
        self.nccl = self.xp.cuda.nccl
        self.stream = self.xp.cuda.get_current_stream().ptr

    @property
    def axis(self) -> int:
        """The axis in the terms of the array that is split or joined."""
        return (self.calls[0].axis or 0) % max(1, sample(self.calls).ndim)

    # --- reductions ------------------------------------------------------------------------------

    def allreduce(self) -> None:
        self._reduce(self.array, self.target, self.communicator.allReduce)

    def reduce(self) -> None:
        def to_root(*arguments: int) -> None:
            *others, stream = arguments
            self.communicator.reduce(*others, self.call.root, stream)

        self._reduce(self.array, self.target, to_root)

    def reduce_scatter(self) -> None:
        self._reduce(self._in_runs(self.array), self.target, self.communicator.reduceScatter, self.size)

    def _reduce(self, source: Any, target: Any, call: Callable[..., None], share: int = 1) -> None:
        how = wire(self.call.kind, self.call.op or "", source.dtype)
        if how.dtype is not None:
            source = source.astype(how.dtype)
        count = source.size // share * how.per_element
        # The root alone has a target of a reduce.
        call(
            source.data.ptr,
            target.data.ptr if target is not None else 0,
            count,
            how.code,
            how.op,
            self.stream,
        )
        if how.divide and target is not None:
            target /= self.size

    # --- moves -----------------------------------------------------------------------------------

    def broadcast(self) -> None:
        source = self.array if self.rank == self.call.root else self.target
        self.communicator.broadcast(
            source.data.ptr, self.target.data.ptr, self.target.nbytes, BYTES, self.call.root, self.stream
        )

    def allgather(self) -> None:
        if (
            self._joins_runs()
            and len({call.array.shape for call in self.calls if call.array is not None}) == 1
        ):
            array = self.array
            self.communicator.allGather(
                array.data.ptr, self.target.data.ptr, array.nbytes, BYTES, self.stream
            )
            return
        runs = self._runs()
        with _Together(self.nccl):
            for rank, run in enumerate(runs):
                self._send(self.array, rank)
                self._receive(run, rank)
        self._join(runs)

    def gather(self) -> None:
        root = self.call.root or 0
        runs = self._runs() if self.rank == root else []
        with _Together(self.nccl):
            self._send(self.array, root)
            for rank, run in enumerate(runs):
                self._receive(run, rank)
        self._join(runs)

    def scatter(self) -> None:
        root = self.call.root or 0
        source = self._in_runs(self.array) if self.rank == root else None
        with _Together(self.nccl):
            if source is not None:
                for rank, run in enumerate(self._cut(source)):
                    self._send(run, rank)
            self._receive(self.target, root)

    def alltoall(self) -> None:
        source = self._in_runs(self.array)
        straight = self.axis == 0
        arrived = self.target if straight else self.xp.empty(source.shape, source.dtype)
        with _Together(self.nccl):
            for rank, (going, coming) in enumerate(zip(self._cut(source), self._cut(arrived), strict=True)):
                self._send(going, rank)
                self._receive(coming, rank)
        if not straight:
            for rank, section in enumerate(split(self.target, self.axis, self.size)):
                section[...] = arrived[rank]

    # --- runs ------------------------------------------------------------------------------------

    def _in_runs(self, array: Any) -> Any:
        """`array` such that the parts along the axis lie one after the other."""
        if self.axis == 0:
            return array
        parts = split(array, self.axis, self.size)
        runs = self.xp.empty((self.size, *parts[0].shape), array.dtype)
        for rank, each in enumerate(parts):
            runs[rank] = each
        return runs

    def _cut(self, runs: Any) -> Iterator[Any]:
        """The parts of an array whose first axis is divided evenly."""
        length = runs.shape[0] // self.size
        return (runs[rank * length : (rank + 1) * length] for rank in range(self.size))

    def _joins_runs(self) -> bool:
        return all(length == 1 for length in self.target.shape[: self.axis])

    def _runs(self) -> list[Any]:
        """Where each member's array arrives: in the target itself, if it is a run there."""
        arrays = [call.array for call in self.calls]
        if self._joins_runs():
            return self._sections()
        return [self.xp.empty(array.shape, array.dtype) for array in arrays if array is not None]

    def _join(self, runs: list[Any]) -> None:
        if not runs or self._joins_runs():
            return
        for run, section in zip(runs, self._sections(), strict=True):
            section[...] = run

    def _sections(self) -> list[Any]:
        ends = lengths(self.calls)
        starts = [0, *ends[:-1]]
        return [part(self.target, self.axis, start, end) for start, end in zip(starts, ends, strict=True)]

    def _send(self, array: Any, rank: int) -> None:
        self.communicator.send(array.data.ptr, array.nbytes, BYTES, rank, self.stream)

    def _receive(self, array: Any, rank: int) -> None:
        self.communicator.recv(array.data.ptr, array.nbytes, BYTES, rank, self.stream)


class _Together:
    """NCCL's calls in its body start at once, at the end of it: no send waits for the receives after it."""

    def __init__(self, nccl: Any) -> None:
        self._nccl = nccl

    def __enter__(self) -> None:
        self._nccl.groupStart()

    def __exit__(self, *_: object) -> None:
        self._nccl.groupEnd()  # also after an error: the thread would stay in the group for ever


def start(communicator: Any, calls: Sequence[Call], rank: int, target: Any) -> None:
    """Queue the part of `rank` of a collective on the calling thread's current stream.

    Args:
        communicator: of that member.
        calls: of all members in rank order; they fit together.
        rank: whose part.
        target: where its result goes, contiguous; None if it gets none.
    """
    mine = _Part(communicator, calls, rank, target)
    if sample(calls).size or len({call.array.size for call in calls if call.array is not None}) > 1:
        getattr(mine, calls[0].kind)()
