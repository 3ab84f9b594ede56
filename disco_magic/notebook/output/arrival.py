"""Shows progress of waits without a cell: a start or a restart, copies and checks.

Connecting NCCL takes seconds; the others wait for what the workers execute before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from disco_magic.notebook.output.page import Page
from disco_magic.notebook.output.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.core.doctor import Diagnosis
    from disco_magic.notebook.shell import Shell
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
    shell: Shell,
    output: str,
    verb: str = "sync",
    *,
    timeout: float | None = None,
    workers: Sequence[int] | None = None,
) -> None:
    """Wait until workers have executed what was sent to them; after a second, show where each worker is."""
    if output != "live":
        session.await_all(None, workers, timeout, verb)
        return
    shown = range(session.num_workers) if workers is None else workers
    page = Page(shown, shown, shell.display_pub)
    try:
        look = None
        if page.area is not None:
            look = _Arrival(page, page.area, shown, session.doctor, after_s=AFTER_S).look
        with page.waited_for():
            session.await_all(look, workers, timeout, verb)
    finally:
        page.close()
