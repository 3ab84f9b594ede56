"""Redirects log handlers that hold a stream of the notebook: while cells run they write to its stand-in.

A handler keeps the stream that was `sys.stderr` when it was made. One made in the notebook, before or after
the extension was loaded, would show workers' lines without their ids, and in pieces.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from disco_magic.isolation.streams import WorkerStream, present, unwrapped

if TYPE_CHECKING:
    from collections.abc import Iterator


def route_handlers() -> None:
    """Let handlers with the stream below `sys.stdout` or `sys.stderr` write to these; takes 1 us."""
    streams = present()
    for handler in _stream_handlers():
        for stream in streams.values():
            if handler.stream is unwrapped(stream):
                # Not setStream, which waits for the handler's lock: a stuck worker may hold it for ever.
                handler.stream = stream


def release_handlers() -> None:
    """Give handlers back the original streams, also handlers that were made on a worker."""
    for handler in _stream_handlers():
        if isinstance(handler.stream, WorkerStream):
            handler.stream = unwrapped(handler.stream)


def _stream_handlers() -> Iterator[logging.StreamHandler[Any]]:
    # All live handlers, found as in `logging.shutdown`: asking every logger would take 100 us per cell.
    for reference in list(getattr(logging, "_handlerList", ())):
        handler = reference()
        # The handler of last resort has no attribute `stream` of its own: it always uses sys.stderr.
        if isinstance(handler, logging.StreamHandler) and "stream" in vars(handler):
            yield handler
