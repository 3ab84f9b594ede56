"""``contextlib.redirect_stdout`` and ``redirect_stderr`` on workers: each of them redirects what is its own.

They replace a stream of the process. Several workers at once would get each other's lines, and leave a wrong
stream behind: from then on nobody sees what the program prints. So a worker inside of one has a writer that
hands its text to the target; ``sys.stdout`` stays what it is, and looks like the target there.
"""

from __future__ import annotations

import contextlib
import sys
from contextlib import suppress
from contextvars import Token
from typing import TYPE_CHECKING, Any, Final

from disco_magic.functions.replaced import Replaced
from disco_magic.functions.streams import WorkerStream, Writer, current_writer

if TYPE_CHECKING:
    from collections.abc import Callable


class Redirected:
    """What a worker writes to one channel goes to a target, the rest where it went; a `streams.Writer`.

    Args:
        channel: ``"stdout"`` or ``"stderr"``.
        target: a stream, or None for nowhere.
        below: the worker's writer outside of the block.
    """

    def __init__(self, channel: str, target: Any, below: Writer) -> None:
        self._channel, self._target, self._below = channel, target, below

    def writer(self, channel: str, base: Any) -> Callable[[str], int | None]:
        """See `Writer`."""
        if channel != self._channel:
            return self._below.writer(channel, base)
        return len if self._target is None else self._target.write

    def flush(self, channel: str, base: Any) -> None:
        """See `Writer`."""
        if channel != self._channel:
            self._below.flush(channel, base)
        elif self._target is not None:
            self._target.flush()

    def instead(self, channel: str) -> Any:
        """See `Writer`."""
        return self._target if channel == self._channel else self._below.instead(channel)

    @property
    def bottom(self) -> Writer:
        """See `Writer`."""
        return self._below.bottom


def begin() -> None:
    """From now on it is done so. Idempotent."""
    _ENTER.put()
    _EXIT.put()


def end() -> None:
    """No more; who is inside of a block gets out of it all the same. Idempotent."""
    _ENTER.take()
    if not _inside:
        _EXIT.take()


def _enter(self: Any) -> Any:
    writer, channel = current_writer.get(), self._stream
    if writer is None or not isinstance(getattr(sys, channel, None), WorkerStream):
        return _ENTER.below(self)
    redirected = Redirected(channel, self._new_target, writer)
    token = current_writer.set(redirected)
    _inside.add(id(token))
    self._old_targets.append(token)
    return self._new_target


def _exit(self: Any, *about: Any) -> Any:
    if not (self._old_targets and isinstance(self._old_targets[-1], Token)):
        return _EXIT.below(self, *about)
    token = self._old_targets.pop()
    _inside.discard(id(token))
    with suppress(ValueError):  # a generator that goes on in another context; that one ends with its cell
        current_writer.reset(token)
    return None


_inside: Final[set[int]] = set()
_KIND: Final[Any] = contextlib._RedirectStream  # noqa: SLF001 - there is no other way
_ENTER: Final = Replaced(_KIND, "__enter__", _enter)
_EXIT: Final = Replaced(_KIND, "__exit__", _exit)
