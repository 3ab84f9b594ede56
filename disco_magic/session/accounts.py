"""What the workers of a session have done: commands, registers, time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disco_magic.errors import is_told
from disco_magic.session.dispatch import Dispatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.core.stats import SessionStats

__tracebackhide__ = is_told


class Accounts(Dispatch):
    """The `stats()` mixin of `Session`; works while workers are busy or stuck."""

    def stats(self) -> SessionStats:
        """Count what the workers have done since they were started: commands, registers, time.

        Returns:
            One `WorkerStats` per worker and one `DeviceStats` per GPU; displays itself as a table.

        Raises:
            SessionClosed: the session was shut down.

        Cost: under 1 us per register, 3 us where workers have GPUs, and under 1 ms per GPU; keeping the times
        costs the workers nothing while they have commands.

        Example:
            >>> session.put("x", np.zeros(1000))
            >>> session.sync_all()
            >>> session.stats()[2].outstanding
            0
        """
        from disco_magic.core.stats import (  # seldom asked for: takes 4 ms
            SessionStats,
            WorkerStats,
            device_stats,
        )

        if self.closed:
            self._refuse()
        # All from one life of the session: another thread may restart it meanwhile.
        launcher = self._launcher
        accounts = launcher.accounts()

        def act() -> tuple[Sequence[int], list[int]]:  # locked: nothing is sent between the counts
            if self.closed or launcher is not self._launcher:
                self._refuse()
            to_all = self.ledger.seq - self._partial
            return launcher.backlog(), [to_all + others for others in self._partial_to]

        backlog, sent = self._locked(act)
        outstanding = list(map(min, sent, backlog))
        return SessionStats(
            self.id,
            tuple(
                WorkerStats(
                    worker=worker,
                    sent=sent[worker],
                    done=sent[worker] - outstanding[worker],
                    outstanding=outstanding[worker],
                    registers=account.registers,
                    nbytes=account.nbytes,
                    running_s=account.running_s,
                    waiting_s=account.waiting_s,
                    idle_s=account.idle_s,
                    device=account.device,
                    device_nbytes=account.device_nbytes,
                )
                for worker, account in enumerate(accounts)
            ),
            device_stats(accounts),
        )
