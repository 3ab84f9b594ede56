"""``sys.stdout`` and ``sys.stderr`` that a worker assigns are its own.

Programs silence all ranks but the first by ``sys.stdout = open(os.devnull, "w")``, or let each write a file;
`contextlib.redirect_stdout`, `doctest` and many libraries replace a stream for a while. In one process that
would silence all workers and the notebook, and several at once would leave a wrong one behind. So what a
cell's code assigns is the worker's, as in a process, until it assigns another one or the worker ends; what a
program assigns ends with the program.

A worker that reads ``sys.stdout`` gets the stream that it has assigned, or else a `Plain`, which writes where
the worker's output goes, whatever was assigned since: code that keeps it, to write to it or to restore it,
finds it unchanged. ``vars(sys)`` has the process's stream: `print` in C looks there, and finds the stand-in,
which passes on what the worker writes.
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
    """The stream of a worker that has not assigned another one."""

    __slots__ = ()

    def _own(self) -> None:
        return None


class _Instead:
    """A stream that a worker has assigned in place of its own, for writers to it; None: nothing is written.

    While it is called, the worker has none assigned: it may pass the text to the stand-in, which would return
    it.
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.is_inherited = False

    def write(self, text: str) -> int | None:
        """Write `text`, as a stream does."""
        return len(text) if self.stream is None else self._call("write", text)

    def flush(self) -> None:
        """Flush it, as a stream does."""
        if self.stream is not None:
            self._call("flush")

    def end(self) -> None:
        """Flush the stream for the last time, as the end of a process does; in its worker's thread.

        Not one that a given-up thread may be writing to: flushing would wait for that thread.
        """
        flush = None if self.is_inherited else getattr(self.stream, "flush", None)
        try:
            if flush is not None:
                flush()
        except (OSError, ValueError):
            pass  # it was closed, or its disk is full: its writer has got the error
        except Exception:  # noqa: BLE001 - the user's own; the rest has to end, too
            traceback.print_exc()

    def _call(self, method: str, *args: Any) -> Any:
        token = own_streams.set(None)
        try:
            return getattr(self.stream, method)(*args)
        finally:
            own_streams.reset(token)


class OwnStreams:
    """The streams that one worker has assigned."""

    def __init__(self) -> None:
        self.instead: dict[str, _Instead] = {}
        self._plain: dict[str, WorkerStream] = {}

    @property
    def now(self) -> dict[str, Any]:
        """Channel -> the stream that the worker has assigned."""
        if not self.instead:
            return {}
        return {channel: each.stream for channel, each in self.instead.copy().items()}

    def restore(self, instead: Mapping[str, Any]) -> list[_Instead]:
        """Restore an earlier state, which `now` gave.

        Returns the streams that were assigned since: to be ended after everything else was restored, as a
        write that blocks would hold up the rest.
        """
        ended = []
        for channel, each in self.instead.copy().items():
            if channel not in instead or instead[channel] is not each.stream:
                self.put(channel, instead.get(channel, _NOTHING))
                ended.append(each)
        for channel in instead.keys() - self.instead.keys():
            self.put(channel, instead[channel])
        return ended

    def inherit(self, instead: Mapping[str, Any]) -> None:
        """Begin with the streams of a thread that was given up, which its `now` gave."""
        self.restore(instead)
        for each in self.instead.values():
            each.is_inherited = True

    def get(self, channel: str, process: Any) -> Any:
        """Return the stream as the worker reads it.

        Args:
            channel: "stdout" or "stderr".
            process: the process's stream. One that was put over our stand-in, or None, is not hidden.
        """
        own = self.instead.get(channel)
        if own is not None:
            return own.stream
        if not isinstance(process, WorkerStream):
            return process
        plain = self._plain[channel] = process.seen_as(Plain, self._plain.get(channel))
        return plain

    def put(self, channel: str, stream: Any) -> None:
        """Assign a stream; one of ours for this channel, or Python's first, means none."""
        is_ours = isinstance(stream, WorkerStream) and stream.is_of(channel)
        if stream is _NOTHING or is_ours or stream is SYS.get(f"__{channel}__", _NOTHING):
            self.instead.pop(channel, None)
        else:
            self.instead[channel] = _Instead(stream)


def end_all(ended: Iterable[_Instead]) -> None:
    """End the streams that `OwnStreams.restore` has returned."""
    for each in ended:
        each.end()


def _mine() -> OwnStreams | None:
    """The streams of the worker whose cell the calling thread executes; None: there is none."""
    return None if current_writer.get() is None else own_streams.get()


def read(channel: str, _: object = None) -> Any:
    """Return the caller's ``sys.stdout``, or stderr."""
    try:
        process = SYS[channel]
    except KeyError:
        raise AttributeError(f"module 'sys' has no attribute {channel!r}", name=channel, obj=sys) from None
    mine = None if current_writer.get() is None else own_streams.get()  # `_mine`, written out
    return process if mine is None else mine.get(channel, process)


def assign(channel: str, stream: Any) -> None:
    """Set the caller's ``sys.stdout``, or stderr."""
    mine = _mine()
    if mine is not None:
        mine.put(channel, stream)
    elif isinstance(stream, WorkerStream) and not isinstance(stream, Plain):
        SYS[channel] = stream
    else:  # any stream, or a Plain: another thread leaves a worker's block, whose generator was dropped
        put_below(channel, stream)


def delete(channel: str) -> None:
    """Do ``del sys.stdout``, or stderr: a worker again has what it had at first."""
    mine = _mine()
    if mine is not None:
        mine.put(channel, _NOTHING)
    elif SYS.pop(channel, _NOTHING) is _NOTHING:
        raise AttributeError(channel, name=channel, obj=sys)
