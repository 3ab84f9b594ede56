"""Small arrays on the host of which members get the same: one result is made, and copied to each.

`FoldPlan` moves straight to `out` where it may, and finds out first whose memory overlaps whose: that takes
longer than to add small arrays. Here everything has been read before anybody's `out` is written. As there,
all results are complete before any member goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.planes.blocks import Mover, fold
from disco_magic.planes.layout import giver, results, sample
from disco_magic.planes.memory import HOST
from disco_magic.planes.plans import FoldPlan, arrays_of, as_given, rule_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from disco_magic.planes.calls import Call
    from disco_magic.planes.layout import Expected
    from disco_magic.planes.plans import Plan

    Make = Callable[[Sequence[Call], Expected], NDArray[Any]]

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
        wanted = results(self._calls)
        value = self._make(self._calls, next(filter(None, wanted)))
        for rank, (call, expected) in enumerate(zip(self._calls, wanted, strict=True)):
            if expected is None:
                continue
            if call.out is None:
                self._results[rank] = as_given(value.copy(), call, self._calls)
            else:
                if type(call.out) is np.ndarray:
                    call.out[...] = value  # a third of `copyto`'s time; of a subclass it may be its own code
                else:
                    np.copyto(call.out, value)
                self._results[rank] = call.out

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


def _reduced(calls: Sequence[Call], expected: Expected) -> NDArray[Any]:
    rule, arrays = rule_of(calls[0]), arrays_of(calls)
    value = np.empty(expected.shape, expected.dtype)
    if rule is None or not rule.plain:
        Mover(rule).move(fold(arrays, [value]))
        return value
    if expected.dtype.kind in "biu":  # nothing to warn of
        return rule.combine(arrays, value, value)
    with np.errstate(all="ignore"):  # as `Mover.move`, without its blocks and its scratch: 2 us instead of 6
        return rule.combine(arrays, value, value)


def _copied(calls: Sequence[Call], _: Expected) -> NDArray[Any]:
    return sample(calls).copy()


def _joined(calls: Sequence[Call], expected: Expected) -> NDArray[Any]:
    joined = np.empty(expected.shape, expected.dtype)
    arrays = [np.atleast_1d(array) for array in arrays_of(calls)]
    return np.concatenate(arrays, calls[0].axis or 0, out=joined)


_MAKERS: Final[dict[str, Make]] = {
    "allreduce": _reduced,
    "reduce": _reduced,
    "broadcast": _copied,
    "allgather": _joined,
    "gather": _joined,
}
