r"""The part of a cell's output that changes in place and is gone at its end: progress bars and status lines.

::

    worker 0: write("\r 10%|#   |")  -> Sink --touch--+
    worker 1: flush()               -> Sink --touch--+-> LiveArea -- rows, at most 5 times a second --> Screen
    the thread that waits: look(), 10 times a second -+

There is no thread for it. A change within the interval is shown by the next touch or look, or at the end.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextvars import Context

    from disco_magic.notebook.output.sink import Sink

_LOG: Final = logging.getLogger("disco_magic")
INTERVAL_S: Final = 0.2
"""The area is drawn at most this often."""


class Row(NamedTuple):
    """One line of the area.

    Attributes:
        workers: the workers it belongs to.
        text: the line without their prefix.
        status: whether the line is ours, not the workers' output.
    """

    workers: tuple[int, ...]
    text: str
    status: bool = False


class Screen:
    """A place where rows can be replaced. This one shows nothing; see `screens` for others.

    It is for tools that execute notebooks, which would keep an empty output in them.
    """

    waited = False
    """Whether rows may be shown only while the cell is waited for, because the user may type there
    otherwise."""
    stopped_by = "the stop button"
    """What stops the cell there, in words."""

    def show(self, rows: Sequence[Row]) -> None:
        """Replace the rows; without any, take up no space."""

    def cleared(self) -> None:
        """Note that the rows were removed together with the output around them."""

    def covered(self) -> bool:
        """Whether other output has hidden the rows since."""
        return False


class LiveArea:
    """The live area of one cell. All methods but `wait` and the properties need the lock of the cell's page.

    Args:
        screen: where the rows are shown.
        channels: channels whose unfinished lines are shown; not one that goes elsewhere (``2>file``).
        context: the cell's context, so that the rows appear in its output whichever thread draws.

    Attributes:
        quiet_since: when the workers last wrote anything, or when the cell was sent.
        stopped_by: what stops the cell, in words.
    """

    def __init__(
        self,
        screen: Screen,
        channels: Sequence[str],
        context: Context,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.quiet_since = clock()
        self.stopped_by = screen.stopped_by
        self._screen = screen
        self._channels = channels
        self._context = context
        self._clock = clock
        self._sinks: dict[int, Sink] = {}
        self._status: Sequence[Row] = ()
        self._shown: list[Row] = []
        self._due = self.quiet_since
        self._waiting: list[None] = []  # one per waiter; a list can be changed without a lock
        self._drawing = False
        self._closed = False

    def touch(self, sink: Sink) -> None:
        """Note that an unfinished line has changed."""
        if not self._closed:
            self._sinks[sink.worker] = sink
            self.quiet_since = self._clock()
            self._draw_if_due(self.quiet_since)

    def wrote(self, worker: int) -> None:
        """Note that a worker has written whole lines, perhaps the end of one that was shown."""
        self.quiet_since = self._clock()
        if worker in self._sinks:
            self._draw_if_due(self.quiet_since)

    def look(self, status: Sequence[Row] | None) -> None:
        """Draw if it is time; called by the waiting thread. `status`: its rows, None for the last ones."""
        if status is not None:
            self._status = status
        self._draw_if_due(self._clock())

    def wait(self) -> None:
        """Note that a thread begins to wait for the cell. What is over within the interval is not shown."""
        self._waiting.append(None)
        if not self._shown:
            self._due = max(self._due, self._clock() + INTERVAL_S)

    def end_wait(self) -> None:
        """Note that a wait has ended, and remove the status rows, which nothing would update any more."""
        self._waiting.pop()
        self._status = ()
        if self._shown:
            self._draw(self._clock())

    @property
    def is_waited_for(self) -> bool:
        """Whether a thread waits for the cell, and so calls `look`."""
        return bool(self._waiting)

    def cleared(self) -> None:
        """Note that the cell's output was cleared, and the rows with it."""
        self._shown = []
        self._screen.cleared()

    def close(self) -> None:
        """Remove the rows for good."""
        self._sinks.clear()
        self._status = ()
        if self._shown:
            self._draw(self._clock())
        self._closed = True

    def _draw_if_due(self, now: float) -> None:
        if now >= self._due:
            self._draw(now)

    def _draw(self, now: float) -> None:
        # A finalizer that prints may call this in the middle of drawing.
        if self._closed or self._drawing:
            return
        self._drawing = True
        try:
            self._context.run(self._show, now)
        except Exception:  # noqa: BLE001 - a failing display must not fail the cell, which goes on without it
            _LOG.debug("the live area of a cell has failed and is closed", exc_info=True)
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
