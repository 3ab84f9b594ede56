"""Handles `display` and `clear_output` on a worker, and errors of displaying a value there."""

from __future__ import annotations

import sys
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.replaced import replacing
from disco_magic.notebook.output.arrange import display_id
from disco_magic.notebook.output.streams import current_sink

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.callers.replaced import Replaced
    from disco_magic.notebook.shell import Shell

# What a wrapper of ours is passing on. One of an earlier cell may be below it, under a patch that somebody
# has put over that one while the cell ran.
_passed_on: ContextVar[object] = ContextVar("disco_passed_on", default=None)


class WorkerPublishing:
    """Wraps `publish` and `clear_output` of the shell's current display publisher.

    On the instance, because it may be a stand-in (``%%capture``). To make the wrappers takes 40 us, so a
    `Console` keeps them for its next cell.

    Attributes:
        publisher: the one that it wraps.
    """

    def __init__(self, shell: Shell) -> None:
        self.publisher = shell.display_pub
        self._replaced = _wrappers(shell, self.publisher)

    @property
    def is_up_to_date(self) -> bool:
        """Whether nothing else has wrapped the publisher since this was made."""
        publish, clear = self._replaced
        return publish.is_up_to_date and clear.is_up_to_date

    def put(self) -> None:
        """Wrap both, or none. Idempotent."""
        try:
            for each in self._replaced:
                each.put()
        except BaseException:  # an interrupt
            self.take()
            raise

    def take(self) -> None:
        """Unwrap them. Idempotent."""
        for each in reversed(self._replaced):
            each.take()


def _wrappers(shell: Shell, publisher: Any) -> list[Replaced]:
    @replacing(publisher, "publish")
    def publish(data: dict[str, Any], metadata: dict[str, Any] | None = None, **kwargs: Any) -> None:
        sink = current_sink.get()
        if sink is None or _passed_on.get() is data:
            publish.below(data, metadata, **kwargs)
        elif _is_text(shell, publisher, data, kwargs):
            sink.writer("stdout")(f"{data['text/plain']}\n")
        else:
            sink.display(partial(_pass_on, publish.below), data, {**kwargs, "metadata": metadata})

    @replacing(publisher, "clear_output")
    def clear(wait: bool = False) -> None:  # noqa: FBT001, FBT002 - IPython's own signature
        sink = current_sink.get()
        if sink is None:
            clear.below(wait=wait)
        else:
            sink.clear(clear.below, wait=wait)

    return [publish, clear]


def _pass_on(below: Callable[..., Any], data: dict[str, Any], **kwargs: Any) -> None:
    token = _passed_on.set(data)
    try:
        below(data, **kwargs)
    finally:
        _passed_on.reset(token)


def _is_text(shell: Shell, publisher: Any, data: dict[str, Any], kwargs: dict[str, Any]) -> bool:
    """Whether the front end can only show this as lines of text, now and later."""
    from IPython.core.displaypub import DisplayPublisher

    if "text/plain" not in data or kwargs.get("update") or display_id(kwargs):
        return False
    # The publisher of terminal IPython, where there is no front end, only prints the plain text.
    has_front_end = type(publisher) is not DisplayPublisher or getattr(shell, "mime_renderers", None)
    return set(data) == {"text/plain"} or not has_front_end


_FORMATTERS: Final = "IPython.core.formatters"


def worker_formatting(shell: Shell) -> Replaced:
    """The replacement of the shell's `showtraceback`: a cell whose value cannot be shown fails.

    IPython's formatters print the traceback and go on: four workers would print four tracebacks without
    labels, in a cell that succeeds.
    """

    @replacing(shell, "showtraceback")
    def show(exc_tuple: Any = None, *args: Any, **options: Any) -> None:
        asked_by = sys._getframe(1).f_globals.get("__name__")  # noqa: SLF001 - inspect.currentframe is the same call
        if exc_tuple is not None and asked_by == _FORMATTERS and current_sink.get() is not None:
            raise exc_tuple[1]
        show.below(exc_tuple, *args, **options)

    return show
