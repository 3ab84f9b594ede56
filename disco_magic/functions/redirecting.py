"""``contextlib.redirect_stdout`` and ``redirect_stderr`` on workers: each of them redirects what is its own.

They replace a stream of the process. Several workers at once would get each other's lines, and leave a wrong
stream behind: from then on nobody sees what the program prints. So a worker inside of one has a writer that
hands its text to the target; ``sys.stdout`` stays what it is, and looks like the target there.
"""

from __future__ import annotations

import contextlib
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from disco_magic.functions.replaced import Replaced
from disco_magic.functions.streams import WorkerStream, Writer, current_writer, unwrapped

if TYPE_CHECKING:
    from collections.abc import Callable


class Redirected:
    """What a worker writes to one channel goes to a target, the rest where it went; a `streams.Writer`.

    While the target writes, the worker has the writer of before: targets hand text on to ``sys.stdout`` as it
    was when they were made, which is this very stand-in.

    Args:
        channel: ``"stdout"`` or ``"stderr"``.
        target: a stream, or None for nowhere.
        below: the worker's writer outside of the block.
    """

    def __init__(self, channel: str, target: Any, below: Writer) -> None:
        self._channel, self._target, self._below = channel, target, below
        self._token = current_writer.set(self)
        self._is_over = False
        _inside.add(self)

    def end(self) -> None:
        """The block is left: threads that were started in it write where the worker does."""
        self._is_over = True
        _inside.discard(self)
        if not _active and not _inside:
            _EXIT.take()
        with suppress(ValueError):  # a generator that goes on in another context; that one ends with its cell
            current_writer.reset(self._token)

    def writer(self, channel: str, base: Any) -> Callable[[str], int | None]:
        """See `Writer`."""
        return self._write if self._takes(channel) else self._below.writer(channel, base)

    def flush(self, channel: str, base: Any) -> None:
        """See `Writer`."""
        if not self._takes(channel):
            self._below.flush(channel, base)
        elif self._target is not None:
            self._beneath("flush")

    def instead(self, channel: str) -> Any:
        """See `Writer`."""
        return unwrapped(self._target) if self._takes(channel) else self._below.instead(channel)

    def _takes(self, channel: str) -> bool:
        return channel == self._channel and not self._is_over

    def _write(self, text: str) -> int | None:
        return len(text) if self._target is None else self._beneath("write", text)

    def _beneath(self, method: str, *args: Any) -> Any:
        token = current_writer.set(self._below)
        try:
            return getattr(self._target, method)(*args)
        finally:
            current_writer.reset(token)

    @property
    def bottom(self) -> Writer:
        """See `Writer`."""
        return self._below.bottom


def begin() -> None:
    """From now on it is done so. Idempotent."""
    _active[:] = [True]
    _ENTER.put()
    _EXIT.put()


def end() -> None:
    """No more; who is inside of a block gets out of it all the same. Idempotent."""
    _active.clear()
    _ENTER.take()
    if not _inside:
        _EXIT.take()


def _enter(self: Any) -> Any:
    writer, channel = current_writer.get(), self._stream
    if writer is None or not isinstance(getattr(sys, channel, None), WorkerStream):
        return _ENTER.below(self)
    self._old_targets.append(Redirected(channel, self._new_target, writer))
    return self._new_target


def _exit(self: Any, *about: Any) -> Any:
    if not (self._old_targets and type(self._old_targets[-1]) is Redirected):
        return _EXIT.below(self, *about)
    self._old_targets.pop().end()
    return None


_active: list[bool] = []
_inside: Final[WeakSet[Redirected]] = WeakSet()  # a generator may be dropped in the middle of one
_KIND: Final[Any] = contextlib._RedirectStream  # noqa: SLF001 - there is no other way
_ENTER: Final = Replaced(_KIND, "__enter__", _enter)
_EXIT: Final = Replaced(_KIND, "__exit__", _exit)
