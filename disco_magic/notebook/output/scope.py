"""The notebook's part in one cell on the workers: routes its output and renders its last value."""

from __future__ import annotations

import contextvars
import sys
import weakref
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from IPython.core.formatters import BaseFormatter, DisplayFormatter, IPythonDisplayFormatter

from disco_magic.isolation.adopted import may_write_to
from disco_magic.isolation.streams import current_writer
from disco_magic.notebook.libraries.contents import show_all
from disco_magic.notebook.libraries.figures import draw, take_new_figures
from disco_magic.notebook.libraries.warned import forget_warnings
from disco_magic.notebook.output.afterwards import Afterwards
from disco_magic.notebook.output.arrange import ARRANGEMENTS, by_order
from disco_magic.notebook.output.gallery import HELD, sized
from disco_magic.notebook.output.kept import KeptPage
from disco_magic.notebook.output.page import Page
from disco_magic.notebook.output.screens import SPARE
from disco_magic.notebook.output.sink import Sink
from disco_magic.notebook.output.streams import current_sink
from disco_magic.notebook.shell import is_watched
from disco_magic.phrases import padded
from disco_magic.values.fingerprint import CONTAINER_IDS, PLAIN_IDS
from disco_magic.values.kinds import is_numpy_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from contextvars import Context

    from disco_magic.notebook.handle import CellHandle
    from disco_magic.notebook.shell import Shell


_WIDGET: Final = "application/vnd.jupyter.widget-view+json"
_ARRAY: Final = id(np.ndarray)
_FORMAT: Final = DisplayFormatter.format


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
        if self._displays_itself(value):
            return {"text/plain": ""}
        data, metadata = self._forms(value)
        rich = set(data) - {"text/plain"}
        # HTML and Markdown values are shown together; other forms, such as widgets, as by ``display(value)``.
        held = not rich or (_WIDGET not in rich and not HELD.isdisjoint(rich))
        if not held and getattr(self._shell, "kernel", None) is not None:
            self._shell.display_pub.publish(data, metadata)
            return {"text/plain": ""}
        html = sized(data, metadata)
        return {**data, "text/html": html} if html else data

    def _displays_itself(self, value: Any) -> bool:
        """Let a value that does so display itself; whether it has."""
        display = self._formatter.ipython_display_formatter
        # It would look for a method that these classes do not have.
        is_text = type(display) is IPythonDisplayFormatter and _is_text(type(value))
        return (not is_text or _is_registered(display, value)) and bool(display(value))

    def _forms(self, value: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """All forms of `value` and their metadata, like IPython's `format`, but errors are raised.

        Not by `format`, which would ask again whether the value displays itself, and for its bundle: that may
        be expensive, or differ. A `format` that somebody has put in its place adds forms of its own.
        """
        bundle, metadata = _own_bundle(self._formatter.mimebundle_formatter, value)
        if not bundle and getattr(self._formatter.format, "__func__", None) is not _FORMAT:
            text = _plain(self._formatter.formatters["text/plain"], value)
            rich, metadata = self._formatter.format(value, exclude=("text/plain",))
            return {"text/plain": text, **rich}, metadata
        data = dict(bundle)
        is_text = _is_text(type(value))
        for form, formatter in self._formatter.formatters.items():
            is_left = form in data or (is_text and type(formatter).__call__ is BaseFormatter.__call__)
            if is_left and not _is_registered(formatter, value):
                continue
            found, said = _with_metadata(
                _plain(formatter, value) if form == "text/plain" else formatter(value)
            )
            data.update({} if found is None else {form: found})
            metadata.update({} if said is None else {form: said})
        return data, metadata

    def ended(self, worker: int) -> None:
        """Finish the cell's output on `worker`; called on the worker, in its context.

        Raises what drawing its figures raises, so that the cell fails on that worker.
        """
        value = self._values.pop(worker, None)
        try:
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


def _own_bundle(formatter: Any, value: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The MIME bundle and metadata that `value` itself provides; empty if it provides none."""
    try:
        found, said = _with_metadata(_unwrapped(formatter, value))
    except NotImplementedError:  # it provides none
        return {}, {}
    return (found, dict(said or {})) if isinstance(found, dict) else ({}, {})


def _is_text(kind: type) -> bool:
    """Whether it is a class of Python's or NumPy's own without methods such as ``_repr_html_``.

    IPython looks for nine of them in every value, which was half of what showing a number costs.
    """
    known = id(kind)
    return known in PLAIN_IDS or known in CONTAINER_IDS or known == _ARRAY or is_numpy_number(kind)


def _with_metadata(found: Any) -> tuple[Any, Any]:
    """A formatter's result as (data, metadata); the metadata is None if there is none."""
    return found if isinstance(found, tuple) and len(found) == 2 else (found, None)


def _is_registered(formatter: Any, value: Any) -> bool:
    """Whether the user has registered a function with `formatter` for values of that class."""
    if not (formatter.type_printers or formatter.deferred_printers or formatter.singleton_printers):
        return False  # as with most; `lookup` asks for these once for each class that it derives from
    try:
        formatter.lookup(value)
    except KeyError:
        return False
    return True


def _unwrapped(formatter: Any, value: Any) -> Any:
    """The result of `formatter`; errors are raised, which IPython would only print."""
    call = type(formatter).__call__
    return getattr(call, "__wrapped__", call)(formatter, value)


def _plain(formatter: Any, value: Any) -> str:
    """Text of `value`; NumPy numbers as printed (``36.0``), not as constructed."""
    text: str = _unwrapped(formatter, value)
    if isinstance(value, (np.number, np.bool_)) and text.startswith("np."):
        return str(value)
    return text
