"""Plans: what has to be moved for one collective whose calls fit together.

Every verb is a list of folds. A fold reduces its sources, or copies its only one, to its targets. Small
arrays take a shorter way, `small`.

    allreduce, reduce   one fold: all arrays -> all results, or the root's
    reduce_scatter      one fold per rank: part r of all arrays -> result r
    broadcast           one fold: the root's array -> all results
    allgather, gather   one fold per rank: array r -> section r of all results, or of the root's
    scatter             one fold per rank: part r of the root's array -> result r
    alltoall            one fold per pair: part j of array i -> section i of result j
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from disco_magic.planes.blocks import LEAST_NBYTES, PIECE_NBYTES, Fold, fold
from disco_magic.planes.layout import arriving, axis_of, cut, giver, results, sample, sent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from disco_magic.planes.calls import Call
    from disco_magic.planes.memory import Memory

    Arrays = Sequence[NDArray[Any]]
    Targets = list[NDArray[Any] | None]

# For these a source may be exactly the memory of a target: an element is read before it is written.
_IN_PLACE = frozenset({"allreduce", "reduce", "broadcast"})


class Plan(Protocol):
    """What is to be done for one collective."""

    def run(self) -> None:
        """Do everything that one member can do for all; called by the last member to arrive."""

    def result(self, rank: int) -> Any:
        """The result of the member of `rank`; called by that member, after `run` or its pieces are done."""


class FoldPlan:
    """Folds and targets of one collective in memory that all members can access.

    Results are allocated here, by the last member to arrive, because some shapes are known only now. That
    maps memory without touching it: the thread that writes a page first faults it in.

    Args:
        calls: the members' calls in rank order; `checks.verdict` found nothing wrong with them.
    """

    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = calls
        self.kind = calls[0].kind
        self.memory = giver(calls).memory
        self.reduction = calls[0].rule
        self.targets = targets_of(calls)
        folds = _FOLDS.get(self.kind)  # a barrier moves nothing
        made = folds(calls, self.targets) if folds is not None else []
        self.folds = [whole for whole in made if whole.targets and whole.sources[0].size]
        self.nbytes = sum(f.nbytes for f in self.folds)
        self.shared = self.memory.shared

    def run(self) -> None:
        """Move everything on the calling thread."""
        self.memory.move(self.folds, self.reduction, self.calls)

    def pieces(self, wanted: int) -> Iterator[Fold]:
        """Cut the folds into parts, about `wanted` of each, that any thread can move in any order."""
        for whole in self.folds:
            even = whole.sources[0].nbytes // wanted
            yield from whole.cut(min(PIECE_NBYTES, max(LEAST_NBYTES, even)))

    def result(self, rank: int) -> Any:
        """The result of the member of `rank`; called by that member, after everything was moved."""
        target, call = self.targets[rank], self.calls[rank]
        if target is None:
            return None
        if call.out is None:
            return as_given(target, call, self.calls)
        if target is not call.out:
            self.memory.copy(call.out, target)
        return call.out


def as_given(array: NDArray[Any], call: Call, calls: Sequence[Call]) -> Any:
    """The result of `call`: a number if its input was one, else `array`."""
    source = giver(calls) if call.kind == "broadcast" else call
    return array[()] if source.scalar and array.ndim == 0 else array


def targets_of(calls: Sequence[Call]) -> Targets:
    """Where each rank's result is written: its `out` if that is usable, else new memory."""
    memory, wanted = giver(calls).memory, results(calls)
    outs = [
        call.out
        for call, expected in zip(calls, wanted, strict=True)
        if expected is not None and call.out is not None
    ]
    clear = _are_clear(outs, calls, memory)
    targets: Targets = []
    for call, expected in zip(calls, wanted, strict=True):
        if expected is None:
            targets.append(None)
        elif call.out is not None and (_is_straight(call.out) if clear else usable(call.out, calls)):
            targets.append(call.out)
        else:
            targets.append(memory.empty(call, expected))
    return targets


def _are_clear(outs: Arrays, calls: Sequence[Call], memory: Memory) -> bool:
    """Whether it is obvious that no out overlaps an array that is read, except in place."""
    if not outs:
        return True
    arrays = list(arrays_of(calls))
    in_place = set(map(id, arrays)) if calls[0].kind in _IN_PLACE else ()
    # Compare the arrays even if no out is added: one written in place may overlap what another member reads.
    arrays += [out for out in outs if id(out) not in in_place]
    return memory.are_apart(arrays)


def usable(out: NDArray[Any], calls: Sequence[Call]) -> bool:
    """Whether results may be written directly to `out`; otherwise they go through memory of our own.

    `out` has to be contiguous and of native byte order, and must not overlap what some member still reads,
    except in place. Memory bounds are compared: an interleaved neighbour costs a copy, never a wrong result.
    """
    if not _is_straight(out):
        return False
    in_place = calls[0].kind in _IN_PLACE
    return not any(
        call.array is not None
        and call.memory.overlap(out, call.array)
        and not (in_place and _same_memory(out, call.array, call.memory))
        for call in calls
    )


def _is_straight(out: NDArray[Any]) -> bool:
    return bool(out.flags.c_contiguous and out.dtype.isnative)


def _same_memory(a: NDArray[Any], b: NDArray[Any], memory: Memory) -> bool:
    if a is b:
        return True
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return memory.address(a) == memory.address(b)


def arrays_of(calls: Sequence[Call]) -> Arrays:
    """The arrays that members bring, in rank order."""
    return [call.array for call in calls if call.array is not None]


def _given(targets: Targets) -> Arrays:
    return [target for target in targets if target is not None]


def _reduce(calls: Sequence[Call], targets: Targets) -> list[Fold]:
    return [fold(arrays_of(calls), _given(targets))]


def _reduce_scatter(calls: Sequence[Call], targets: Targets) -> list[Fold]:
    parts = [sent(call, axis_of(calls)) for call in calls]
    return [fold([mine[rank] for mine in parts], [target]) for rank, target in enumerate(_given(targets))]


def _broadcast(calls: Sequence[Call], targets: Targets) -> list[Fold]:
    source, memory = sample(calls), giver(calls).memory
    return [
        fold([source], [target for target in _given(targets) if not _same_memory(target, source, memory)])
    ]


def _gather(calls: Sequence[Call], targets: Targets) -> list[Fold]:
    axis, lengths = axis_of(calls), arriving(calls)
    sections = [cut(target, axis, lengths) for target in _given(targets)]
    return [
        fold([array if array.ndim else array.reshape(1)], [section[rank] for section in sections])
        for rank, array in enumerate(arrays_of(calls))
    ]


def _scatter(calls: Sequence[Call], targets: Targets) -> list[Fold]:
    parts = sent(giver(calls), axis_of(calls))
    return [fold([parts[rank]], [target]) for rank, target in enumerate(_given(targets))]


def _alltoall(calls: Sequence[Call], targets: Targets) -> list[Fold]:
    axis = axis_of(calls)
    sections = [cut(target, axis, arriving(calls, to)) for to, target in enumerate(_given(targets))]
    return [
        fold([source], [sections[to][rank]])
        for rank, call in enumerate(calls)
        for to, source in enumerate(sent(call, axis))
    ]


_FOLDS: dict[str, Callable[[Sequence[Call], Targets], list[Fold]]] = {
    "allreduce": _reduce,
    "reduce": _reduce,
    "reduce_scatter": _reduce_scatter,
    "broadcast": _broadcast,
    "allgather": _gather,
    "gather": _gather,
    "scatter": _scatter,
    "alltoall": _alltoall,
}
