"""What a start or a restart shows of its workers if they take long to be there: NCCL connects in seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from disco_magic.notebook.output.page import Page
from disco_magic.notebook.output.progress import Progress

if TYPE_CHECKING:
    from disco_magic.session.session import Session

AFTER_S: Final = 1.0
"""Seconds without a word."""


def await_workers(session: Session, publisher: Any, output: str) -> None:
    """Wait until all workers have executed what the start has sent them; show meanwhile who is where.

    Args:
        session: whose.
        publisher: the shell's display publisher.
        output: as configured; nothing but ``live`` shows what is over when one looks at it.

    Raises:
        WorkerError, KeyboardInterrupt: as `Session.sync_all`.
    """
    if output != "live":
        session.sync_all()
        return
    everybody = range(session.num_workers)
    page = Page(everybody, everybody, publisher)
    try:
        look = None
        if page.area is not None:
            look = Progress(page, page.area, everybody, session.doctor, after_s=AFTER_S).look
        with page.waited_for():
            session.await_all(look)
    finally:
        page.close()
