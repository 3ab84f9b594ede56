"""Interrupts what workers execute: for the user of a session, and for threads that wait for its cells."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from disco_magic.core.messages import CellDone
from disco_magic.errors import Failure, Interrupted, WorkerInterrupt, is_told
from disco_magic.session.dispatch import Dispatch
from disco_magic.session.pump import sigint_held_back
from disco_magic.threads.patience import pause
from disco_magic.workers.injection import PAUSES_S

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disco_magic.core.doctor import State
    from disco_magic.session.arguments import Life

__tracebackhide__ = is_told

_LOOK_S: Final = 0.01  # between two checks whether a worker has stopped


class Interrupting(Dispatch):
    """The mixin of `Session` that interrupts workers."""

    def check_present(self) -> None:
        """Raise SessionClosed if the workers can never answer: in the child of a fork."""
        if self.forsaken:
            self._refuse()

    def interrupt(self, workers: Sequence[int] | None = None) -> None:
        """Stop what the workers execute and skip what was sent to them; return at once.

        What was stopped fails with WorkerInterrupt. A worker inside C code stops when that returns.

        Args:
            workers: ids of those to stop; None: all. Workers that wait for them in a collective are released.

        Raises:
            UsageMistake: there is no such worker.
            SessionClosed: the session is a copy in a forked process.

        Example:
            >>> handle = session.run_nowait("while True: pass", workers=[2])
            >>> session.interrupt(workers=[2])
            >>> try:
            ...     handle.wait(timeout=60)
            ... except disco.WorkerError as error:
            ...     error.origin.worker
            2
        """
        chosen = self._chosen(workers)
        self.check_present()
        launcher = self._launcher  # read first: after a restart, the number is of another life
        with sigint_held_back():  # half-way, a worker would be claimed and never struck
            launcher.interrupt(self.ledger.seq, chosen)

    def skip_unbegun(self) -> None:
        """Skip commands that no worker has begun; what the workers execute goes on."""
        launcher = self._launcher  # read first, as in `interrupt`
        with sigint_held_back():
            launcher.skip(self.ledger.seq, self._everybody)

    def see_stopped(self, workers: Sequence[int] | None = None) -> tuple[list[int], list[int]]:
        """Wait a while until workers that `interrupt` has stopped have ended; those that clean up may go on.

        Returns:
            list[int], list[int]: the workers whose threads were given up after 0.9 s, in a call that does not
                return, and those that clean up.
        """
        chosen = self._chosen(workers)
        seq, life = self.ledger.seq, self.life
        stuck: list[int] = []
        for patience_s in PAUSES_S:
            if stuck:
                self.interrupt_through(seq, stuck, life)
            until = time.monotonic() + patience_s
            while (left := self.stopping(chosen, life)) and time.monotonic() < until:
                pause(_LOOK_S)
            stuck = [worker for worker, state in left.items() if state == "stopping"]
        return self.replace_stuck(stuck, life), [worker for worker in left if worker not in stuck]

    def stopping(self, workers: Sequence[int], life: Life) -> Mapping[int, State]:
        """Those of `workers` that were interrupted and have not ended: "stopping" or "cleaning".

        `life`: as in `interrupt_through`.
        """
        launcher = self._launcher
        return launcher.stopping(workers) if life is self.life else {}

    def interrupt_through(self, seq: int, workers: Sequence[int], life: Life | None = None) -> None:
        """Stop `workers` up to command `seq`; a repeated call injects again where that is needed.

        `life`: the session's when `seq` was sent; after a restart, which counts anew, nothing is done.
        """
        launcher = self._launcher  # read before `life`: `open` writes them in the opposite order
        if life is None or life is self.life:
            with sigint_held_back():
                launcher.interrupt(seq, workers)

    def withdraw(self, seq: int, workers: Sequence[int], label: str, life: Life) -> Sequence[int]:
        """Stop the cell `seq`, labelled `label`, as `interrupt_through`, but nothing before it.

        Return the workers that have not begun it: they never will, and are not waited for.
        """
        launcher, pump = self._launcher, self._pump  # read first: `open` writes them after `life`
        if life is not self.life:
            return ()
        unbegun = launcher.withdraw(seq, workers)
        failed = [
            Failure(worker, seq, label, WorkerInterrupt.at(Interrupted.WITHDRAWN), "") for worker in unbegun
        ]
        pump.excuse([CellDone(each.worker, seq, 0.0, (), failure=each) for each in failed])
        return unbegun

    def replace_stuck(self, workers: Sequence[int], life: Life | None = None) -> list[int]:
        """Give workers that ignore an interrupt a new thread with the same registers; return their ids."""
        launcher = self._launcher
        return list(launcher.replace_stuck(workers)) if life is None or life is self.life else []
