"""Everything one worker writes and displays during one cell, made into whole lines."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from disco_magic.notebook.transcript import Transcript

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.notebook.page import Page

FRAME_INTERVAL_S: Final = 0.2
"""An unfinished line (a progress bar, ``print(end="", flush=True)``) is shown at most this often."""

LINE_LIMIT: Final = 1 << 16
"""Characters of an unfinished line that are kept; a longer one is shown in parts. Every part costs one pass
over it, so a line written character by character costs as much as its length."""


class Unfinished:
    """The text of one channel since its last newline, in pieces as it came, so that adding costs nothing."""

    def __init__(self) -> None:
        self.size = 0
        self._pieces: list[str] = []

    def add(self, text: str) -> None:
        """Append `text`."""
        self._pieces.append(text)
        self.size += len(text)

    def take(self) -> str:
        """The whole text, as one string; there is none left."""
        text = "".join(self._pieces)
        self._pieces.clear()
        self.size = 0
        return text


class Sink:
    r"""Collects a worker's text per channel and hands whole lines to the page.

    A ``\r`` replaces the line so far, as on a terminal. Threads: written by the worker's thread and by
    threads that user code started in the worker's context; every method takes the page's lock, which is
    an RLock because a ``__del__`` that prints may run while the same thread holds it.
    """

    def __init__(self, worker: int, page: Page, clock: Callable[[], float] = time.monotonic) -> None:
        self.worker = worker
        self._page = page
        self._clock = clock
        self._transcript = Transcript()
        self._pending = {"stdout": Unfinished(), "stderr": Unfinished()}
        self._framed_at = float("-inf")
        self._closed = False

    @property
    def text(self) -> str:
        """What the worker wrote so far, complete lines only until it has ended."""
        with self._page.lock:
            return self._transcript.text

    def writer(self, channel: str) -> Callable[[str], int]:
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
            if self._closed or not text:
                return len(text)
            pending = self._pending[channel]
            pending.add(text)
            if "\n" in text:
                self._lines(channel)
            if "\r" in text and pending.size:
                self._frame(channel)
            if pending.size > LINE_LIMIT:
                self._part(channel)
        return len(text)

    def _lines(self, channel: str) -> None:
        """Hand over what ends with a newline, keep the rest."""
        *lines, rest = self._pending[channel].take().split("\n")
        self._pending[channel].add(rest)
        visible = [_visible(line) for line in lines]
        self._transcript.add("\n".join(visible) + "\n")
        self._page.lines(self.worker, channel, visible)

    def _frame(self, channel: str) -> None:
        """Show the line as it stands, if the last time is long enough ago.

        The clock is asked first: joining the pieces at every flush would cost the square of their number.
        """
        now = self._clock()
        if now - self._framed_at < FRAME_INTERVAL_S:
            return
        shown = self._collapse(channel)
        if shown:
            self._framed_at = now
            self._page.frame(self.worker, channel, shown)

    def _part(self, channel: str) -> None:
        """Hand over an endless line as far as it goes.

        Already when half the limit is left after the collapse: what stays makes room for at least the other
        half, so that a line is not collapsed at every write.
        """
        shown = self._collapse(channel)
        if len(shown) > LINE_LIMIT // 2:
            self._pending[channel].take()
            self._transcript.add(shown)
            self._page.lines(self.worker, channel, [shown])

    def _collapse(self, channel: str) -> str:
        r"""What is to be seen of the line; keeps that as one piece and forgets what ``\r`` replaced."""
        pending = self._pending[channel]
        text = pending.take()
        shown = _visible(text)
        pending.add(shown + "\r" if text.endswith("\r") else shown)
        return shown

    def flush(self, channel: str) -> None:
        """``flush()`` in the worker: show an unfinished line."""
        with self._page.lock:
            if self._pending[channel].size and not self._closed:
                self._frame(channel)

    def display(self, publish: Callable[..., Any], data: dict[str, Any], kwargs: dict[str, Any]) -> None:
        """A `display` call of the worker, in the order of its lines."""
        with self._page.lock:
            if not self._closed:
                self._finish_lines()
                self._page.display(self.worker, publish, data, kwargs)

    def clear(self, clear: Callable[..., Any], *, wait: bool) -> None:
        """A `clear_output` call of the worker; what that means for the others is the page's matter."""
        with self._page.lock:
            if not self._closed:
                for pending in self._pending.values():
                    pending.take()
                self._page.clear(self.worker, clear, wait=wait)

    def finish(self) -> None:
        """The cell has ended on this worker: its unfinished lines are lines now."""
        with self._page.lock:
            self._finish_lines()
            self._page.finish(self.worker)

    def abandon(self) -> None:
        """The worker's thread is stuck and replaced: what it still writes goes nowhere."""
        with self._page.lock:
            self.finish()
            self._closed = True

    def _finish_lines(self) -> None:
        for channel, pending in self._pending.items():
            if pending.size:
                rest = _visible(pending.take())
                self._transcript.add(rest)
                self._page.lines(self.worker, channel, [rest])


def _visible(line: str) -> str:
    r"""What a terminal shows of `line` if every ``\r`` starts it anew: the last part that is not empty."""
    return line if "\r" not in line else line.rstrip("\r").rpartition("\r")[2]
