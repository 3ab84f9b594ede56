"""Live views: which are open, and what a notebook shows of one: widgets, and a still for when they are gone.

The still is taken when the cell runs. If an output offers a widget and HTML, JupyterLab shows the widget, or,
when its kernel is gone, the error "model not found". So a still is a separate output before the widget's:

* while the widget exists, a CSS rule in it hides the still;
* otherwise a CSS rule in the still hides the error, and the still remains;
* when the kernel of a widget on the page ends, the widget says so once, not in each of its controls;
* web pages made from the notebook, and front ends without widgets, show the still.

JupyterLab sends clicks to a subshell of the kernel, whose thread is free. ipykernel 7.4 forwards them to the
shell that last published on that comm: the busy one, which would handle them after the cell.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Final, TypeVar

from IPython.display import publish_display_data

from disco_magic.notebook.shell import request_of
from disco_magic.threads.locks import new_rlock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    V = TypeVar("V", bound="LiveView")

PANEL: Final = "disco-live"
_OUTPUT: Final = ".jp-OutputArea-child"
_GONE: Final = "jupyter-widgets-disconnected"
_ENDED: Final = (
    f".{PANEL}.{_GONE}::before,.{PANEL} .{_GONE}::before{{content:none!important}}"
    f".{PANEL}.{_GONE}::before{{"
    "content:'The kernel has ended: this is what it showed last. Run the cell again.'!important;"
    "font:italic 13px var(--jp-ui-font-family);color:var(--jp-ui-font-color1,inherit)!important}"
    f".{PANEL}.{_GONE}{{opacity:.75}}"
)
"""ipywidgets puts a sign of a broken link before each widget whose kernel has ended, also after a restart."""

_ARROW: Final = (
    "%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 20 20'%3E"
    "%3Cpath d='M5 8l5 5 5-5' fill='none' stroke='%23ddd' stroke-width='2'/%3E%3C/svg%3E"
)
_LISTS: Final = (
    f'[data-jp-theme-light="false"] .{PANEL}'
    f'{{--jp-widgets-dropdown-arrow:url("data:image/svg+xml,{_ARROW}")}}'
)
"""ipywidgets' arrow of a list is black in every theme, and hardly seen in dark ones."""


class LiveView:
    """A view of widgets that stay up to date, and its still.

    Args:
        widget: the outermost widget; its parts may come later.

    Attributes:
        widget: the same.
        hiding: CSS rules as HTML to be put into the widget: they hide the still as long as there is a widget,
            say when its kernel has ended, and give lists an arrow that is seen in dark themes.

    Threads: clicks arrive in those of the kernel, even while a cell runs; `_lock` lets one at a time draw.
    """

    def __init__(self, widget: Any) -> None:
        self._lock = new_rlock()
        self._closed = False
        self.widget = widget.add_class(PANEL)
        name = f"disco-still-{uuid.uuid4().hex[:12]}"
        self.hiding = f"<style>.{name},{_OUTPUT}:has(.{name}){{display:none}}{_ENDED}{_LISTS}</style>"
        rule = f"<style>{_OUTPUT}:has(.{name})+{_OUTPUT}:not(:has(.{PANEL})){{display:none}}</style>"
        self._opening = f'<div class="{name}">{rule}'

    def close(self) -> None:
        """Close all its comms. Idempotent."""
        with self._lock:
            self._closed = True
            for widget in reversed(everything_in(self.widget)):
                widget.close()

    def bundles(self) -> list[dict[str, Any]]:
        """The outputs: the still, and the widget unless it is closed."""
        bundle = self._still()
        still = {**bundle, "text/html": f"{self._opening}{bundle['text/html']}</div>"}
        if self._closed:
            return [still]
        # The widget's text lists classes of widgets; front ends that show text have the still's. It is empty
        # and not absent because nbconvert expects one.
        return [still, {**self.widget._repr_mimebundle_(), "text/plain": ""}]

    def _still(self) -> Mapping[str, Any]:
        """The MIME bundle of what it shows now."""
        raise NotImplementedError

    def _ipython_display_(self) -> None:
        for bundle in self.bundles():
            publish_display_data(bundle)  # type: ignore[no-untyped-call]  # IPython's


def everything_in(widget: Any) -> list[Any]:
    """A widget, its children, and their layouts and styles: everything that has a comm."""
    found = [widget]
    for child in getattr(widget, "children", ()):
        found += everything_in(child)
    for part in ("layout", "style"):
        model = getattr(widget, part, None)
        if hasattr(model, "comm"):
            found.append(model)
    return found


def answer_while_busy(widgets: Iterable[Any]) -> None:
    """Let messages of these widgets be handled by the thread to which they were sent.

    Overrides a method of ipykernel. Without it (7.3 and older, other kernels) there is nothing to override.
    """
    for widget in widgets:
        comm = widget.comm
        if hasattr(comm, "_reply_subshell_for"):
            comm._reply_subshell_for = _as_sent  # noqa: SLF001 - see above; a browser test clicks while busy


def _as_sent(_: object, default: Any) -> Any:
    return default


MOST_OPEN: Final = 16
"""Beyond this number the oldest view is closed: views would pile up with front ends that send no cell ids."""


class LiveViews:
    """Keeps the open views; a front end does not say when it drops one."""

    def __init__(self) -> None:
        self._open: list[tuple[str, LiveView]] = []

    def open(self, shell: Any, make: Callable[[], V]) -> V:
        """Make a view, and close those that earlier runs of the same cell opened, which are gone.

        A cell may open several views in one run.
        """
        cell = request_of(shell).get("metadata", {}).get("cellId", "")  # some front ends send none
        number = shell.execution_count
        for place, view in list(self._open):
            if cell and place.startswith(f"{cell} ") and place != f"{cell} {number}":
                self._open.remove((place, view))
                _end(shell, view)
        while len(self._open) >= MOST_OPEN:
            _end(shell, self._open.pop(0)[1])
        view = make()
        self._open.append((f"{cell} {number}", view))
        return view

    def close(self) -> None:
        """Close all of them."""
        while self._open:
            self._open.pop()[1].close()


def _end(shell: Any, view: LiveView) -> None:
    """Close a view, and take it out of ``Out``: its hundred widgets would stay there, half a megabyte."""
    view.close()
    results = shell.user_ns.get("_oh", {})
    for number in [number for number, result in results.items() if result is view]:
        del results[number]
        for names in (shell.user_ns, shell.user_ns_hidden):
            if names.get(f"_{number}") is view:
                del names[f"_{number}"]


def can_show(shell: Any) -> bool:
    """Whether the front end can show widgets: a kernel's front end can, a terminal cannot."""
    return hasattr(shell, "kernel")
