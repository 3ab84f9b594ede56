"""Shows progress of waits without a cell of ours: starts, copies, ``session["x"].get()``, ``h.wait()``.

Connecting NCCL takes seconds; the others wait for what the workers execute.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from disco_magic.notebook.output.page import Page
from disco_magic.notebook.output.progress import Progress
from disco_magic.session.awaiting import is_for_main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from disco_magic.core.doctor import Diagnosis
    from disco_magic.notebook.settings import DiscoSettings
    from disco_magic.notebook.shell import Shell
    from disco_magic.session.pending import PendingCell
    from disco_magic.session.session import Session

AFTER_S: Final = 1.0
"""Seconds before anything is shown."""


class _Arrival(Progress):
    """Progress until the awaited workers have nothing more to do."""

    def finished(self, diagnosis: Diagnosis) -> frozenset[int]:
        """The workers that have nothing more to do."""
        idle = (each.worker for each in diagnosis.positions if each.state == "idle" and not each.behind)
        return self._workers.intersection(idle)


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


class ShownWait:
    """Shows one wait of a call that the notebook's own Python makes, such as ``session.sync_all()``.

    Gives the function to call ten times a second. Most such waits are over before it is called, so nothing
    is made for them. Other threads than the main one, and those in which awaits of it wait, have no
    cell in which it could be shown.

    A cell of ``session.run`` prints by itself; `quiet_since` says since when it has not. Nothing is shown
    while it prints. `cell` is its handle: it knows what the cell waits for, and when it will end.
    """

    __slots__ = (
        "_cell",
        "_due",
        "_quiet_since",
        "_session",
        "_settings",
        "_shell",
        "_show",
        "_shown",
        "_workers",
    )

    def __init__(
        self,
        shell: Shell,
        settings: DiscoSettings,
        session: Session,
        workers: Sequence[int],
        *,
        quiet_since: Callable[[], float] | None = None,
        cell: PendingCell | None = None,
    ) -> None:
        self._cell = cell
        self._shell = shell
        self._settings = settings
        self._session = session
        self._workers = workers
        self._due = time.monotonic() + AFTER_S
        self._quiet_since = quiet_since
        self._show: Callable[[], None] | None = None
        self._shown: ExitStack | None = None

    def __enter__(self) -> Callable[[], None]:
        return self.look

    def __exit__(self, *_: object) -> None:
        if self._shown is not None:
            self._shown.close()

    def look(self) -> None:
        """After a second without output, show where each worker is."""
        if self._show is None and self._is_due():
            self._show = self._opened()
        if self._show is not None:
            self._show()

    def _is_due(self) -> bool:
        if self._cell is not None and self._cell.ending():
            return True
        now = time.monotonic()
        return now >= self._due and (self._quiet_since is None or now >= self._quiet_since() + AFTER_S)

    def _opened(self) -> Callable[[], None]:
        is_of_cell = threading.current_thread() is threading.main_thread() or is_for_main.get()
        if self._settings.output != "live" or not is_of_cell:
            return _nothing
        self._shown = shown = ExitStack()
        page = Page(self._workers, self._workers, self._shell.display_pub)
        shown.callback(page.close)
        if page.area is None:
            return _nothing
        shown.enter_context(page.waited_for())
        make = partial(_Arrival, page, page.area, self._workers, self._session.doctor, after_s=0.0)
        if (cell := self._cell) is None:
            return make().look
        return make(ending=cell.ending, seq=cell.seq, spares=cell.spares).look


@contextmanager
def looking_at(cell: PendingCell, page: Page) -> Iterator[Callable[[], None]]:
    """What to call ten times a second while a notebook cell waits for a ``--nowait`` one; its page.

    It keeps what that cell shows in place up to date. After a second without output of it, the waiting cell
    shows where the workers are.
    """
    session, area = cell.session, page.area
    if session.show_wait is None or area is None:
        yield page.look
        return
    since = partial(getattr, area, "quiet_since")
    with session.show_wait(session, cell.workers, quiet_since=since, cell=cell) as show:

        def look() -> None:
            page.look()
            show()

        yield look


def _nothing() -> None:
    """Show nothing."""
