"""Which shape and dtype every member of a checked collective gets, and which part of what goes where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from disco_magic.planes.calls import TO_ROOT, Call

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray


class Expected(NamedTuple):
    """What one member gets."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def giver(calls: Sequence[Call]) -> Call:
    """Whose array the result is derived from: the root's for broadcast and scatter, else rank 0's."""
    return calls[calls[0].root or 0] if calls[0].kind not in TO_ROOT else calls[0]


def sample(calls: Sequence[Call]) -> NDArray[Any]:
    """The array the result is derived from."""
    call = giver(calls)
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
    shape = array.shape if first.axis is None else _shape(calls, array.shape, first.axis)
    expected = Expected(shape, array.dtype if first.rule is None else first.rule.result)
    if first.kind in TO_ROOT:
        return [expected if rank == first.root else None for rank in range(size)]
    return [expected] * size


def _shape(calls: Sequence[Call], shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    kind, size = calls[0].kind, len(calls)
    if kind == "alltoall":
        return shape
    if kind in {"allgather", "gather"}:
        length = lengths(calls)[-1]
        return (*shape[:axis], length, *shape[axis + 1 :])
    axis %= len(shape)  # the axis of a scatter's non-root was not counted from the front
    return (*shape[:axis], shape[axis] // size, *shape[axis + 1 :])


def lengths(calls: Sequence[Call]) -> list[int]:
    """Where along the axis each rank's array ends in the joined one."""
    ends, end = [], 0
    for call in calls:
        if call.array is not None:
            end += call.array.shape[call.axis or 0] if call.array.ndim else 1
        ends.append(end)
    return ends


def part(array: NDArray[Any], axis: int, start: int, stop: int) -> NDArray[Any]:
    """The view of `array` between `start` and `stop` along `axis`."""
    return array[(slice(None),) * axis + (slice(start, stop),)]


def split(array: NDArray[Any], axis: int, size: int) -> list[NDArray[Any]]:
    """`size` equal views of `array` along `axis`, in rank order."""
    length = array.shape[axis] // size
    return [part(array, axis, rank * length, (rank + 1) * length) for rank in range(size)]
