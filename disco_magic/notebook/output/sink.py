"""Collects everything one worker writes and displays during one cell, in whole lines."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from disco_magic.callers.current import is_beside
from disco_magic.functions.execution.printed import Transcript
from disco_magic.functions.execution.unfinished import Unfinished
from disco_magic.notebook.libraries.bars import BARS
from disco_magic.notebook.libraries.contents import updated

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from collections.abc import Set as AbstractSet

    from disco_magic.notebook.libraries.homes import Home
    from disco_magic.notebook.output.arrange import Item

LINE_LIMIT: Final = 1 << 16
"""Characters of an unfinished line that are kept; a longer line is shown in parts. Each part costs one pass
over it, so the cost of a line written character by character is proportional to its length."""

RESTS: Final = 5
"""Number of updates, a second in all, for which a bar's row stays a bar after its newline before it becomes a
line: on a busy machine a worker may need that long to get to its next bar."""

_OTHER: Final = {"stdout": "stderr", "stderr": "stdout"}


class Receiver(Protocol):
    """Takes a sink's lines, displays and figures: the page of a cell, or a widget."""

    @property
    def lock(self) -> Any:
        """An RLock, held around every call that writes."""

    @property
    def finished(self) -> AbstractSet[int]:
        """The workers that have ended the cell."""

    def lines(self, worker: int, channel: str, lines: Sequence[str], /) -> None:
        """Show whole lines."""

    def touch(self, sink: Sink, /) -> None:
        """Note that an unfinished line has changed; `Sink.shown` returns it."""

    def display(
        self, worker: int, publish: Callable[..., Any], data: dict[str, Any], kwargs: dict[str, Any], /
    ) -> None:
        """Show what ``publish(data, **kwargs)`` would show in the cell."""

    def pictures(self, worker: int, pictures: Sequence[Item], /) -> None:
        """Keep figures for the end of the cell."""

    def clear(self, worker: int, clear: Callable[..., Any], /, *, wait: bool) -> None:
        """Handle a worker's ``clear_output``; ``clear(wait=wait)`` would clear the whole cell."""

    def shows(self, worker: int, /) -> bool:
        """Whether the worker's output is shown."""

    def finish(self, worker: int, /) -> None:
        """Note that the worker has ended the cell."""


