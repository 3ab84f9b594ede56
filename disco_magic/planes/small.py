"""Collectives on small host arrays where all get the same result: it is made once and copied for each.

`FoldPlan` writes directly to `out` where it may, but first has to find out which arrays overlap: that takes
longer than adding small arrays. Here everything is read before any `out` is written, and all results are
complete before any member goes on.
"""

from __future__ import annotations

from contextvars import Context
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.planes.blocks import Mover, fold
from disco_magic.planes.calls import TO_ROOT
from disco_magic.planes.layout import giver, results, sample
from disco_magic.planes.memory import HOST
from disco_magic.planes.plans import FoldPlan, arrays_of, as_given

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from disco_magic.planes.calls import Call
    from disco_magic.planes.plans import Plan
    from disco_magic.planes.reductions import Reduction

    Make = Callable[[Sequence[Call]], NDArray[Any]]

SMALL_NBYTES: Final = 512 * 1024
"""Limit for all members' arrays together; larger ones are worth sharing, see `rendezvous.ALONE_NBYTES`."""


class OnePlan:
    """One result for all members that get one; implements `disco_magic.planes.plans.Plan`.

    Args:
        calls: the members' calls in rank order; `checks.verdict` found nothing wrong with them.
        make: makes the result from the calls, as a new array; None for a barrier, which has no result.
    """

    __slots__ = ("_calls", "_make", "_results")

    def __init__(self, calls: Sequence[Call], make: Make | None) -> None:
        self._calls = calls
        self._make = make
        self._results: list[Any] = [None] * len(calls)

    def run(self) -> None:
        """Make the result and each member's copy of it; called by the last member to arrive."""
        if self._make is None:
            return
        calls, given = self._calls, self._results
        value, to_root = self._make(calls), calls[0].kind in TO_ROOT
        for rank, call in enumerate(calls):
            if to_root and rank != call.root:
                continue
            out = given[rank] = call.out
            if out is None:
                given[rank] = as_given(value.copy(), call, calls)
            elif type(out) is np.ndarray:
                out[...] = value  # a third of the time of `copyto`; in a subclass this may run its own code
            else:
                np.copyto(out, value)

    def result(self, rank: int) -> Any:
        """The result of the member of `rank`."""
        return self._results[rank]


def plan_of(calls: Sequence[Call]) -> Plan:
    """The plan for `calls`, which fit together, in memory that all members can access."""
    kind = calls[0].kind
    if kind == "barrier":
        return OnePlan(calls, None)
    if kind in _MAKERS and _are_small(calls):
        return OnePlan(calls, _MAKERS[kind])
    return FoldPlan(calls)


def _are_small(calls: Sequence[Call]) -> bool:
    nbytes = 0
    for call in calls:
        if call.array is not None:
            nbytes += call.array.nbytes
    return nbytes <= SMALL_NBYTES and giver(calls).memory is HOST


def _reduced(calls: Sequence[Call]) -> NDArray[Any]:
    rule, arrays = calls[0].rule, arrays_of(calls)
    if rule is None:
        raise AssertionError(f"{calls[0].kind} was accepted without a reduction")
    value = np.empty(arrays[0].shape, rule.result)
    if rule.plain:  # as `Mover.move`, but without blocks and scratch memory: 1.5 us instead of 6
        reduced = quietly(rule, arrays, value)
        return reduced.copy() if reduced is arrays[0] else reduced  # of one member; `out` may overlap it
    Mover(rule).move(fold(arrays, [value]))
    return value


def _quiet_context() -> Context | None:
    """A context in which NumPy does not warn; None where NumPy keeps this setting per thread (before 2.0)."""
    context = Context()
    with np.errstate(all="warn"):
        context.run(np.seterr, all="ignore")
        return context if np.geterr()["over"] == "warn" else None


_QUIET = _quiet_context()


def quietly(rule: Reduction, arrays: Sequence[NDArray[Any]], value: NDArray[Any]) -> NDArray[Any]:
    """Call ``rule.combine`` into `value` without warnings, see `Mover.move`.

    Only for plain arrays, so that no user code runs in a foreign context. Copying one takes 0.1 us,
    `numpy.errstate` 0.8.
    """
    if _QUIET is not None:
        return _QUIET.copy().run(rule.combine, arrays, value, value)
    with np.errstate(all="ignore"):
        return rule.combine(arrays, value, value)


def _copied(calls: Sequence[Call]) -> NDArray[Any]:
    return sample(calls).copy()


def _joined(calls: Sequence[Call]) -> NDArray[Any]:
    shape, dtype = next(filter(None, results(calls)))
    arrays = [np.atleast_1d(array) for array in arrays_of(calls)]
    return np.concatenate(arrays, calls[0].axis or 0, out=np.empty(shape, dtype))


_MAKERS: Final[dict[str, Make]] = {
    "allreduce": _reduced,
    "reduce": _reduced,
    "broadcast": _copied,
    "allgather": _joined,
    "gather": _joined,
}
