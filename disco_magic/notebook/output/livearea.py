r"""The part of a cell's output that changes in place and is gone at its end: bars, and who is where.

::

    worker 0: write("\r 10%|#   |")  -> Sink --touch--+
    worker 1: flush()               -> Sink --touch--+-> LiveArea -- rows, at most 5 times a second --> Screen
    the thread that waits: look(), 10 times a second -+

There is no thread for it. What changes within a pause is shown by the next touch or look, or by the end.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextvars import Context

    from disco_magic.notebook.output.sink import Sink

INTERVAL_S: Final = 0.2
"""The area is drawn at most this often."""


class Row(NamedTuple):
    """One line of the area.

    Attributes:
        workers: whose it is.
        text: without their prefix.
        status: whether it is ours and not the workers' own.
    """

    workers: tuple[int, ...]
    text: str
    status: bool = False


class Screen(Protocol):
    """A place where rows can be replaced by others."""

    waited: bool
    """Whether rows may be there only while somebody waits for the cell: else they would be in the way of
    what the user types."""

    def show(self, rows: Sequence[Row]) -> None:
        """Show `rows` instead of what was shown; without any, take no room."""

    def cleared(self) -> None:
        """Its rows were taken away with the output around them."""

    def covered(self) -> bool:
        """Whether something else was shown since, and the rows are not to be seen."""


class LiveArea:
    """What one cell shows in place. All but `wait` and what is read need the lock of the cell's page.

    Args:
        screen: where.
        channels: whose unfinished lines are shown; one that goes elsewhere (``2>file``) is none of ours.
        context: the cell's own, so that what is shown lands in its output whichever thread draws.

    Attributes:
        quiet_since: when the workers last wrote anything, or when the cell was sent.
        failure: what ended the area before its time; a display that fails must not fail the cell.
    """

    def __init__(
        self,
        screen: Screen,
        channels: Sequence[str],
        context: Context,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.quiet_since = clock()
        self.failure: Exception | None = None
        self._screen = screen
        self._channels = channels
        self._context = context
        self._clock = clock
        self._sinks: dict[int, Sink] = {}
        self._status: Sequence[Row] = ()
        self._shown: list[Row] = []
        self._due = self.quiet_since
        self._waiting: list[None] = []  # one per waiter: a list can be changed without a lock
        self._drawing = False
        self._closed = False

    def touch(self, sink: Sink) -> None:
        """An unfinished line has changed."""
        if not self._closed:
            self._sinks[sink.worker] = sink
            self.quiet_since = self._clock()
            self._draw_if_due(self.quiet_since)

    def wrote(self, worker: int) -> None:
        """A worker has written whole lines, perhaps the end of one that was shown."""
        self.quiet_since = self._clock()
        if worker in self._sinks:
            self._draw_if_due(self.quiet_since)

    def look(self, status: Sequence[Row] | None) -> None:
        """The waiting thread has nothing else to do; `status` are its own rows, None: those of last time."""
        if status is not None:
            self._status = status
        self._draw_if_due(self._clock())

    def wait(self) -> None:
        """Somebody waits for the cell from now on, and looks: what is over at once need not be shown."""
        self._waiting.append(None)
        if not self._shown:
            self._due = max(self._due, self._clock() + INTERVAL_S)

    def end_wait(self) -> None:
        """They do not any more; nobody would keep their rows up to date."""
        self._waiting.pop()
        self._status = ()
        if self._shown:
            self._draw(self._clock())

    @property
    def is_waited_for(self) -> bool:
        """Whether somebody waits for the cell, and so looks."""
        return bool(self._waiting)

    def cleared(self) -> None:
        """The cell's output was cleared, and with it what was shown here."""
        self._shown = []
        self._screen.cleared()

    def close(self) -> None:
        """Take no room any more."""
        self._sinks.clear()
        self._status = ()
        if self._shown:
            self._draw(self._clock())
        self._closed = True

    def _draw_if_due(self, now: float) -> None:
        if now >= self._due:
            self._draw(now)

    def _draw(self, now: float) -> None:
        # A finalizer that prints may come in here, in the middle of drawing.
        if self._closed or self._drawing:
            return
        self._drawing = True
        try:
            self._context.run(self._show, now)
        except Exception as failure:  # noqa: BLE001 - whatever it is, the cell goes on without its area
            self.failure = failure
            self._closed = True
        finally:
            self._drawing = False

    def _show(self, now: float) -> None:
        rows = self._rows()
        if rows != self._shown or self._screen.covered():
            self._due = now + INTERVAL_S
            self._shown = rows
            self._screen.show(rows)

    def _rows(self) -> list[Row]:
        if self._screen.waited and not self._waiting:
            return []
        rows = []
        for worker in sorted(self._sinks):
            texts = self._sinks[worker].shown(self._channels)
            rows += [Row((worker,), text) for text in texts]
        return [*rows, *self._status]
