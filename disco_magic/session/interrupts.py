"""What ends what workers execute: for who holds a session, and for those who wait for its cells."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from disco_magic.core.messages import CellDone
from disco_magic.errors import Failure, Interrupted, WorkerInterrupt, is_told
from disco_magic.injection import PAUSES_S
from disco_magic.session.dispatch import Dispatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.session.arguments import Life

__tracebackhide__ = is_told

_LOOK_S: Final = 0.01  # between two looks whether a worker has stopped


class Interrupting(Dispatch):
    """Mixed into `Session`."""

    def check_present(self) -> None:
        """Raise SessionClosed where the workers can never answer: in the child of a fork."""
        if self.forsaken:
            self._refuse()

    def interrupt(self, workers: Sequence[int] | None = None) -> None:
        """Stop what the workers execute and skip what was sent to them; returns at once.

        What was stopped fails with WorkerInterrupt. A worker that sits in C code ends when that returns.

        Args:
            workers: ids of those that are stopped; None: all. Who waits for them in a collective is released.

        Raises:
            UsageMistake: there is no such worker.
            SessionClosed: what it says.
        """
        chosen = self._everybody if workers is None else self.check_workers(workers)
        self.check_present()
        launcher = self._launcher  # first: a restart meanwhile must not be told a number of the life before
        launcher.interrupt(self.ledger.seq, chosen)

    def skip_unbegun(self) -> None:
        """Skip what was sent and no worker has begun, as `interrupt`; what they execute goes on."""
        launcher = self._launcher  # first, as there
        launcher.skip(self.ledger.seq, self._everybody)

    def see_stopped(self, workers: Sequence[int] | None = None) -> tuple[list[int], list[int]]:
        """Wait for a while until what `interrupt` has told to stop has ended; who cleans up is left alone.

        Returns:
            list[int], list[int]: whose threads were given up after 0.9 s, in a call that does not return, and
                who cleans up.
        """
        chosen = self._everybody if workers is None else self.check_workers(workers)
        seq, life, clock = self.ledger.seq, self.life, threading.Event()
        stuck: list[int] = []
        for pause in PAUSES_S:
            if stuck:
                self.interrupt_through(seq, stuck, life)
            until = time.monotonic() + pause
            while (left := self._stopping(chosen, life)) and time.monotonic() < until:
                clock.wait(_LOOK_S)
            stuck = [worker for worker, state in left.items() if state == "stopping"]
        return self.replace_stuck(stuck, life), [worker for worker in left if worker not in stuck]

    def _stopping(self, workers: Sequence[int], life: Life) -> dict[int, str]:
        """Those of `workers` that were interrupted and have not ended yet, and whether they clean up."""
        places = self.diagnosis().positions if life is self.life else ()
        chosen = [each for each in places if each.worker in workers]
        return {each.worker: each.state for each in chosen if each.state in ("stopping", "cleaning")}

    def interrupt_through(self, seq: int, workers: Sequence[int], life: Life | None = None) -> None:
        """Stop `workers` as far as command `seq`; a repeated call injects again where that is needed.

        `life`: of the session when `seq` was sent; a restart begins at equal numbers, then nothing is done.
        """
        launcher = self._launcher  # before the look at the life: `open` writes them the other way round
        if life is None or life is self.life:
            launcher.interrupt(seq, workers)

    def withdraw(self, seq: int, workers: Sequence[int], label: str, life: Life) -> Sequence[int]:
        """Stop the cell `seq`, which is called `label`, as `interrupt_through`, and nothing before it.

        Who has not begun it never will, and is not waited for; that is who is returned.
        """
        launcher, pump = self._launcher, self._pump  # first, as there: `open` writes them after the life
        if life is not self.life:
            return ()
        unbegun = launcher.withdraw(seq, workers)
        failed = [
            Failure(worker, seq, label, WorkerInterrupt.at(Interrupted.WITHDRAWN), "") for worker in unbegun
        ]
        pump.excuse([CellDone(each.worker, seq, 0.0, (), failure=each) for each in failed])
        return unbegun

    def replace_stuck(self, workers: Sequence[int], life: Life | None = None) -> list[int]:
        """Give workers that ignore an interrupt a new thread with the same registers; which ones it was."""
        launcher = self._launcher
        return list(launcher.replace_stuck(workers)) if life is None or life is self.life else []
