"""Shows progress of waits without a cell: a start or a restart, copies and checks.

Connecting NCCL takes seconds; the others wait for what the workers execute before.
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
"""Seconds before anything is shown."""


class _Arrival(Progress):
    """Progress until the awaited workers have nothing more to do."""

    def finished(self, diagnosis: Diagnosis) -> frozenset[int]:
        """The workers that have nothing more to do."""
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
    """Wait until workers have executed what was sent to them; show meanwhile where each worker is.

    Args:
        session: the session of the workers.
        publisher: the shell's display publisher.
        output: the configured output mode; progress is shown only with ``live``.
        wait: a function that waits, and regularly calls its argument; None: `Session.await_all`.
        workers: the workers to wait for; None: all.

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
    """Wait until workers have executed what was sent to them; after a second, show where each worker is.

    Args:
        front: the notebook's side.
        session: the session of the workers.
        verb: what waits, for the message if the wait is interrupted.
        timeout: seconds; None: the session's timeout.
        workers: the workers to wait for; None: all.

    Raises:
        WorkerError, SyncTimeout, KeyboardInterrupt: as `Session.sync_all`.
    """

    def wait(look: Callable[[], None] | None) -> None:
        session.await_all(look, workers, timeout, verb)

    await_workers(session, front.shell.display_pub, front.settings.output, wait, workers)
