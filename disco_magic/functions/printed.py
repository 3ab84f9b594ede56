r"""What cells print where no notebook shows it: whole lines, each behind its worker's number.

::

    print("loss", x) on worker 2  -->  unfinished line  -->  "[2] loss 0.5\n" to whatever sys.stdout is
                                                        \->  `CellResult.stdout`
"""

from __future__ import annotations

import contextvars
import sys
import threading
from typing import TYPE_CHECKING, Any, Final, Self

from disco_magic.functions.running import text_of
from disco_magic.functions.streams import current_writer, install_streams, remove_streams, unwrapped
from disco_magic.functions.transcript import Transcript
from disco_magic.functions.unfinished import Unfinished

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# Characters of an unfinished line that are kept; a longer one is shown in parts.
_LINE_LIMIT: Final = 1 << 16


def _no_bars() -> bool:
    return False


class _Lines:
    """A worker's text during one cell, by channel; a `streams.Writer`."""

    def __init__(self, worker: int, printed: Printed) -> None:
        self._worker = worker
        self._printed = printed  # which lives as long as a thread may write here, see `Printed.abandoned`
        self._lock = threading.RLock()  # a `__del__` that prints may run while the same thread holds it
        self._transcript = Transcript()
        self._pending: dict[str, Unfinished] = {}  # most cells write nothing
        self._closed = False

    @property
    def text(self) -> str:
        with self._lock:
            return self._transcript.text

    def writer(self, channel: str) -> Callable[[str], int]:
        return self._to_stdout if channel == "stdout" else self._to_stderr

    def _to_stdout(self, text: str) -> int:
        return self._write("stdout", text)

    def _to_stderr(self, text: str) -> int:
        return self._write("stderr", text)

    def flush(self, channel: str) -> None:
        """Nothing: parts of lines of several workers would not go together."""

    def _write(self, channel: str, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        with self._lock:
            if not self._closed:
                pending = self._pending.get(channel)
                if pending is None:
                    pending = self._pending[channel] = Unfinished()
                self._show(channel, pending.feed(text, _no_bars))
                if pending.size > _LINE_LIMIT:
                    self._show(channel, pending.rest())
        return len(text)

    def _show(self, channel: str, lines: Sequence[str]) -> None:
        if not lines:
            return
        self._transcript.add("".join([f"{line}\n" for line in lines]))
        stream = unwrapped(getattr(sys, channel))
        if stream is not None:
            stream.write("".join([f"[{self._worker}] {line}\n" for line in lines]))

    def finish(self) -> None:
        """The cell has ended: unfinished lines are lines now."""
        with self._lock:
            for channel, pending in self._pending.items():
                self._show(channel, pending.rest())

    def close(self) -> None:
        """Take nothing any more."""
        with self._lock:
            self.finish()
            self._closed = True


class Printed:
    """A `CellScope` for one cell that no front end shows.

    From `open` until all workers have ended the cell, or `close`, stand-ins for sys.stdout and sys.stderr
    tell who is writing; longer, if a thread was given up that may still print.

    Args:
        workers: those that run the cell.
    """

    def __init__(self, workers: Sequence[int]) -> None:
        self._lines = {worker: _Lines(worker, self) for worker in workers}
        self._running = set(workers)
        self._haunted = False

    def open(self) -> None:
        """The cell is about to be sent."""
        install_streams(self)

    def close(self) -> None:
        """No worker executes it any more, or it was not sent."""
        if not self._haunted:
            remove_streams(self)

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def stdout(self) -> Mapping[int, str]:
        """Worker -> what it wrote; of more than `transcript.LIMIT` characters the two ends."""
        return {worker: lines.text for worker, lines in self._lines.items()}

    def context(self, worker: int) -> contextvars.Context:
        """An empty one: the caller's may hold what no two workers should share, decimal's context for one."""
        context = contextvars.Context()
        context.run(current_writer.set, self._lines[worker])
        return context

    def render(self, value: Any) -> Mapping[str, Any]:
        """Its text."""
        return {"text/plain": text_of(value)}

    def ended(self, worker: int) -> None:
        """See `CellScope.ended`."""
        self._lines[worker].finish()
        self._running.discard(worker)
        if not self._running:
            remove_streams(self)

    def abandoned(self, worker: int) -> None:
        """See `CellScope.abandoned`. The context of its thread keeps this scope until that has ended."""
        self._haunted = True
        self._lines[worker].close()
