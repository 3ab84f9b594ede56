"""Handles `display` and `clear_output` on a worker, and errors of displaying a value there."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.replaced import Replaced, replace_all, replacing
from disco_magic.notebook.output.arrange import display_id
from disco_magic.notebook.output.streams import current_sink

if TYPE_CHECKING:
    from disco_magic.notebook.shell import Shell


class WorkerPublisher:
    """Wraps `publish` and `clear_output` of the shell's current display publisher, on the instance.

    On the instance, because it may be a stand-in (``%%capture``).

    Attributes:
        remove: removes the wrappers, except one over which something else was installed.
    """

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._publisher = shell.display_pub
        self._publishing = Replaced(self._publisher, "publish", self._publish)
        self._clearing = Replaced(self._publisher, "clear_output", self._clear)
        self.remove = replace_all([self._publishing, self._clearing])

    def wraps(self, publisher: object) -> bool:
        """Whether `publisher` is the one that is wrapped here."""
        return self._publisher is publisher

    def _publish(self, data: dict[str, Any], metadata: dict[str, Any] | None = None, **kwargs: Any) -> None:
        sink = current_sink.get()
        if sink is None:
            self._publishing.below(data, metadata, **kwargs)
        elif self._is_text(data, kwargs):
            sink.writer("stdout")(f"{data['text/plain']}\n")
        else:
            sink.display(self._publishing.below, data, {**kwargs, "metadata": metadata})

    def _is_text(self, data: dict[str, Any], kwargs: dict[str, Any]) -> bool:
        """Whether the front end can only show this as lines of text, now and later."""
        if "text/plain" not in data or kwargs.get("update") or display_id(kwargs):
            return False
        only_text = set(data) == {"text/plain"}
        return only_text or not (self._has_front_end() or getattr(self._shell, "mime_renderers", None))

    def _has_front_end(self) -> bool:
        """Whether there is a front end; the publisher of terminal IPython only prints the plain text."""
        from IPython.core.displaypub import DisplayPublisher

        return type(self._publisher) is not DisplayPublisher

    def _clear(self, wait: bool = False) -> None:  # noqa: FBT001, FBT002 - IPython's own signature
        sink = current_sink.get()
        if sink is None:
            self._clearing.below(wait=wait)
        else:
            sink.clear(self._clearing.below, wait=wait)


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
