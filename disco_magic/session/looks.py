"""Looking at a session without waiting for a worker: its registers, and what its workers have done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disco_magic.core.snapshot import Row, SessionSnapshot, merge
from disco_magic.core.stats import SessionStats, WorkerStats
from disco_magic.session.dispatch import Dispatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.session.dref import DRef


class Looks(Dispatch):
    """Mixed into `Session`; everything here works while workers are busy or stuck."""

    def registers(self, *, numbered: bool = False) -> SessionSnapshot:
        """A picture of the named registers, with `numbered` of all; also while workers are busy.

        Never waits for a worker, runs no code of the values. Cost: at most a pass over 65,536 elements per
        register and worker.
        """
        if self.closed:
            self._refuse()
        self.flush()
        return merge(self.id, self._launcher.look(numbered=numbered))

    def picture(self, dref: DRef) -> Row:
        """What one register holds on every worker, as far as they have come; what `DRef.info` calls."""
        register = self.own(dref)
        if self.closed:
            self._refuse()
        return Row(f"#{register}", tuple(self._launcher.look_at(register)))

    def stats(self) -> SessionStats:
        """What the workers have done since they were started: commands, registers, time.

        Returns:
            One `WorkerStats` per worker; shows itself as a table.

        Raises:
            SessionClosed: the session was shut down.

        Cost: under 1 us per register; keeping the times costs the workers nothing while they have commands.
        """
        if self.closed:
            self._refuse()
        # All of one life of the session: another thread may restart it meanwhile.
        launcher = self._launcher
        accounts = launcher.accounts()

        def act() -> tuple[Sequence[int], list[int]]:  # nothing is sent between counting and looking
            if self.closed or launcher is not self._launcher:
                self._refuse()
            return launcher.backlog(), [self.ledger.seq - spared for spared in self._spared]

        backlog, sent = self._turn(act)
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
                )
                for worker, account in enumerate(accounts)
            ),
        )
