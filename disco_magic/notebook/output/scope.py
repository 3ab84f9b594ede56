"""What the notebook adds to one cell on the workers: where output goes and how the last value is rendered."""

from __future__ import annotations

import contextvars
import sys
import weakref
from typing import TYPE_CHECKING, Any, Final

from disco_magic.isolation.adopted import may_write_to
from disco_magic.notebook.libraries.contents import show_all
from disco_magic.notebook.libraries.figures import draw, take_new_figures
from disco_magic.notebook.libraries.warned import forget_warnings
from disco_magic.notebook.output.arrange import ARRANGEMENTS
from disco_magic.notebook.output.gallery import HELD
from disco_magic.notebook.output.kept import KeptPage
from disco_magic.notebook.output.page import Page
from disco_magic.notebook.output.screens import SPARE
from disco_magic.notebook.output.sink import Sink
from disco_magic.notebook.output.streams import current_sink, use_sink
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
        workers: those that run the cell.
        mode: one of `option_types.MODES`, or an arrangement of `arrange.ARRANGEMENTS`.
        show: display filter; None shows all of `workers`.
        among: workers of the session.

    Attributes:
        handle: the cell on its way, from when it was sent until `close`.
        show: those whose values are shown; None: everybody's.
    """

    def __init__(
        self,
        shell: Shell,
        workers: Sequence[int],
        mode: str = "live",
        show: Iterable[int] | None = None,
        among: int = 1,
    ) -> None:
        self._shell = shell
        self._formatter = shell.display_formatter
        self.workers = tuple(workers)
        self.page = _page(self.workers, mode, show, shell.display_pub, among)
        self.handle: CellHandle | None = None
        self.show = None if show is None else tuple(show)
        margin = len(padded((0,), among)) + 1 + SPARE
        self._sinks = {worker: Sink(worker, self.page, margin) for worker in self.workers}
        self._values: dict[int, Any] = {}
        self._contexts: dict[int, weakref.ref[Context]] = {}
        self._ghosts: list[weakref.ref[Context]] = []

    def running(self) -> bool:
        """Whether a worker has not ended the cell; one that was told to skip it never begins it.

        The handle decides: a worker's last line comes before its reply, which says whether it failed.
        """
        return self.page.running if self.handle is None else not self.handle.done()

    def context(self, worker: int) -> Context:
        """The submitting cell's context with this worker's sink in it.

        A copy of the cell's own context pins what the worker prints and displays, also after the cell has
        ended, to this cell: ipykernel keeps each message's parent in context variables. A copy per worker,
        because two threads cannot enter one context.
        """
        context = contextvars.copy_context()
        context.run(use_sink, self._sinks[worker])
        self._contexts[worker] = weakref.ref(context)
        return context

    def render(self, value: Any) -> dict[str, Any]:
        """MIME bundle of the last value, made on the worker.

        Raises whatever the value's own ``__repr__`` or ``_repr_mimebundle_`` raises, so that the cell fails
        on that worker with a traceback: IPython's formatter would print it from here, to whichever cell runs
        now. A value that displays itself (``_ipython_display_``) does so and gives an empty text.
        """
        sink = current_sink.get()
        if sink is not None:
            self._values[sink.worker] = value
        if self._formatter.ipython_display_formatter(value):
            return {"text/plain": ""}
        data, metadata = self._forms(value)
        rich = set(data) - {"text/plain"}
        # Values are shown together in HTML, or as Markdown: other forms, a widget, as ``display(value)``.
        held = not rich or (_WIDGET not in rich and not HELD.isdisjoint(rich))
        if not held and getattr(self._shell, "kernel", None) is not None:
            self._shell.display_pub.publish(data, metadata)
            return {"text/plain": ""}
        return data

    def _forms(self, value: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """All forms of `value`, and what is said of them, as IPython's `format`; errors come through."""
        formatters = self._formatter.formatters
        bundle, metadata = _own_bundle(self._formatter.mimebundle_formatter, value)
        if not bundle:
            text = _plain(formatters["text/plain"], value)
            rich, metadata = self._formatter.format(value, exclude=("text/plain",))
            return {"text/plain": text, **rich}, metadata
        # Not by `format`, which would ask for the bundle once more: it may cost much, or be another one.
        data = dict(bundle)
        for form, formatter in formatters.items():
            if form in data and not _is_registered(formatter, value):
                continue
            found, said = _with_metadata(
                _plain(formatter, value) if form == "text/plain" else formatter(value)
            )
            data.update({} if found is None else {form: found})
            metadata.update({} if said is None else {form: said})
        return data, metadata

    def ended(self, worker: int) -> None:
        """The cell has ended on `worker`; called on the worker, inside its context.

        Raises what drawing its figures raises: the cell fails on that worker.
        """
        value = self._values.pop(worker, None)
        try:
            self._draw(self._sinks[worker], value)
        finally:
            forget_warnings()
            show_all()
            self._sinks[worker].finish()
            if self.handle is not None and not self.page.running:
                self.handle.report_soon()

    def _draw(self, sink: Sink, value: Any) -> None:
        """Leave the worker's figures to the page, but for one that is the cell's value and is shown as that.

        Those of a cell that was interrupted are not drawn: that would take the time in which it must end.
        """
        figures = [figure for figure in take_new_figures() if figure is not value]
        error = sys.exception()
        if figures and sink.is_shown and not isinstance(error, KeyboardInterrupt):
            try:
                sink.pictures([draw(self._shell, figure) for figure in figures])
            except Exception as failure:
                if error is None:
                    raise
                error.add_note(f"its figures could not be drawn: {type(failure).__name__}: {failure}")

    def abandoned(self, worker: int) -> None:
        """`worker` is stuck and was replaced; what its old thread still writes is dropped."""
        self._sinks[worker].abandon()
        self._ghosts.append(self._contexts[worker])

    def haunted(self) -> bool:
        """Whether threads may still write to it, though no worker executes the cell any more.

        Those that the cell has started. And those that were given up, which must not reach the real streams:
        of these the context tells, for nothing but the call that is stuck still refers to it.
        """
        self._ghosts = [ghost for ghost in self._ghosts if ghost() is not None]
        return bool(self._ghosts) or any(map(may_write_to, self._sinks.values()))

    def close(self) -> CellHandle | None:
        """No worker executes the cell any more, whatever they said; gives its handle, to be reported."""
        self.page.close()
        handle, self.handle = self.handle, None  # each refers to the other
        return handle

    @property
    def stdout(self) -> Mapping[int, str]:
        """Worker -> what it wrote; of more than `transcript.LIMIT` characters the two ends."""
        return {worker: sink.text for worker, sink in self._sinks.items()}