class Sink:
    """Collects a worker's text per channel and hands whole lines to the page.

    Threads: the worker's thread writes to it, and threads that user code started in the worker's context.
    Every method takes the page's lock, an RLock because a ``__del__`` that prints may run while the same
    thread holds it.

    Args:
        worker: id of the worker.
        page: shows the lines.
        margin: columns of a terminal that the lines cannot use.

    Attributes:
        transcript: what was written; None: nothing yet.
        margin: as above; subtracted when bars ask for the width of the terminal.
        home: where the worker keeps what outlives the cell; `homes` finds it. None once the cell has ended,
            because a handle keeps this sink and should not keep the worker's figures. A thread that was
            given up keeps its home.
    """

    def __init__(self, worker: int, page: Receiver, margin: int = 0) -> None:
        self.worker = worker
        self.margin = margin
        self.home: Home | None = None
        self._page = page
        # Made when something is written: most cells write nothing to stderr, many nothing at all.
        self.transcript: Transcript | None = None
        self._pending: defaultdict[str, Unfinished] = defaultdict(Unfinished)
        # channel -> number of updates since a newline that may have ended a bar
        self._rested: dict[str, int] = {}
        self._closed = False

    @property
    def text(self) -> str:
        """The worker's output so far; until it has ended, complete lines only."""
        with self._page.lock:
            return "" if self.transcript is None else self.transcript.text

    def writer(self, channel: str, _: object = None) -> Callable[[str], int]:
        """The function for ``sys.stdout.write`` (or stderr's) of this worker."""
        return partial(self._write, channel)

    def _write(self, channel: str, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        with self._page.lock:
            if self._drops() or not text:
                return len(text)
            pending = self._pending[channel]
            if self._rested:
                self._rested.pop(channel, None)
            lines = pending.feed(text, partial(BARS.has_any, self))
            if lines:
                self._end_bars(_OTHER[channel])
                self._hand_over(channel, lines)
            if pending.visible:
                self._page.touch(self)
            if pending.size > LINE_LIMIT:
                self._part(channel, pending.rest())
        return len(text)

    def _hand_over(self, channel: str, lines: Sequence[str]) -> None:
        if lines:
            self._record("\n".join(lines) + "\n")
            self._page.lines(self.worker, channel, lines)

    def _record(self, text: str) -> None:
        if self.transcript is None:
            self.transcript = Transcript()
        self.transcript.add(text)

    def _end_bars(self, channel: str) -> None:
        """Hand over bars of this channel that have ended, before lines of the other channel."""
        pending = self._pending.get(channel)
        if pending is not None and pending.resting:
            self._hand_over(channel, pending.rest())

    def _part(self, channel: str, lines: Sequence[str]) -> None:
        """Hand over lines, the last of which may be unfinished."""
        if lines:
            self._record("\n".join(lines))
            self._page.lines(self.worker, channel, lines)

    def flush(self, channel: str, _: object = None) -> None:
        """Handle ``flush()`` in the worker: show an unfinished line."""
        with self._page.lock:
            pending = self._pending[channel]
            if pending.size and not self._drops():
                pending.flush()
                self._page.touch(self)

    def shown(self, channels: Sequence[str]) -> list[str]:
        """The unfinished lines to show now; called by the page, which holds its lock.

        A bar that has been ended for `RESTS` calls in a row becomes a line.
        """
        rows: list[str] = []
        for channel in channels:
            pending = self._pending[channel]
            if self._rested.get(channel, 0) >= RESTS:
                self._hand_over(channel, pending.rest())
                del self._rested[channel]
            elif pending.resting:
                self._rested[channel] = self._rested.get(channel, 0) + 1
            rows += pending.shown
        return rows

    def display(self, publish: Callable[..., Any], data: dict[str, Any], kwargs: dict[str, Any]) -> None:
        """Handle a `display` call of the worker, in order with its lines, or an update of one in a widget."""
        if not self._drops() and updated(data, kwargs):  # without the lock: it runs observers of widgets
            return
        with self._page.lock:
            if not self._drops():
                self._finish_lines()
                self._page.display(self.worker, publish, data, kwargs)

    def _drops(self) -> bool:
        """Whether the calling thread was given up (threads that it has started were not)."""
        return self._closed and not is_beside()

    @property
    def is_given_up(self) -> bool:
        """Whether the worker's thread was given up."""
        return self._closed

    @property
    def is_finished(self) -> bool:
        """Whether the cell has ended on the worker; threads that it started may still write."""
        return self.worker in self._page.finished

    @property
    def is_shown(self) -> bool:
        """Whether the worker's figures would be shown."""
        return not self._closed and self._page.shows(self.worker)

    def pictures(self, pictures: Sequence[Item]) -> None:
        """Keep figures of the worker until the cell has ended on all workers."""
        with self._page.lock:
            if not self._drops():
                self._page.pictures(self.worker, pictures)

    def clear(self, clear: Callable[..., Any], *, wait: bool) -> None:
        """Handle a `clear_output` call of the worker; the page decides what it means for the others."""
        with self._page.lock:
            if not self._drops():
                for pending in list(self._pending.values()):
                    pending.rest()
                self._page.clear(self.worker, clear, wait=wait)

    def finish(self) -> None:
        """Note that the cell has ended on this worker; unfinished lines become lines."""
        with self._page.lock:
            if self._pending:
                self._finish_lines()
            self._page.finish(self.worker)
            self.home = None

    def abandon(self) -> None:
        """Drop further output: the worker's thread is stuck and was replaced."""
        with self._page.lock:
            home = self.home
            self.finish()
            self._closed = True
            self.home = home
            if home is not None:
                home.is_lost = True

    def _finish_lines(self) -> None:
        for channel in _OTHER if self._pending else ():  # a finalizer may write to the second meanwhile
            pending = self._pending.get(channel)
            if pending is None:
                continue
            if pending.resting:
                self._hand_over(channel, pending.rest())
            elif pending.size:
                self._part(channel, pending.rest())
