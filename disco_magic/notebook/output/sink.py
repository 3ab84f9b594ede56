"""Everything one worker writes and displays during one cell, made into whole lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from disco_magic.callers.current import is_beside
from disco_magic.functions.execution.transcript import Transcript
from disco_magic.notebook.libraries.bars import BARS
from disco_magic.notebook.libraries.contents import updated
from disco_magic.notebook.output.unfinished import Unfinished

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from collections.abc import Set as AbstractSet

    from disco_magic.notebook.libraries.homes import Home
    from disco_magic.notebook.output.arrange import Item

LINE_LIMIT: Final = 1 << 16
"""Characters of an unfinished line that are kept; a longer one is shown in parts. Every part costs one pass
over it, so a line written character by character costs as much as its length."""

RESTS: Final = 5
"""So often, a second in all, a bar's row is shown after its newline before it is taken for a line: on a busy
machine a worker may not come to its next bar for that long."""

_OTHER: Final = {"stdout": "stderr", "stderr": "stdout"}


class Screen(Protocol):
    """What shows a sink's lines, displays and figures: the page of a cell, or a widget."""

    @property
    def lock(self) -> Any:
        """An RLock, held around every call that writes."""

    @property
    def finished(self) -> AbstractSet[int]:
        """Workers that have ended the cell."""

    def lines(self, worker: int, channel: str, lines: Sequence[str], /) -> None:
        """Show whole lines."""

    def touch(self, sink: Sink, /) -> None:
        """An unfinished line has changed; `Sink.shown` gives it."""

    def display(
        self, worker: int, publish: Callable[..., Any], data: dict[str, Any], kwargs: dict[str, Any], /
    ) -> None:
        """Show what ``publish(data, **kwargs)`` would show in the cell."""

    def pictures(self, worker: int, pictures: Sequence[Item], /) -> None:
        """Show figures of the cell's end."""

    def clear(self, worker: int, clear: Callable[..., Any], /, *, wait: bool) -> None:
        """``clear_output`` of a worker; in the cell ``clear(wait=wait)`` would do it."""

    def shows(self, worker: int, /) -> bool:
        """Whether what it writes is to be seen."""

    def finish(self, worker: int, /) -> None:
        """The worker will write no more."""


class Sink:
    """Collects a worker's text per channel and hands whole lines to the page.

    Threads: written by the worker's thread and by threads that user code started in the worker's context;
    every method takes the page's lock, which is an RLock because a ``__del__`` that prints may run while the
    same thread holds it.

    Args:
        worker: its id.
        page: what shows its lines.
        margin: columns of a terminal that its lines cannot use.

    Attributes:
        margin: as above; bars that ask for the width of the terminal are told.
        home: where the worker keeps what outlives the cell; `homes` finds it. Until the cell has ended: a
            handle keeps this sink, and must not keep a worker's figures that has ended. A thread that was
            given up keeps its own.
    """

    def __init__(self, worker: int, page: Screen, margin: int = 0) -> None:
        self.worker = worker
        self.margin = margin
        self.home: Home | None = None
        self._page = page
        self._transcript = Transcript()
        self._pending = {"stdout": Unfinished(), "stderr": Unfinished()}
        # channel -> how often it was asked since a newline that may be an end
        self._rested: dict[str, int] = {}
        self._closed = False

    @property
    def text(self) -> str:
        """What the worker wrote so far, complete lines only until it has ended."""
        with self._page.lock:
            return self._transcript.text

    def _has_bars(self) -> bool:
        return BARS.has_any(self)

    def writer(self, channel: str, _: object = None) -> Callable[[str], int]:
        """``sys.stdout.write`` (or stderr's) for this worker."""
        return self._write_stdout if channel == "stdout" else self._write_stderr

    def _write_stdout(self, text: str) -> int:
        return self._write("stdout", text)

    def _write_stderr(self, text: str) -> int:
        return self._write("stderr", text)

    def _write(self, channel: str, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        with self._page.lock:
            if self._drops() or not text:
                return len(text)
            pending = self._pending[channel]
            if self._rested:
                self._rested.pop(channel, None)
            lines = pending.feed(text, self._has_bars)
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
            self._transcript.add("\n".join(lines) + "\n")
            self._page.lines(self.worker, channel, lines)

    def _end_bars(self, channel: str) -> None:
        """Lines follow on the other channel: what was ended on this one comes before them."""
        if self._pending[channel].resting:
            self._hand_over(channel, self._pending[channel].rest())

    def _part(self, channel: str, lines: Sequence[str]) -> None:
        """Hand over lines of which the last one may go on."""
        if lines:
            self._transcript.add("\n".join(lines))
            self._page.lines(self.worker, channel, lines)

    def flush(self, channel: str, _: object = None) -> None:
        """``flush()`` in the worker: show an unfinished line."""
        with self._page.lock:
            pending = self._pending[channel]
            if pending.size and not self._drops():
                pending.flush()
                self._page.touch(self)

    def shown(self, channels: Sequence[str]) -> list[str]:
        """The unfinished lines to show now; the page asks, and holds its lock.

        A bar that was ended when it was asked `RESTS` times in a row is a line from now on.
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
        """A `display` call of the worker, in the order of its lines; or what updates one in a widget."""
        if not self._drops() and updated(data, kwargs):  # without the lock: widgets' observers run in it
            return
        with self._page.lock:
            if not self._drops():
                self._finish_lines()
                self._page.display(self.worker, publish, data, kwargs)

    def _drops(self) -> bool:
        """Whether the calling thread was given up; those that it has started were not."""
        return self._closed and not is_beside()

    @property
    def is_given_up(self) -> bool:
        """Whether the thread that writes to it was given up."""
        return self._closed

    @property
    def is_finished(self) -> bool:
        """Whether the cell has ended on the worker; threads that it left behind may write on."""
        return self.worker in self._page.finished

    @property
    def is_shown(self) -> bool:
        """Whether anybody would see what the worker draws."""
        return not self._closed and self._page.shows(self.worker)

    def pictures(self, pictures: Sequence[Item]) -> None:
        """What the worker leaves to be shown when the cell has ended on all of them."""
        with self._page.lock:
            if not self._drops():
                self._page.pictures(self.worker, pictures)

    def clear(self, clear: Callable[..., Any], *, wait: bool) -> None:
        """A `clear_output` call of the worker; what that means for the others is the page's matter."""
        with self._page.lock:
            if not self._drops():
                for pending in self._pending.values():
                    pending.rest()
                self._page.clear(self.worker, clear, wait=wait)

    def finish(self) -> None:
        """The cell has ended on this worker: its unfinished lines are lines now."""
        with self._page.lock:
            self._finish_lines()
            self._page.finish(self.worker)
            self.home = None

    def abandon(self) -> None:
        """The worker's thread is stuck and replaced: what it still writes goes nowhere."""
        with self._page.lock:
            home = self.home
            self.finish()
            self._closed = True
            self.home = home
            if home is not None:
                home.is_lost = True

    def _finish_lines(self) -> None:
        for channel, pending in self._pending.items():
            if pending.resting:
                self._hand_over(channel, pending.rest())
            elif pending.size:
                self._part(channel, pending.rest())
