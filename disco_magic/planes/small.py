"""Small arrays on the host of which members get the same: the last to arrive makes it, each takes its copy.

`FoldPlan` writes all results before it wakes anybody, and has to find out first whose memory overlaps whose.
Here everything was read before anybody's `out` is written, and each member writes its own when it was woken.
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

SMALL_NBYTES: Final = 512 * 1024
"""Of all members' arrays together. Measured with 4 threads on 2 cores: never slower, up to 4 MiB."""


class OnePlan:
    """One result for all who get one; implements `disco_magic.planes.plans.Plan`.

    Args:
        calls: the members' calls in rank order; `checks.verdict` found nothing wrong with them.
        make: makes the result of them, an array that nobody else has.
    """

    __slots__ = ("_make", "_value", "calls")

    def __init__(self, calls: Sequence[Call], make: Callable[[Sequence[Call]], NDArray[Any] | None]) -> None:
        self.calls = calls
        self._make = make
        self._value: NDArray[Any] | None = None

    def run(self) -> None:
        """Make the result."""
        self._value = self._make(self.calls)

    def result(self, rank: int) -> Any:
        """The caller's copy of it; to be called by the member of `rank`, after it was made."""
        value, call = self._value, self.calls[rank]
        if value is None or (call.kind in TO_ROOT and call.root != rank):
            return None
        if call.out is not None:
            np.copyto(call.out, value)
            return call.out
        if call.kind not in TO_ROOT:
            value = value.copy()
        source = giver(self.calls) if call.kind == "broadcast" else call
        return value[()] if source.scalar and value.ndim == 0 else value


def plan_of(calls: Sequence[Call]) -> Plan:
    """What is to be done for `calls`, which fit together, in memory that all members reach."""
    make = _MAKERS.get(calls[0].kind)
    if make is None or (make is not _nothing and not _is_small(calls)):
        return FoldPlan(calls)
    return OnePlan(calls, make)


def _is_small(calls: Sequence[Call]) -> bool:
    source = giver(calls)
    return source.memory is HOST and sum(c.array.nbytes for c in calls if c.array is not None) <= SMALL_NBYTES


def _nothing(calls: Sequence[Call]) -> None:
    """Of a barrier."""


def _reduced(calls: Sequence[Call]) -> NDArray[Any]:
    arrays: list[Any] = [call.array for call in calls]
    shape = arrays[0].shape
    if not shape:
        arrays = [array.reshape(1) for array in arrays]
    made = reduction(calls[0].kind, calls[0].op or "", arrays[0].dtype)
    value = np.empty(arrays[0].shape, made.result)
    # As `Mover` has it: an overflow belongs to all members together.
    with np.errstate(all="ignore"):
        if made.plain:
            made.fold(arrays, (value,), value[np.newaxis])
        else:
            made.fold(arrays, (value,), np.empty((2, *value.shape), made.accumulator))
    return value if shape else value.reshape(shape)


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


_MAKERS: Final[dict[str, Callable[[Sequence[Call]], NDArray[Any] | None]]] = {
    "barrier": _nothing,
    "allreduce": _reduced,
    "reduce": _reduced,
    "broadcast": _copied,
    "allgather": _joined,
    "gather": _joined,
}
