"""The objects that stand in for sys.stdout and sys.stderr while cells run, and who is writing to them.

What callers may rely on: a thread whose context names a writer writes to that; every other thread writes to
the stream that was there before, and cannot tell the difference.
"""

from __future__ import annotations

import sys
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Protocol
from weakref import ref

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

CHANNELS: Final = ("stdout", "stderr")


class Writer(Protocol):
    """Takes what a worker writes during one cell."""

    def writer(self, channel: str) -> Callable[[str], int]:
        """``sys.stdout.write`` (or stderr's) for this worker."""

    def flush(self, channel: str) -> None:
        """``sys.stdout.flush()`` (or stderr's) in the worker."""


current_writer: ContextVar[Writer | None] = ContextVar("disco_magic_writer", default=None)
"""That of the worker whose cell the calling thread executes."""


class WorkerStream:
    """A stream that sends what workers write to their writers and everything else to `base`.

    `write` is a data descriptor with a setter because IPython assigns ``sys.stdout.write`` for the time of
    every cell and assigns the old value afterwards: a plain method would be shadowed for workers too. Any
    other attribute is the base's own, in both directions: ipykernel asks for `set_parent`, and a stand-in
    without it would send the next cell's output to the previous cell.
    """

    __slots__ = ("_base", "_channel", "_override")
    _base: Any
    _channel: str
    _override: Callable[[str], int | None] | None

    def __init__(self, base: Any, channel: str) -> None:
        object.__setattr__(self, "_base", base)
        object.__setattr__(self, "_channel", channel)
        object.__setattr__(self, "_override", None)

    @property
    def names_worker(self) -> bool:
        """Whether what the calling thread writes is shown under its worker's id; `functions.logs` asks."""
        return current_writer.get() is not None

    @property
    def write(self) -> Callable[[str], int | None]:
        """The function that takes text from the calling thread."""
        writer = current_writer.get()
        if writer is not None:
            return writer.writer(self._channel)
        return self._override or self._base.write

    @write.setter
    def write(self, function: Callable[[str], int | None]) -> None:
        object.__setattr__(self, "_override", function)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write every string of `lines`."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flush the base. From a worker: tell its writer.

        A worker's flush does not reach the base: ``print(..., flush=True)`` in four workers would send a
        notebook a message per line instead of one per 0.2 s.
        """
        writer = current_writer.get()
        if writer is not None:
            writer.flush(self._channel)
        else:
            self._base.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._base, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "write":
            object.__setattr__(self, name, value)
        else:
            setattr(self._base, name, value)

    def __delattr__(self, name: str) -> None:
        if name == "write":
            object.__setattr__(self, "_override", None)
        else:
            delattr(self._base, name)

    def __iter__(self) -> Any:
        return iter(self._base)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._channel} over {self._base!r}>"


def unwrapped(stream: Any) -> Any:
    """The stream below a `WorkerStream`, or `stream` itself."""
    return object.__getattribute__(stream, "_base") if isinstance(stream, WorkerStream) else stream


_lock: Final = threading.Lock()
# Without callbacks: a Ctrl-C that strikes in one is lost.
_owners: Final[list[ref[object]]] = []


def _others(owner: object) -> list[ref[object]]:
    """Those that are still there, but for `owner`."""
    return [each for each in _owners if (found := each()) is not None and found is not owner]


def install_streams(owner: object) -> None:
    """Put a `WorkerStream` before whatever sys.stdout and sys.stderr are now, where there is none yet.

    Args:
        owner: who needs them, until `remove_streams` or until it is gone.
    """
    with _lock:
        _owners[:] = [*_others(owner), ref(owner)]
        for channel in CHANNELS:
            stream = getattr(sys, channel)
            if stream is not None and not isinstance(stream, WorkerStream):
                setattr(sys, channel, WorkerStream(stream, channel))


def remove_streams(owner: object) -> None:
    """Take the `WorkerStream` objects away again if no other owner is left.

    One that lies under a foreign stream stays. That is harmless: it takes nothing from anybody.
    """
    with _lock:
        _owners[:] = _others(owner)
        if not _owners:
            for channel in CHANNELS:
                setattr(sys, channel, unwrapped(getattr(sys, channel)))