def shown_workers(
    mode: str, workers: Sequence[int], show: Iterable[int] | None = None
) -> tuple[int, ...] | None:
    """Whose lines, displays and values are shown; None: everybody's. Errors are everybody's in any case.

    ``worker0`` is ``--show`` of the first worker that runs the cell; a `show` that is given goes before it.
    """
    if show is not None:
        return tuple(show)
    return (min(workers),) if mode == "worker0" else None


def _page(
    workers: tuple[int, ...], mode: str, show: Iterable[int] | None, publisher: Any, among: int
) -> Page:
    shown = shown_workers(mode, workers, show)
    if shown is None:
        shown = () if mode == "none" else workers
    if mode in ARRANGEMENTS:
        return KeptPage(workers, shown, ARRANGEMENTS[mode], publisher, among=among)
    return Page(workers, () if mode == "none" else shown, publisher, among=among)


def _own_bundle(formatter: Any, value: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """What `value` itself has for its forms, and says of them; nothing if it has none, or no such thing."""
    try:
        found, said = _with_metadata(_unwrapped(formatter, value))
    except NotImplementedError:  # it says so
        return {}, {}
    return (found, dict(said or {})) if isinstance(found, dict) else ({}, {})


def _with_metadata(found: Any) -> tuple[Any, Any]:
    """What a formatter gave, and what it says of that; None where it says nothing."""
    return found if isinstance(found, tuple) and len(found) == 2 else (found, None)


def _is_registered(formatter: Any, value: Any) -> bool:
    """Whether the user has told `formatter` how to show values of that class."""
    try:
        formatter.lookup(value)
    except KeyError:
        return False
    return True


def _unwrapped(formatter: Any, value: Any) -> Any:
    """What `formatter` gives; errors come through, which IPython would print and forget."""
    call = type(formatter).__call__
    return getattr(call, "__wrapped__", call)(formatter, value)


def _plain(formatter: Any, value: Any) -> str:
    """Text of `value`; a NumPy number as NumPy prints it, not as it is constructed (``36.0``)."""
    text: str = _unwrapped(formatter, value)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.number, numpy.bool_)) and text.startswith("np."):
        return str(value)
    return text
