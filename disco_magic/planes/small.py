"""Small arrays on the host of which members get the same: one result is made, and copied to each.

`FoldPlan` moves straight to `out` where it may, and finds out first whose memory overlaps whose: that takes
longer than to add small arrays. Here everything has been read before anybody's `out` is written. As there,
all results are complete before any member goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.planes.calls import TO_ROOT
from disco_magic.planes.layout import giver, lengths, sample
from disco_magic.planes.memory import HOST
from disco_magic.planes.plans import FoldPlan
from disco_magic.planes.reductions import reduction

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from disco_magic.planes.calls import Call
    from disco_magic.planes.plans import Plan

    Make = Callable[[Sequence[Call]], NDArray[Any]]

SMALL_NBYTES: Final = 512 * 1024
"""Of all members' arrays together; more of the work is worth sharing, see `rendezvous.ALONE_NBYTES`."""


class OnePlan:
    """One result for all who get one; implements `disco_magic.planes.plans.Plan`.

    Args:
        calls: the members' calls in rank order; `checks.verdict` found nothing wrong with them.
        make: makes the result of them, an array that nobody else has; None: there is none, of a barrier.
    """

    __slots__ = ("_calls", "_make", "_results")

    def __init__(self, calls: Sequence[Call], make: Make | None) -> None:
        self._calls = calls
        self._make = make
        self._results: dict[int, Any] = {}

    def run(self) -> None:
        """Make the result, and everybody's copy of it; by the last member to arrive."""
        if self._make is None:
            return
        value = self._make(self._calls)
        first = self._calls[0]
        for rank, call in enumerate(self._calls):
            if first.kind in TO_ROOT and rank != first.root:
                continue
            if call.out is not None:
                np.copyto(call.out, value)
                self._results[rank] = call.out
            else:
                mine, source = value.copy(), giver(self._calls) if first.kind == "broadcast" else call
                self._results[rank] = mine[()] if source.scalar and mine.ndim == 0 else mine

    def result(self, rank: int) -> Any:
        """What the member of `rank` gets."""
        return self._results.get(rank)


def plan_of(calls: Sequence[Call]) -> Plan:
    """What is to be done for `calls`, which fit together, in memory that all members reach."""
    kind = calls[0].kind
    if kind == "barrier":
        return OnePlan(calls, None)
    if kind in _MAKERS and _are_small(calls):
        return OnePlan(calls, _MAKERS[kind])
    return FoldPlan(calls)


def _are_small(calls: Sequence[Call]) -> bool:
    nbytes = sum([call.array.nbytes for call in calls if call.array is not None])
    return nbytes <= SMALL_NBYTES and giver(calls).memory is HOST


def _reduced(calls: Sequence[Call]) -> NDArray[Any]:
    arrays: list[Any] = [call.array for call in calls]
    made = reduction(calls[0].kind, calls[0].op or "", arrays[0].dtype)
    value = np.empty(arrays[0].shape, made.result)
    flat = value
    if value.ndim == 0:  # whose parts are no arrays
        flat, arrays = value.reshape(1), [array.reshape(1) for array in arrays]
    # As `Mover` has it: an overflow belongs to all members together.
    with np.errstate(all="ignore"):
        if made.plain:
            made.fold(arrays, (flat,), flat[np.newaxis])
        else:
            made.fold(arrays, (flat,), np.empty((2, *flat.shape), made.accumulator))
    return value


def _copied(calls: Sequence[Call]) -> NDArray[Any]:
    return sample(calls).copy()


def _joined(calls: Sequence[Call]) -> NDArray[Any]:
    arrays: list[Any] = [call.array for call in calls]
    axis, shape = calls[0].axis or 0, arrays[0].shape
    joined = np.empty((*shape[:axis], lengths(calls)[-1], *shape[axis + 1 :]), arrays[0].dtype)
    if not shape:
        joined[:] = arrays
        return joined
    return np.concatenate(arrays, axis, out=joined)


_MAKERS: Final[dict[str, Make]] = {
    "allreduce": _reduced,
    "reduce": _reduced,
    "broadcast": _copied,
    "allgather": _joined,
    "gather": _joined,
}
