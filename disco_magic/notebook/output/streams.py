"""The objects that stand in for sys.stdout and sys.stderr while cells run, and who is writing to them.

What callers may rely on: a thread whose context names a sink writes to that sink; every other thread
writes to the stream that was there before, and cannot tell the difference.
"""

from __future__ import annotations

import sys
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from disco_magic.notebook.output.sink import Sink

CHANNELS: Final = ("stdout", "stderr")

current_sink: ContextVar[Sink | None] = ContextVar("disco_magic_sink", default=None)
"""The sink of the worker whose cell the calling thread executes."""


class WorkerStream:
    """A stream that sends what workers write to their sinks and everything else to `base`.

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
        return current_sink.get() is not None

    @property
    def write(self) -> Callable[[str], int | None]:
        """The function that takes text from the calling thread."""
        sink = current_sink.get()
        if sink is not None:
            return sink.writer(self._channel)
        return self._override or self._base.write

    @write.setter
    def write(self, function: Callable[[str], int | None]) -> None:
        object.__setattr__(self, "_override", function)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write every string of `lines`."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flush the base. From a worker: show an unfinished line, at most a few times a second.

        A worker's flush does not reach the base: ``print(..., flush=True)`` in four workers would send a
        message per line instead of one per 0.2 s.
        """
        sink = current_sink.get()
        if sink is not None:
            sink.flush(self._channel)
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


def install_streams() -> None:
    """Put a `WorkerStream` before whatever sys.stdout and sys.stderr are now, where there is none yet."""
    for channel in CHANNELS:
        stream = getattr(sys, channel)
        if not isinstance(stream, WorkerStream):
            setattr(sys, channel, WorkerStream(stream, channel))


def remove_streams() -> None:
    """Take the `WorkerStream` objects away again; a foreign stream that lies over one stays."""
    for channel in CHANNELS:
        setattr(sys, channel, unwrapped(getattr(sys, channel)))
