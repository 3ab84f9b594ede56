"""The notebook's part in one cell on the workers: routes its output and renders its last value."""

from __future__ import annotations

import contextvars
import sys
import weakref
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from disco_magic.isolation.adopted import may_write_to
from disco_magic.isolation.streams import current_writer
from disco_magic.notebook.libraries.contents import show_all
from disco_magic.notebook.libraries.figures import INLINE, draw, take_new_figures
from disco_magic.notebook.libraries.warned import forget_warnings
from disco_magic.notebook.output.afterwards import Afterwards
from disco_magic.notebook.output.arrange import ARRANGEMENTS, by_order
from disco_magic.notebook.output.forms import displays_itself, forms_of
from disco_magic.notebook.output.gallery import HELD, sized
from disco_magic.notebook.output.kept import KeptPage
from disco_magic.notebook.output.page import Page
from disco_magic.notebook.output.screens import SPARE
from disco_magic.notebook.output.sink import Sink
from disco_magic.notebook.output.streams import current_sink
from disco_magic.notebook.shell import is_watched
from disco_magic.phrases import padded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from contextvars import Context

    from disco_magic.notebook.handle import CellHandle
    from disco_magic.notebook.shell import Shell


_WIDGET: Final = "application/vnd.jupyter.widget-view+json"


