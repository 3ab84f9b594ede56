"""The sink for output of the calling thread."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from disco_magic.isolation.streams import current_writer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disco_magic.notebook.output.sink import Sink

current_sink: ContextVar[Sink | None] = ContextVar("disco_magic_sink", default=None)
"""The sink of the worker whose cell the calling thread executes."""


def use_sink(sink: Sink | None) -> None:
    """Send the output of the calling context to `sink`; None: to the process's streams."""
    current_sink.set(sink)
    current_writer.set(sink)


@contextmanager
def using_sink(sink: Sink | None) -> Iterator[None]:
    """`use_sink` in the ``with`` block."""
    tokens = current_sink.set(sink), current_writer.set(sink)
    try:
        yield
    finally:
        current_sink.reset(tokens[0])
        current_writer.reset(tokens[1])
