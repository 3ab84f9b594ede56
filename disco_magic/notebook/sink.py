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
        self._pending: dict[str, list[str]] = {"stdout": [], "stderr": []}
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
            self._pending[channel].append(text)
            if "\n" in text:
                self._lines(channel)
            if "\r" in text:
                self._frame(channel)
        return len(text)

    def _lines(self, channel: str) -> None:
        """Hand over what ends with a newline, keep the rest."""
        *lines, rest = "".join(self._pending[channel]).split("\n")
        self._pending[channel] = [rest] if rest else []
        visible = [_visible(line) for line in lines]
        self._transcript.add("\n".join(visible) + "\n")
        self._page.lines(self.worker, channel, visible)

    def _frame(self, channel: str) -> None:
        r"""Show the line as it stands, if the last time is long enough ago; forget what ``\r`` replaced."""
        pending = "".join(self._pending[channel])
        shown = _visible(pending)
        if "\r" in pending:
            self._pending[channel] = [shown + "\r" if pending.endswith("\r") else shown]
        now = self._clock()
        if shown and now - self._framed_at >= FRAME_INTERVAL_S:
            self._framed_at = now
            self._page.frame(self.worker, channel, shown)

    def flush(self, channel: str) -> None:
        """``flush()`` in the worker: show an unfinished line."""
        with self._page.lock:
            if self._pending[channel] and not self._closed:
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
                self._pending = {"stdout": [], "stderr": []}
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
        for channel, pieces in self._pending.items():
            if pieces:
                rest = "".join(pieces)
                self._pending[channel] = []
                self._transcript.add(_visible(rest))
                self._page.lines(self.worker, channel, [_visible(rest)])


def _visible(line: str) -> str:
    r"""What a terminal shows of `line` if every ``\r`` starts it anew: the last part that is not empty."""
    return line if "\r" not in line else line.rstrip("\r").rpartition("\r")[2]
