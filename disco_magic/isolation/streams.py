"""Stand-ins for sys.stdout and sys.stderr while cells run, which find out who is writing to them.

Callers may rely on this: a thread whose context names a writer writes to that writer; every other thread
writes to the stream that was there before, and cannot tell the difference.

A stand-in outlives its time as ``sys.stdout``. Before 3.13.3, CPython's `print` holds no reference to the
stream that it writes to: if another thread replaces ``sys.stdout`` meanwhile, and nothing else refers to that
stream, the process ends with a segmentation fault. So the last `_KEPT` are kept, and reused over the same
streams.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol
from weakref import ref

from disco_magic.callers.module_classes import SYS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from disco_magic.isolation.own_streams import OwnStreams

CHANNELS: Final = ("stdout", "stderr")
# That many replacements during one `print` would be needed to crash; each keeps the stream below it alive.
_KEPT: Final = 16


class Writer(Protocol):
    """Takes what a worker writes during one cell."""

    def writer(self, channel: str, base: Any) -> Callable[[str], int | None]:
        """Return ``sys.stdout.write`` (or stderr's) for this worker; `base`: the stream that was there."""

    def flush(self, channel: str, base: Any) -> None:
        """Do what ``sys.stdout.flush()`` (or stderr's) is to do in the worker."""


current_writer: ContextVar[Writer | None] = ContextVar("disco_magic_writer", default=None)
"""The writer of the worker whose cell the calling thread executes."""
own_streams: ContextVar[OwnStreams | None] = ContextVar("disco_magic_streams", default=None)
"""The streams that this worker has assigned in place of its own."""


class WorkerStream:
    """A stream that sends what workers write to their writers and everything else to `base`.

    `write` is a data descriptor with a setter because IPython assigns ``sys.stdout.write`` for the time of
    every cell and restores the old value afterwards: a plain method would be shadowed for workers too. Any
    other attribute is read from the base and set on the base: ipykernel asks for `set_parent`, and a stand-in
    without it would send the next cell's output to the previous cell.
    """

    __slots__ = ("__weakref__", "_base", "_channel", "_override")  # loggers refer to streams weakly
    _base: Any
    _channel: str
    _override: Callable[[str], int | None] | None

    def __init__(self, base: Any, channel: str) -> None:
        object.__setattr__(self, "_base", base)
        object.__setattr__(self, "_channel", channel)
        object.__setattr__(self, "_override", None)

    def is_over(self, base: Any, channel: str) -> bool:
        """Whether this stands in for that stream on that channel."""
        return self._base is base and self._channel == channel

    def is_of(self, channel: str) -> bool:
        """Whether the stream that it stands in for is ``sys.stdout``, or stderr, as `channel` says."""
        return self._channel == channel

    def seen_as(self, kind: type[WorkerStream], last: WorkerStream | None) -> WorkerStream:
        """Return a stream of that kind over the same base; `last` if it is one."""
        if last is None or not last.is_over(self._base, self._channel):
            return kind(self._base, self._channel)
        return last

    def _own(self) -> Any:
        """What a worker that has assigned another stream writes to instead of this one; else None."""
        streams = own_streams.get()
        return None if streams is None or not streams.instead else streams.instead.get(self._channel)

    @property
    def names_worker(self) -> bool:
        """Whether what the calling thread writes is shown under its worker's id; `logs` asks."""
        return current_writer.get() is not None and self._own() is None

    @property
    def plain_write(self) -> Callable[[str], int | None]:
        """The function that takes text of threads without a writer, as IPython may have assigned it."""
        return self._override or self._base.write

    @property
    def write(self) -> Callable[[str], int | None]:
        """The function that takes text from the calling thread."""
        writer = current_writer.get()
        if writer is None:
            write = self.plain_write
            return partial(put, self._base, write=write) if _ways else write
        own = self._own()
        return writer.writer(self._channel, self._base) if own is None else own.write

    @write.setter
    def write(self, function: Callable[[str], int | None]) -> None:
        # Before each cell IPython takes what `write` returns, and assigns it again after the cell. Kept as
        # it is, it would be wrapped once more by each cell, until Python's recursion limit is reached.
        while isinstance(function, partial) and function.func is put:
            function = function.keywords["write"]
        object.__setattr__(self, "_override", function)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write every string of `lines`."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flush the base; on a worker, call `flush` of its writer instead.

        In a notebook that does not reach the base: ``print(..., flush=True)`` in four workers would send a
        message per line instead of one per 0.2 s.
        """
        writer = current_writer.get()
        own = None if writer is None else self._own()
        if own is not None:
            own.flush()
        elif writer is not None:
            writer.flush(self._channel, self._base)
        else:
            self._base.flush()

    def close(self) -> None:
        """Close the base; on a worker, its own stream, or let it have a closed one from now on."""
        if current_writer.get() is None:
            self._base.close()
            return
        own, streams = self._own(), own_streams.get()
        if own is not None:
            own.stream.close()
        elif streams is not None:
            closed = io.StringIO()
            closed.close()
            streams.put(self._channel, closed)

    def detach(self) -> Any:
        """Detach the base, whose buffer all workers and the notebook write to: not on a worker."""
        if current_writer.get() is not None:
            raise io.UnsupportedOperation(
                f"detach: all workers and the notebook write to sys.{self._channel}"
            )
        return self._base.detach()

    def __getattr__(self, name: str) -> Any:
        own = None if current_writer.get() is None else self._own()
        return getattr(self._base if own is None else own.stream, name)

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


# No lock guards these: a finalizer may run a cell anywhere in here, whose worker comes here, too. And weak
# references have no callbacks: a Ctrl-C that strikes in one is lost.
_owners: Final[list[ref[object]]] = []
_stand_ins: Final[dict[tuple[int, str], WorkerStream]] = {}  # by base and channel, the last used one last


def install_streams(owner: object) -> None:
    """Put a `WorkerStream` over the present sys.stdout and sys.stderr, where there is none yet."""
    _drop(owner)
    _owners.append(ref(owner))
    _put()


def remove_streams(owner: object) -> None:
    """Remove the `WorkerStream` objects if no other owner is left.

    One below somebody else's stream stays. That is harmless: while no worker executes a cell, it passes
    everything on.
    """
    _drop(owner)
    if _owners:
        return
    for channel in CHANNELS:
        stream = SYS.get(channel)
        if isinstance(stream, WorkerStream):
            SYS[channel] = stream._base  # noqa: SLF001 - as `unwrapped`, without a call: every cell does this
    if _owners:  # another owner has come meanwhile and found them in place
        _put()


def present() -> dict[str, Any]:
    """The process's sys.stdout and sys.stderr, streams or stand-ins, for `put_back`."""
    return {channel: SYS.get(channel) for channel in CHANNELS}


def put_back(before: Mapping[str, Any]) -> None:
    """Make what `present` gave ``sys.stdout`` and ``sys.stderr`` again.

    A stand-in over a stream stays, or is put there, until `remove_streams`: workers may be writing. A closed
    stream is not put back: the code that closed it has also assigned the present one.
    """
    for channel, stream in before.items():
        now = SYS.get(channel)
        if now is stream or (isinstance(now, WorkerStream) and now._base is stream):  # noqa: SLF001 - as above
            continue  # as after most cells
        base = unwrapped(stream)
        if unwrapped(SYS.get(channel)) is not base and not _is_closed(base):
            bare = stream is not None and stream is base
            SYS[channel] = _stand_in(stream, channel) if bare else stream


def put_below(channel: str, stream: Any) -> None:
    """Make `stream`, or the one below it, the process's; under a stand-in while there are owners.

    In one step: workers may be writing, for whom a bare stream would be the place to write to.
    """
    base = unwrapped(stream)
    SYS[channel] = base if base is None or not _owners else _stand_in(base, channel)


def _is_closed(stream: Any) -> bool:
    try:
        return getattr(stream, "closed", False) is True
    except ValueError:  # it was detached from its buffer
        return True


def _put() -> None:
    for channel in CHANNELS:
        stream = SYS.get(channel)
        if stream is not None and not isinstance(stream, WorkerStream):
            SYS[channel] = _stand_in(stream, channel)


def _stand_in(base: Any, channel: str) -> WorkerStream:
    """Return the stand-in that was over `base` before, or a new one."""
    key = id(base), channel  # no other object gets the number while the stand-in refers to this one
    found = _stand_ins.pop(key, None) or WorkerStream(base, channel)
    _stand_ins[key] = found  # as the most recently used one
    if len(_stand_ins) > _KEPT:
        for oldest in list(_stand_ins)[:-_KEPT]:
            _stand_ins.pop(oldest, None)
    # Drop what was assigned to it when it was last in use: as ``del found.write``, for every cell.
    object.__setattr__(found, "_override", None)
    return found


def _drop(owner: object) -> None:
    """Forget `owner`, and the owners that are gone."""
    for each in list(_owners):
        if each() in (None, owner):
            try:  # noqa: SIM105 - every cell does this, and `suppress` takes three calls more
                _owners.remove(each)
            except ValueError:
                pass  # another thread has removed it


# How text of cells that no front end shows, and of threads without a writer, gets into a stream, if one wants
# to know of it: the last one.
Way = Callable[[Any, str, Callable[[str], int | None]], int | None]
_ways: Final[list[Way]] = []


def put_by(way: Way) -> Callable[[], None]:
    """Let ``way(stream, text, write)`` write such text; return what undoes it."""
    _ways.append(way)
    return partial(_ways.remove, way)


def put(stream: Any, text: str, write: Callable[[str], int | None] | None = None) -> int | None:
    """Write text of a cell that no front end shows, or of a thread without a writer; `write`: how."""
    write = write or stream.write
    way = next(iter(_ways[-1:]), None)  # in one step: another thread may undo it
    return write(text) if way is None else way(stream, text, write)
