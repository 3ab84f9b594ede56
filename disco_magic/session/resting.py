"""Shortcuts without a message: sleeping workers have done everything, and their values can be read directly.

Waking a thread and being woken by it costs 40 to 60 us, this check 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from disco_magic.callers.current import refuse_in_worker
from disco_magic.core.registers import ABSENT
from disco_magic.session.dispatch import Dispatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.session.arguments import Life, Limit


class Resting(Dispatch):
    """The mixin of `Session` with these shortcuts."""

    def _have_rested(self, workers: Sequence[int], timeout: float | Limit | None) -> bool:
        """Whether `workers` have executed everything sent so far and reported the results; sends nothing.

        False if a command is needed: the last command went to others only, registers are to be dropped, a
        worker is gone, or the session is closed. `timeout` is only checked: there is nothing to wait for.
        """
        seem = self._seem_at_rest(workers, timeout, "sync")
        return seem and self._locked(lambda: self._are_at_rest(workers))

    def _glance(
        self, register: int, workers: Sequence[int], timeout: float | Limit | None, life: Life
    ) -> dict[int, Any] | None:
        """Map `workers` to what the register holds there, if all have rested and nothing can change it.

        None otherwise. `life`: the register's; the rest as in `_have_rested`.
        """

        def act() -> dict[int, Any] | None:  # under the lock: no command that would change it can be sent
            if life is not self.life or not self._are_at_rest(workers):
                return None
            values = {worker: self._launcher.glance(worker, register) for worker in workers}
            return None if any(value is ABSENT for value in values.values()) else values

        return self._locked(act) if self._seem_at_rest(workers, timeout, "get") else None

    def _seem_at_rest(self, workers: Sequence[int], timeout: float | Limit | None, verb: str) -> bool:
        """Whether taking the lock is worthwhile, judged by one worker: a busy one needs this thread to wait.

        Raises what `Dispatch.ask` would raise.
        """
        if not self._has_rested(workers[0]):
            return False
        refuse_in_worker(self.id, verb)
        self.patience(timeout)
        return True

    def _are_at_rest(self, workers: Sequence[int]) -> bool:
        if self.closed or self.ledger.lost is not None or self._dying or not self._dead.empty():
            return False
        return all(map(self._has_rested, workers))

    def _has_rested(self, worker: int) -> bool:
        return self._launcher.has_rested(worker, self.ledger.seq)
