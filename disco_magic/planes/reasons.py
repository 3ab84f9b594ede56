"""Why workers have left commands, for members of a collective that arrive afterwards."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from disco_magic.errors import WorkerInterrupt, is_by

if TYPE_CHECKING:
    from disco_magic.errors import Failure

_KEPT: Final = 16


class Reasons:
    """The failures with which workers have left commands; of each worker only so many, as others may idle.

    Args:
        num_workers: number of workers.

    Used with the board's lock held.
    """

    def __init__(self, num_workers: int) -> None:
        # First and last scope that a failure holds for: one stop may skip thousands of commands.
        self._of: list[deque[tuple[int, int, Failure]]] = [deque(maxlen=_KEPT) for _ in range(num_workers)]
        self._through = -1
        self._has_late = False  # whether any is kept of a scope up to that one

    def __len__(self) -> int:
        """How many are kept."""
        return sum(map(len, self._of))

    def keep(self, worker: int, scope: int, last: int, failure: Failure) -> None:
        """Keep why `worker` leaves `scope`; `last`: the scope that it left before."""
        self._has_late |= scope <= self._through
        kept = self._of[worker]
        if kept and kept[-1][1] == last and _is_stop(kept[-1][2]) and _is_stop(failure):
            # The worker did nothing in between: the stop of the earlier command has skipped this one.
            first, _, failure = kept.pop()
            kept.append((first, scope, failure))
            return
        if len(kept) == _KEPT:
            _merge(kept)
        kept.append((scope, scope, failure))

    def of(self, worker: int, scope: int) -> Failure | None:
        """Why a worker has left a scope; None if it finished or is still there."""
        return next((failure for first, last, failure in self._of[worker] if first <= scope <= last), None)

    def forget(self, through: int) -> None:
        """Forget those of scopes that everybody has left.

        Every worker that leaves asks for it, so it looks at all of them only if there is something to forget.
        """
        if through <= self._through and not self._has_late:
            return
        self._through, self._has_late = max(through, self._through), False
        for kept in self._of:
            while kept and kept[0][1] <= through:
                kept.popleft()


def _merge(kept: deque[tuple[int, int, Failure]]) -> None:
    """Make one of the two oldest failures in commands that follow each other, so that none is forgotten."""
    for place in range(len(kept) - 1):
        (first, last, failure), (following, end, _) = kept[place], kept[place + 1]
        if following == last + 1:
            kept[place] = first, end, failure
            del kept[place + 1]
            return


def _is_stop(failure: Failure) -> bool:
    return is_by(failure, WorkerInterrupt)
