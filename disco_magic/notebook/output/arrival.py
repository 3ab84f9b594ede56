"""What is shown while one waits for workers without a cell: at a start or a restart, for copies and checks.

NCCL connects in seconds; all else comes after what the workers execute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from disco_magic.notebook.output.page import Page
from disco_magic.notebook.output.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from disco_magic.core.doctor import Diagnosis
    from disco_magic.notebook.front import Front
    from disco_magic.session.session import Session

AFTER_S: Final = 1.0
"""Seconds without a word."""


class _Arrival(Progress):
    """Looks at workers of which it is waited for that they have nothing more to do."""

    def finished(self, diagnosis: Diagnosis) -> frozenset[int]:
        """Those who have nothing."""
        return frozenset(
            each.worker for each in diagnosis.positions if each.state == "idle" and not each.behind
        )


def await_workers(
    session: Session,
    publisher: Any,
    output: str,
    wait: Callable[[Callable[[], None] | None], None] | None = None,
    workers: Sequence[int] | None = None,
) -> None:
    """Wait until workers have executed what was sent to them; show meanwhile who is where.

    Args:
        session: whose.
        publisher: the shell's display publisher.
        output: as configured; nothing but ``live`` shows what is over when one looks at it.
        wait: waits, and calls what it is given now and then; None: `Session.await_all`.
        workers: who is waited for; None: all.

    Raises:
        WorkerError, SyncTimeout, KeyboardInterrupt: as `Session.sync_all`.
    """
    wait = session.await_all if wait is None else wait
    if output != "live":
        wait(None)
        return
    shown = range(session.num_workers) if workers is None else workers
    page = Page(shown, shown, publisher)
    try:
        look = None
        if page.area is not None:
            look = _Arrival(page, page.area, shown, session.doctor, after_s=AFTER_S).look
        with page.waited_for():
            wait(look)
    finally:
        page.close()


def await_sent(
    front: Front,
    session: Session,
    verb: str,
    timeout: float | None,
    workers: Sequence[int] | None = None,
) -> None:
    """Wait until workers have executed what was sent to them; after a second it is shown who is where.

    Args:
        front: the notebook's side.
        session: whose.
        verb: what is waiting, for who ends the wait.
        timeout: seconds that it may take; None: as long as the session waits for anything.
        workers: who is waited for; None: all.

    Raises:
        WorkerError, SyncTimeout, KeyboardInterrupt: as `Session.sync_all`.
    """

    def wait(look: Callable[[], None] | None) -> None:
        session.await_all(look, workers, timeout, verb)

    await_workers(session, front.shell.display_pub, front.settings.output, wait, workers)
