r"""What cells print where no notebook shows it: whole lines, each labelled with its worker's number.

::

    print("loss", x) on worker 2 --> unfinished lines wait --> "[2] loss 0.5\n" to the caller's stream
                                  \-> `CellResult.stdout`, as it was written

Nothing is held back for a worker that runs alone: its prompts and progress bars appear as they come.
"""

from __future__ import annotations

import re
import sys
import time
from abc import ABC, abstractmethod
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.current import is_beside
from disco_magic.functions.execution.running import text_of
from disco_magic.functions.execution.unfinished import Unfinished
from disco_magic.isolation.streams import current_writer, install_streams, put, remove_streams
from disco_magic.phrases import padded
from disco_magic.threads.locks import new_rlock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from disco_magic.functions.execution.cells import Cell
    from disco_magic.functions.execution.running import CellRunner, CellValue

_PIECE: Final = re.compile("[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")


def _raw(function: Callable[..., object], *args: object) -> None:
    """Call a stream's own method: proxies below it must not take the text for the worker's again."""
    token = current_writer.set(None)
    try:
        function(*args)
    finally:
        current_writer.reset(token)


class _Text(ABC):
    """A worker's text during one cell; a `streams.Writer`.

    The lock is not held while the caller's stream is written to, because that may wait forever.
    """

    def __init__(self, worker: int, among: int) -> None:
        self._label = f"{padded((worker,), among)} "
        self.margin = len(self._label)  # columns of a terminal that bars cannot use
        # Reentrant: a finalizer that prints may run while its thread holds it. Threads may share a context.
        self._lock = new_rlock()
        self._transcript = Transcript()
        self._bases: dict[str, Any] = {}  # channel -> the caller's stream
        self.is_closed = False
        self.shown_s = time.monotonic()  # when anything was last shown, or when the cell was sent

    @property
    def text(self) -> str:
        with self._lock:
            return self._transcript.text

    def writer(self, channel: str, base: Any) -> Callable[[str], int]:
        return partial(self._write, channel, base)

    def flush(self, channel: str, base: Any) -> None:  # noqa: ARG002 - a Writer's signature
        _raw(base.flush)

    def _write(self, channel: str, base: Any, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if text and (not self.is_closed or is_beside()):  # else its thread was given up
            with self._lock:
                self._transcript.add(text)
                self._bases[channel] = base
                shown = self._shown(channel, text)
                before = self._before(channel) if shown else {}
            if shown:
                self.shown_s = time.monotonic()
                for other, ended in before.items():
                    _raw(put, self._bases[other], ended)
                _raw(put, base, shown)
        return len(text)

    @abstractmethod
    def _shown(self, channel: str, text: str) -> str:
        """The part of `text`, which is not empty, to be shown at once."""

    def _before(self, channel: str) -> Mapping[str, str]:  # noqa: ARG002 - a worker alone holds nothing back
        """What comes on other channels before lines of this one: bars that have ended."""
        return {}

    @abstractmethod
    def _end(self, channel: str) -> str:
        """What ends an unfinished line of the channel; empty if there is none."""

    def finish(self) -> None:
        """End unfinished lines when the cell has ended."""
        for channel, base in self._bases.copy().items():
            with self._lock:  # a thread that the cell has started may be writing
                end = "" if self.is_closed else self._end(channel)
            if end:
                put(base, end)


class _Alone(_Text):
    """Text of a worker that runs the cell alone: all of it, labelled where a line begins or is redrawn."""

    def __init__(self, worker: int, among: int) -> None:
        super().__init__(worker, among)
        self._labelled: dict[str, bool] = {}  # channels within a line; False: it is about to be redrawn

    def _shown(self, channel: str, text: str) -> str:
        begun, shown = self._labelled.get(channel, False), []
        for piece in _PIECE.findall(text):
            shown.append(piece if begun or piece == "\r" else self._label + piece)
            begun = piece[-1] not in "\r\n"
        if text[-1] == "\n":
            self._labelled.pop(channel, None)
        else:
            self._labelled[channel] = begun
        return "".join(shown)

    def _end(self, channel: str) -> str:
        return "" if self._labelled.pop(channel, None) is None else "\n"


class _Lines(_Text):
    """Text of one of several workers: its lines, when they are complete, as a terminal shows them then."""

    def __init__(self, worker: int, among: int) -> None:
        super().__init__(worker, among)
        self._pending: dict[str, Unfinished] = {}

    def _shown(self, channel: str, text: str) -> str:
        pending = self._pending.get(channel)
        if pending is None:
            pending = self._pending[channel] = Unfinished()
        return self._labelled(pending.feed(text, _may_move))

    def _before(self, channel: str) -> Mapping[str, str]:
        resting = [other for other, each in self._pending.items() if other != channel and each.resting]
        return {other: self._end(other) for other in resting}

    def _labelled(self, lines: Sequence[str]) -> str:
        return "".join([f"{self._label}{line}\n" for line in lines])

    def _end(self, channel: str) -> str:
        pending = self._pending.pop(channel, None)
        return "" if pending is None else self._labelled(pending.rest())


def _may_move() -> bool:
    """Whether tqdm draws bars, which it counts per process: one that is not the first moves between lines."""
    std = sys.modules.get("tqdm.std")
    return bool(getattr(getattr(std, "tqdm", None), "_instances", ()))


class _Own:
    """Replaces the cell's context by the worker's own: variables that the cell sets stay set."""

    def __init__(self, printed: Printed, worker: int) -> None:
        # While a thread that was given up is in here, its proxies stay.
        self._printed = printed
        self._worker = worker

    def run(self, runner: CellRunner, cell: Cell, _: object) -> CellValue:
        """Like `contextvars.Context.run`."""
        text = self._printed.texts[self._worker]
        token = current_writer.set(text)
        try:
            return runner(cell, None)
        finally:
            current_writer.reset(token)
            try:
                text.finish()
            finally:
                self._printed.ended(self._worker)


class Printed:
    """A `CellScope` for one cell that no front end shows.

    From `open` until all workers have ended the cell, including threads that were given up, proxies for
    sys.stdout and sys.stderr find out who is writing.

    Attributes:
        texts: what each worker prints.
    """

    def __init__(self, workers: Sequence[int], among: int = 1) -> None:
        kind = _Alone if len(workers) == 1 else _Lines
        self.texts: dict[int, _Text] = {worker: kind(worker, among) for worker in workers}
        self._running = set(workers)

    def open(self) -> None:
        """Prepare for the cell, which is about to be sent."""
        install_streams(self)

    def close(self) -> None:
        """No thread executes the cell any more, or it was not sent: clean up."""
        remove_streams(self)

    @property
    def stdout(self) -> Mapping[int, str]:
        """Worker -> what it wrote; of a text longer than `LIMIT`, the beginning and the end."""
        return {worker: each.text for worker, each in self.texts.items()}

    def quiet_since(self) -> float:
        """When the cell has last shown anything, or when it was sent, as `time.monotonic`."""
        return max(each.shown_s for each in self.texts.values())

    def context(self, worker: int) -> Any:
        """See `CellScope.context`."""
        return _Own(self, worker)

    def render(self, value: Any) -> Mapping[str, Any]:
        """See `CellScope.render`: the text that a worker makes of the value without a scope."""
        return {"text/plain": text_of(value)}

    def ended(self, worker: int) -> None:
        """See `CellScope.ended`."""
        self._running.discard(worker)
        if not self._running:
            self.close()

    def skipped(self, worker: int) -> None:
        """See `CellScope.skipped`."""
        self.ended(worker)

    def abandoned(self, worker: int) -> None:
        """See `CellScope.abandoned`. Writes nothing, because the thread may be waiting for a stream."""
        self.texts[worker].is_closed = True


LIMIT = 1 << 20
"""Characters kept per worker and cell: of a longer text, the first half of this, and at least the last."""


class Transcript:
    """The text of one worker. The middle of a long text is dropped, which a line in its place says.

    Keeps the first half of `limit` and at least the last. Not locked: its writer holds a lock.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._half = limit // 2
        self._head: list[str] = []
        self._head_size = 0
        self._tail: deque[str] = deque()
        self._tail_size = 0
        self._dropped = 0

    def add(self, text: str) -> None:
        """Append `text`."""
        room = self._half - self._head_size
        if room > 0:
            self._head.append(text[:room])
            self._head_size += len(self._head[-1])
            text = text[room:]
        if text:
            self._tail.append(text)
            self._tail_size += len(text)
            self._shrink()

    def _shrink(self) -> None:
        """Drop whole pieces from the front of the tail, then cut the next one if it is too long."""
        while self._tail_size - len(self._tail[0]) >= self._half:
            gone = len(self._tail.popleft())
            self._tail_size -= gone
            self._dropped += gone
        surplus = self._tail_size - 2 * self._half
        if surplus > 0:
            self._tail[0] = self._tail[0][surplus:]
            self._tail_size -= surplus
            self._dropped += surplus

    @property
    def text(self) -> str:
        """Everything that was kept."""
        gap = f"\n... {self._dropped:,} characters left out ...\n" if self._dropped else ""
        return "".join(self._head) + gap + "".join(self._tail)
