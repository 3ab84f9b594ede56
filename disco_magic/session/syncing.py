"""Waits until workers have executed what was sent to them, and raises what failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disco_magic.core.messages import Sync
from disco_magic.errors import SessionClosed, is_told
from disco_magic.session.failures import Failures

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from disco_magic.core.ledger import Ledger
    from disco_magic.session.arguments import Limit

__tracebackhide__ = is_told


class Syncing(Failures):
    """The mixin of `Session`, through `Calls`, that waits for workers."""

    def sync_all(self, timeout: float | None = None) -> None:
        """Wait until all workers have executed everything sent so far.

        Args:
            timeout: seconds to wait at most; None: `self.timeout`.

        Raises:
            WorkerError: something failed since errors were last raised. Failures of a `run_nowait` cell are
                raised by its handle while that is kept, or at the end of the session's `with` block.
            SessionClosed: another thread has shut the session down, or restarted it, before all was done.
            SyncTimeout: says what every worker is doing; they go on.
            KeyboardInterrupt: Ctrl-C or the stop button; says the same.

        Example:
            >>> x = session.call_packed(np.zeros, 1000)          # returns at once
            >>> session.sync_all(timeout=60)                     # now every worker has its zeros
        """
        self._sync(self._everybody, timeout)

    def sync_worker(self, worker: int, timeout: float | None = None) -> None:
        """As `sync_all`, for one worker.

        Example:
            >>> session.sync_worker(2, timeout=60)
        """
        self._sync(self.check_workers((worker,)), timeout)

    def sync_worker_0(self, timeout: float | None = None) -> None:
        """As `sync_all`, for worker 0.

        Example:
            >>> session.sync_worker_0(timeout=60)
        """
        self.sync_worker(0, timeout)

    async def sync_all_async(self, timeout: float | None = None) -> None:
        """As `sync_all`, without blocking the event loop; the wait has a thread, which ends with it.

        Cancelling it ends the await, but stops nothing on the workers.

        Example:
            >>> import asyncio
            >>> asyncio.run(session.sync_all_async(timeout=60))
        """
        from disco_magic.session.awaiting import in_thread  # asyncio: 30 ms, paid only by those who await

        await in_thread(lambda: self.sync_all(timeout))

    def _sync(
        self,
        workers: tuple[int, ...],
        timeout: float | Limit | None,
        verb: str = "sync",
        on_look: Callable[[], None] | None = None,
    ) -> None:
        asked = self.ledger
        known = known_of(asked)
        if not self._have_rested(workers, timeout):
            self._reach(workers, timeout, verb, on_look)
        self.raise_what_failed(asked, known)

    def _reach(
        self,
        workers: tuple[int, ...],
        timeout: float | Limit | None,
        verb: str = "sync",
        on_look: Callable[[], None] | None = None,
    ) -> None:
        self.ask(lambda seq, kills: Sync(seq, kills, workers), workers, timeout, verb, on_look=on_look)

    def raise_what_failed(self, asked: Ledger, known: int) -> None:
        """As `raise_failures`, after a wait that began when the ledger was `asked`, and `known` of it known.

        Raises:
            WorkerError: as there.
            SessionClosed: something has failed, or was cut off, in a life that has ended meanwhile.
        """
        if asked is self.ledger:
            self.raise_failures()
            if not self.closed:
                return
        if known_of(asked) != known:  # who ended the session has logged it
            how = "shut down" if asked is self.ledger and not self._is_restarting else "restarted"
            raise SessionClosed(f"session {self.id} was {how} before everything sent was done")
        self.raise_failures()

    def let_go(self, timeout: float) -> None:
        """As `flush`, and wait until the workers have freed that; failures stay for those who ask later.

        Raises:
            SyncTimeout: a worker has not come to it within `timeout` seconds; it will.
        """
        self._reach(self._everybody, timeout)

    def await_all(
        self,
        on_look: Callable[[], None] | None,
        workers: Sequence[int] | None = None,
        timeout: float | Limit | None = None,
        verb: str = "sync",
    ) -> None:
        """As `sync_all`, or for some workers; the waiting thread calls `on_look` ten times a second.

        Args:
            on_look: see above; None: nothing is called.
            workers: those to wait for; None: all.
            timeout: as there.
            verb: how errors name the wait.
        """
        self._sync(self._chosen(workers), timeout, verb, on_look)


def known_of(ledger: Ledger) -> int:
    """How much had failed that was raised before; -1 if some was not."""
    return -1 if ledger.has_failures else ledger.kept
