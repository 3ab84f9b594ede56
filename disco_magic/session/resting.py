"""What needs no message: workers that sleep have done everything, and what they hold can be looked at.

Waking a thread and being woken by it costs 40 to 60 us, the look 2.
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
    """Mixed into `Session`."""

    def _have_rested(self, workers: Sequence[int], timeout: float | Limit | None) -> bool:
        """Whether `workers` have executed everything sent so far and told what came of it; asks nobody.

        No, if somebody has to be asked: the last command went to others only, registers are to be dropped, a
        worker is gone, the session is closed. `timeout` is only looked at: there is nothing to wait for.
        """
        seem = self._seem_at_rest(workers, timeout, "sync")
        return seem and self._locked(lambda: self._are_at_rest(workers))

    def _glance(
        self, register: int, workers: Sequence[int], timeout: float | Limit | None, life: Life
    ) -> dict[int, Any] | None:
        """Worker -> what its register holds, if all of `workers` have rested, and nobody can change it.

        None if that is not so. `life`: the register's; otherwise as `_have_rested`.
        """

        def act() -> dict[int, Any] | None:  # under the lock: nobody sends what would change it
            if life is not self.life or not self._are_at_rest(workers):
                return None
            values = {worker: self._launcher.glance(worker, register) for worker in workers}
            return None if any(value is ABSENT for value in values.values()) else values

        return self._locked(act) if self._seem_at_rest(workers, timeout, "get") else None

    def _seem_at_rest(self, workers: Sequence[int], timeout: float | Limit | None, verb: str) -> bool:
        """Whether the lock is worth it, by one worker: those who were just called wait for this thread.

        Refuses what `Dispatch.ask` would refuse.
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
