"""Log handlers that hold a stream of the notebook's: while cells run they write to its stand-in instead.

A handler keeps the stream that was `sys.stderr` when it was made. One made in the notebook, before or after
the extension was loaded, would show lines of workers without their ids, and torn.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

from disco_magic.isolation.streams import CHANNELS, WorkerStream, unwrapped

if TYPE_CHECKING:
    from collections.abc import Iterator


def route_handlers() -> None:
    """Let handlers whose stream lies below `sys.stdout` or `sys.stderr` write to those; costs 1 us."""
    streams = [getattr(sys, channel) for channel in CHANNELS]
    for handler in _stream_handlers():
        for stream in streams:
            if handler.stream is unwrapped(stream):
                # Not setStream: it waits for the handler's lock, which a stuck worker may hold for ever.
                handler.stream = stream


def release_handlers() -> None:
    """Give handlers back the streams themselves, those that were made on a worker too."""
    for handler in _stream_handlers():
        if isinstance(handler.stream, WorkerStream):
            handler.stream = unwrapped(handler.stream)


def _stream_handlers() -> Iterator[logging.StreamHandler[Any]]:
    # All handlers alive, as `logging.shutdown` finds them: asking every logger would take 100 us per cell.
    for reference in list(getattr(logging, "_handlerList", ())):
        handler = reference()
        # That of Python's last resort is no attribute of its own, but always sys.stderr.
        if isinstance(handler, logging.StreamHandler) and "stream" in vars(handler):
            yield handler