class NotebookScope:
    """A `CellScope` (functions/execution/running.py) for one cell in IPython.

    Args:
        shell: formats values.
        workers: the workers that run the cell.
        mode: one of `option_types.MODES`, or an arrangement of `arrange.ARRANGEMENTS`.
        show: display filter; None shows all of `workers`.
        among: number of workers of the session.
        waited: whether the notebook's cell ends after this one.

    Attributes:
        handle: the handle of the cell, from sending until `close`.
        show: the workers whose values are shown; None: all.
    """

    def __init__(
        self,
        shell: Shell,
        workers: Sequence[int],
        mode: str = "live",
        show: Iterable[int] | None = None,
        among: int = 1,
        *,
        waited: bool = True,
    ) -> None:
        self._shell = shell
        self._formatter = shell.display_formatter
        self.workers = tuple(workers)
        self.show = shown_workers(mode, self.workers, show)
        collects = not waited and hasattr(shell.display_pub, "set_parent") and not is_watched(shell)
        self.page = self._page(mode, among, Afterwards(shell.display_pub.publish) if collects else None)
        self.handle: CellHandle | None = None
        margin = _margin(among)
        self._sinks = {worker: Sink(worker, self.page, margin) for worker in self.workers}
        self._values: dict[int, Any] = {}
        self._contexts: dict[int, weakref.ref[Context]] = {}
        self._ghosts: list[weakref.ref[Context]] = []

    def _page(self, mode: str, among: int, afterwards: Afterwards | None) -> Page:
        publisher = self._shell.display_pub
        shown = () if mode == "none" else self.workers if self.show is None else self.show
        page, arrange = (KeptPage, ARRANGEMENTS[mode]) if mode in ARRANGEMENTS else (Page, by_order)
        return page(self.workers, shown, publisher, arrange=arrange, among=among, afterwards=afterwards)

    def running(self) -> bool:
        """Whether any worker has not ended the cell; a worker that skips it never begins it.

        The handle decides: a worker's reply, which says whether it failed, comes after its last line.
        """
        handle = self.handle
        return self.page.running if handle is None else not handle.done()

    def context(self, worker: int) -> Context:
        """A copy of the submitting cell's context, with this worker's sink in it.

        ipykernel keeps the parent of each message in context variables, so the copy ties the worker's output
        to this cell, even after the cell has ended. One copy per worker, because two threads cannot enter the
        same context.
        """
        context, sink = contextvars.copy_context(), self._sinks[worker]
        context.run(current_sink.set, sink)  # as `use_sink`: C code, which takes a third of the time
        context.run(current_writer.set, sink)
        self._contexts[worker] = weakref.ref(context)
        return context

    def render(self, value: Any) -> dict[str, Any]:
        """The MIME bundle of the last value, made on the worker.

        Raises whatever the value's ``__repr__`` or ``_repr_mimebundle_`` raises, so that the cell fails on
        that worker with a traceback. IPython's formatter would print the traceback instead, to whichever cell
        runs now. A value that displays itself (``_ipython_display_``) does so, and the text is empty.
        """
        sink = current_sink.get()
        if sink is not None:
            self._values[sink.worker] = value
        if displays_itself(self._formatter, value):
            return {"text/plain": ""}
        data, metadata = forms_of(self._formatter, value)
        rich = set(data) - {"text/plain"}
        # HTML and Markdown values are shown together; other forms, such as widgets, as by ``display(value)``.
        held = not rich or (_WIDGET not in rich and not HELD.isdisjoint(rich))
        if not held and getattr(self._shell, "kernel", None) is not None:
            self._shell.display_pub.publish(data, metadata)
            return {"text/plain": ""}
        html = sized(data, metadata) if rich else ""
        return {**data, "text/html": html} if html else data

    def ended(self, worker: int) -> None:
        """Finish the cell's output on `worker`; called on the worker, in its context.

        Raises what drawing its figures raises, so that the cell fails on that worker.
        """
        value = self._values.pop(worker, None)
        try:
            if INLINE in sys.modules:  # else there are no figures
                self._draw(self._sinks[worker], value)
        finally:
            try:
                forget_warnings()
                show_all()
            finally:
                self._sinks[worker].finish()
            handle = self.handle  # the main thread may let go of it
            if handle is not None and not self.page.running:
                handle.report_soon()

    def skipped(self, worker: int) -> None:
        """Do nothing: it has written nothing, and the handle says when the cell has ended."""

    def _draw(self, sink: Sink, value: Any) -> None:
        """Hand the worker's figures to the page, except one that is shown as the cell's value.

        Figures of an interrupted cell are not drawn, because the cell must end quickly.
        """
        new = take_new_figures()
        if not new:
            return
        figures, error = [figure for figure in new if figure is not value], sys.exception()
        if figures and sink.is_shown and not isinstance(error, KeyboardInterrupt):
            try:
                sink.pictures([draw(self._shell, figure) for figure in figures])
            except Exception as failure:
                if error is None:
                    raise
                error.add_note(f"its figures could not be drawn: {type(failure).__name__}: {failure}")

    def abandoned(self, worker: int) -> None:
        """Drop further output of the old thread of `worker`, which is stuck and was replaced."""
        self._sinks[worker].abandon()
        self._ghosts.append(self._contexts[worker])

    def haunted(self) -> bool:
        """Whether threads may still write, although no worker executes the cell any more.

        These are threads that the cell has started, and stuck ones, whose output must not reach the real
        streams. Such a thread is alive as long as its context is: only the stuck call still refers to it.
        """
        if self._ghosts:
            self._ghosts = [ghost for ghost in self._ghosts if ghost() is not None]
        return bool(self._ghosts) or may_write_to(*self._sinks.values())

    def close(self) -> CellHandle | None:
        """End the page when no worker executes the cell any more; return the handle, to be reported."""
        self.page.close()
        handle, self.handle = self.handle, None  # each refers to the other
        return handle

    @property
    def stdout(self) -> Mapping[int, str]:
        """Worker -> its output; beyond `printed.LIMIT` characters only the beginning and the end."""
        return {worker: "" if sink.transcript is None else sink.text for worker, sink in self._sinks.items()}


@cache
def _margin(among: int) -> int:
    """The columns of a terminal that lines cannot use, in a session of so many workers."""
    return len(padded((0,), among)) + 1 + SPARE


def shown_workers(
    mode: str, workers: Sequence[int], show: Iterable[int] | None = None
) -> tuple[int, ...] | None:
    """The workers whose lines, displays and values are shown; None: all. Errors of all are always shown.

    ``worker0`` means ``--show`` of the first worker that runs the cell; a given `show` overrides it.
    """
    if show is not None:
        return tuple(show)
    return (min(workers),) if mode == "worker0" else None
