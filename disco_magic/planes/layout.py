"""The shape and dtype of each member's result in a checked collective, and which part of what goes where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from disco_magic.planes.calls import TO_ROOT, Call

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray


class Expected(NamedTuple):
    """Shape and dtype of one member's result."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def giver(calls: Sequence[Call]) -> Call:
    """The call whose array the result derives from: for broadcast and scatter the root's, else rank 0's."""
    return calls[calls[0].root or 0] if calls[0].kind not in TO_ROOT else calls[0]


def sample(calls: Sequence[Call]) -> NDArray[Any]:
    """The array the result is derived from."""
    return _array_of(giver(calls))


def axis_of(calls: Sequence[Call]) -> int:
    """The axis, counted from the front of the array that is split or joined."""
    return (calls[0].axis or 0) % max(1, sample(calls).ndim)


def _array_of(call: Call) -> NDArray[Any]:
    """The array of a call that has to bring one."""
    if call.array is None:
        raise AssertionError(f"{call.kind} of rank {call.seat.rank} was accepted without an array")
    return call.array


def results(calls: Sequence[Call]) -> list[Expected | None]:
    """What each rank gets; None for a rank that gets nothing.

    Args:
        calls: the members' calls in rank order; they agree with each other (`checks.verdict`).
    """
    first, size = calls[0], len(calls)
    if first.kind == "barrier":
        return [None] * size
    array = sample(calls)
    if first.kind == "alltoall":
        lengths = (sum(arriving(calls, rank)) for rank in range(size))
        return [Expected(_along(array.shape, first.axis or 0, length), array.dtype) for length in lengths]
    if first.kind == "scatter" and (root := giver(calls)).counts is not None:
        return [Expected(_along(array.shape, root.axis or 0, length), array.dtype) for length in root.counts]
    if first.kind == "reduce_scatter" and first.counts is not None and first.rule is not None:
        dtype = first.rule.result
        return [Expected(_along(array.shape, first.axis or 0, length), dtype) for length in first.counts]
    shape = array.shape if first.axis is None else _shape(calls, array.shape, first.axis)
    expected = Expected(shape, array.dtype if first.rule is None else first.rule.result)
    if first.kind in TO_ROOT:
        return [expected if rank == first.root else None for rank in range(size)]
    return [expected] * size


def _shape(calls: Sequence[Call], shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    kind, size = calls[0].kind, len(calls)
    if kind in {"allgather", "gather"}:
        return _along(shape, axis, sum(arriving(calls)))
    axis %= len(shape)  # the axis of a scatter's non-root was not counted from the front
    return _along(shape, axis, shape[axis] // size)


def _along(shape: tuple[int, ...], axis: int, length: int) -> tuple[int, ...]:
    return (*shape[:axis], length, *shape[axis + 1 :])


def arriving(calls: Sequence[Call], rank: int = 0) -> list[int]:
    """Lengths along the axis of the parts that the member of `rank` gets from each member, in rank order.

    For the verbs that join parts: allgather, gather, alltoall.
    """
    return [_length(call, rank) for call in calls]


def _length(call: Call, rank: int) -> int:
    if call.counts is not None:
        return call.counts[rank]
    if call.array is None or not call.array.ndim:
        return 1
    length: int = call.array.shape[call.axis or 0]
    return length // len(call.seat.members) if call.kind == "alltoall" else length


def part(array: NDArray[Any], axis: int, start: int, stop: int) -> NDArray[Any]:
    """The view of `array` between `start` and `stop` along `axis`."""
    return array[(slice(None),) * axis + (slice(start, stop),)]


def split(array: NDArray[Any], axis: int, size: int) -> list[NDArray[Any]]:
    """`size` equal views of `array` along `axis`, in rank order."""
    return cut(array, axis, [array.shape[axis] // size] * size)


def cut(array: NDArray[Any], axis: int, lengths: Iterable[int]) -> list[NDArray[Any]]:
    """Consecutive views of `array` along `axis`, of these lengths."""
    views, start = [], 0
    for length in lengths:
        views.append(part(array, axis, start, start + length))
        start += length
    return views


def sent(call: Call, axis: int) -> list[NDArray[Any]]:
    """The views of the array of a reduce_scatter or alltoall, or of a scatter's root, one for each rank."""
    array = _array_of(call)
    if call.counts is not None:
        return cut(array, axis, call.counts)
    return split(array, axis, len(call.seat.members))
