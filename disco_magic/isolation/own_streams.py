"""``sys.stdout`` and ``sys.stderr`` that a worker puts in the place of its own.

Programs silence all ranks but the first by ``sys.stdout = open(os.devnull, "w")``, or let each write a file;
`contextlib.redirect_stdout`, `doctest` and many libraries replace a stream for a while. In one process that
would silence all workers and the notebook, and several at once would leave a wrong one behind. So, as in a
process of its own, what code of a cell assigns is the worker's, until it assigns another one or the worker
ends; a program's ends with the program.

A worker that reads ``sys.stdout`` gets the stream that it has put there, or else `Plain`, which writes where
the worker's output goes, whatever it has put there since: who keeps that to hand on to it, or to put it back,
finds it as it was. ``vars(sys)`` has the process's: `print` in C asks there, and the stand-in that it finds
hands over what the worker writes.
"""

from __future__ import annotations

import sys
import traceback
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.module_classes import SYS
from disco_magic.isolation.streams import WorkerStream, current_writer, own_streams, put_below

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NOTHING: Final = object()


class Plain(WorkerStream):
    """What a worker finds as its stream if it has not put another one there."""

    __slots__ = ()

    def _own(self) -> None:
        return None


class _Instead:
    """A stream that a worker has put in the place of its own, for who writes to that; None: nowhere.

    While it writes, the worker has none: it may hand the text on to the stand-in, which would give it back.
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.is_inherited = False

    def write(self, text: str) -> int | None:
        """As a stream's."""
        return len(text) if self.stream is None else self._call("write", text)

    def flush(self) -> None:
        """As a stream's."""
        if self.stream is not None:
            self._call("flush")

    def end(self) -> None:
        """Nobody will write to it any more: flush it, as the end of a process does; in its worker's thread.

        Not one that a thread which was given up may be writing to: that would wait for it.
        """
        flush = None if self.is_inherited else getattr(self.stream, "flush", None)
        try:
            if flush is not None:
                flush()
        except (OSError, ValueError):
            pass  # it was closed, or its disk is full: who wrote there has been told
        except Exception:  # noqa: BLE001 - the user's own; whatever else ends has to end
            traceback.print_exc()

    def _call(self, method: str, *args: Any) -> Any:
        token = own_streams.set(None)
        try:
            return getattr(self.stream, method)(*args)
        finally:
            own_streams.reset(token)


class OwnStreams:
    """Those of one worker.

    Attributes:
        instead: channel -> what it has put there, for who writes to it.
    """

    def __init__(self) -> None:
        self.instead: dict[str, _Instead] = {}
        self._plain: dict[str, WorkerStream] = {}

    @property
    def now(self) -> dict[str, Any]:
        """Channel -> what it has put there."""
        return {channel: each.stream for channel, each in list(self.instead.items())}

    def restore(self, instead: Mapping[str, Any]) -> list[_Instead]:
        """Let it be what it was at another time, `now` of then.

        Returns what was put there since, and has ended: to be flushed when nothing else is to be put back, as
        a write that waits keeps what else it would be waited for with.
        """
        ended = []
        for channel, each in list(self.instead.items()):
            if channel not in instead or instead[channel] is not each.stream:
                self.put(channel, instead.get(channel, _NOTHING))
                ended.append(each)
        for channel in instead.keys() - self.instead.keys():
            self.put(channel, instead[channel])
        return ended

    def inherit(self, instead: Mapping[str, Any]) -> None:
        """Begin with what was there, `now` of then, on a thread that was given up."""
        self.restore(instead)
        for each in self.instead.values():
            each.is_inherited = True

    def get(self, channel: str, process: Any) -> Any:
        """The stream as the worker reads it.

        Args:
            channel: which.
            process: that of the process. One that lies over our stand-in, or none at all, is not hidden.
        """
        own = self.instead.get(channel)
        if own is not None:
            return own.stream
        if not isinstance(process, WorkerStream):
            return process
        plain = self._plain[channel] = process.seen_as(Plain, self._plain.get(channel))
        return plain

    def put(self, channel: str, stream: Any) -> None:
        """The worker puts a stream there; one of ours of this channel, or Python's first: it has none."""
        is_ours = isinstance(stream, WorkerStream) and stream.is_of(channel)
        if stream is _NOTHING or is_ours or stream is SYS.get(f"__{channel}__", _NOTHING):
            self.instead.pop(channel, None)
        else:
            self.instead[channel] = _Instead(stream)


def end_all(ended: Iterable[_Instead]) -> None:
    """End what `OwnStreams.restore` has found to have ended."""
    for each in ended:
        each.end()


def _mine() -> OwnStreams | None:
    """Of the worker whose cell the calling thread executes; None: there is none."""
    return None if current_writer.get() is None else own_streams.get()


def read(channel: str) -> Any:
    """``sys.stdout``, or stderr, of who asks.

    Raises:
        AttributeError: the process has none.
    """
    try:
        process = SYS[channel]
    except KeyError:
        raise AttributeError(f"module 'sys' has no attribute {channel!r}", name=channel, obj=sys) from None
    mine = _mine()
    return process if mine is None else mine.get(channel, process)


def assign(channel: str, stream: Any) -> None:
    """Let this be ``sys.stdout``, or stderr, of who calls."""
    mine = _mine()
    if mine is not None:
        mine.put(channel, stream)
    elif isinstance(stream, Plain):  # somebody else leaves the block of a worker: its generator was dropped
        put_below(channel, stream)
    else:
        SYS[channel] = stream


def delete(channel: str) -> None:
    """``del sys.stdout``, or stderr: a worker has again what it had at first."""
    mine = _mine()
    if mine is not None:
        mine.put(channel, _NOTHING)
    elif SYS.pop(channel, _NOTHING) is _NOTHING:
        raise AttributeError(channel, name=channel, obj=sys)
