"""Waits until workers have executed what was sent to them, and raises what failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disco_magic.core.messages import Sync
from disco_magic.errors import is_told
from disco_magic.session.failures import Failures

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__tracebackhide__ = is_told


class Syncing(Failures):
    """Mixed into `Session`, by `Calls`."""

    def sync_all(self, timeout: float | None = None) -> None:
        """Wait until all workers have executed everything sent so far.

        Args:
            timeout: seconds to wait at most; None: `self.timeout`.

        Raises:
            WorkerError: something failed since errors were last raised. What failed in a cell of `run_nowait`
                whose handle is kept is for that to raise, or for the end of the session's `with` block.
            SyncTimeout: says what every worker is doing; they go on.
            KeyboardInterrupt: Ctrl-C or the stop button; says the same.
        """
        self._sync(self._everybody, timeout)

    def sync_worker(self, worker: int, timeout: float | None = None) -> None:
        """As `sync_all`, for one worker."""
        self._sync(self.check_workers((worker,)), timeout)

    def sync_worker_0(self, timeout: float | None = None) -> None:
        """As `sync_all`, for worker 0."""
        self.sync_worker(0, timeout)

    async def sync_all_async(self, timeout: float | None = None) -> None:
        """As `sync_all`, without blocking the event loop; the wait takes a thread, which ends with it.

        Cancelling it ends the await, not what the workers do.
        """
        from disco_magic.session.awaiting import in_thread  # asyncio: 30 ms that only who awaits has to spend

        await in_thread(lambda: self.sync_all(timeout))

    def _sync(self, workers: tuple[int, ...], timeout: float | None) -> None:
        if not self._have_rested(workers, timeout):
            self.ask(lambda seq, kills: Sync(seq, kills, workers), workers, timeout, "sync")
        self.raise_failures()

    def await_all(
        self,
        on_look: Callable[[], None] | None,
        workers: Sequence[int] | None = None,
        timeout: float | None = None,
        verb: str = "sync",
    ) -> None:
        """As `sync_all`, or for some workers; the thread that waits calls `on_look` ten times a second.

        Args:
            on_look: see above; None: nothing is called.
            workers: for which; None: for all.
            timeout: as there.
            verb: what is waiting, for who ends the wait.
        """
        chosen = self._everybody if workers is None else self.check_workers(workers)
        self.ask(lambda seq, kills: Sync(seq, kills, chosen), chosen, timeout, verb, on_look=on_look)
        self.raise_failures()
