"""The handle of an asynchronous cell, ``%%disco --nowait``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disco_magic.errors import DiscoError, WorkerError, grouped
from disco_magic.notebook.tracebacks import dress

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.notebook.output import NotebookScope
    from disco_magic.notebook.shell import Shell
    from disco_magic.session.arguments import Limit
    from disco_magic.session.pending import PendingCell
    from disco_magic.session.results import CellResult


class CellHandle:
    """A cell on its way. What it writes goes to the cell it was started in, also after that has ended.

    Attributes:
        pending: the session's own handle.
    """

    def __init__(self, shell: Shell, pending: PendingCell, scope: NotebookScope) -> None:
        self.pending = pending
        self._shell = shell
        self._scope = scope
        self._asked = False

    def wait(
        self, timeout: float | Limit | None = None, *, on_look: Callable[[], None] | None = None
    ) -> CellResult:
        """Wait for the cell and return its result.

        Args:
            timeout: seconds; a cell that takes longer is stopped. None: as long as it takes.
            on_look: called ten times a second; None keeps what the cell shows in place up to date.

        Raises:
            CellError, SyncTimeout, KeyboardInterrupt: as the cell itself would have, without ``--nowait``.
        """
        self._asked = True
        page = self._scope.page
        try:
            with page.waited_for():
                return self.pending.wait(timeout, on_look=on_look or page.look)
        except (DiscoError, KeyboardInterrupt) as error:
            shell = self._shell
            # error -> traceback -> this frame -> handle -> error would keep the cell's arrays
            del self, page, on_look
            raise dress(shell, error)  # noqa: B904 - the same exception, made presentable

    def done(self) -> bool:
        """Whether every worker has ended the cell, well or not."""
        return self.pending.done()

    def cancel(self) -> None:
        """Stop the cell on all its workers and wait until they have."""
        self._asked = True
        self.pending.cancel()

    @property
    def stdout(self) -> dict[int, str]:
        """Worker -> what it has written so far; tools that execute notebooks drop late output of a cell."""
        return dict(self._scope.stdout)

    def report(self) -> None:
        """Tell the cell's own output that it failed, if nobody has asked how it ended."""
        if self._asked or not self.done():
            return
        self._asked = True
        try:
            self.pending.wait()
        except WorkerError as error:
            for summary, workers in grouped(error.failures).items():
                self._scope.page.note(workers, [summary])
        except DiscoError as error:  # a worker is gone: nobody failed, but there is no result either
            self._scope.page.note(self.pending.workers, f"{type(error).__name__}: {error}".splitlines())
        else:
            return
        self._scope.page.note(
            self.pending.workers, ["failed after its cell; the handle's .wait() shows where"]
        )

    def __repr__(self) -> str:
        return repr(self.pending)
