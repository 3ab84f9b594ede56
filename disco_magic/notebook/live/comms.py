"""A view's comms: all of them, and clicks that arrive while a cell runs.

JupyterLab sends them to a subshell of the kernel, whose thread is free. ipykernel 7.4 sends them back to the
shell that last published on that comm: the one that is busy, so that they would be dealt with after the cell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


def everything_in(widget: Any) -> list[Any]:
    """A widget, what is in it, and their layouts and styles: whatever has a comm of its own."""
    found = [widget]
    for child in getattr(widget, "children", ()):
        found += everything_in(child)
    for part in ("layout", "style"):
        model = getattr(widget, part, None)
        if hasattr(model, "comm"):
            found.append(model)
    return found


def answer_while_busy(widgets: Iterable[Any]) -> None:
    """Leave messages of these widgets to the thread that they were sent to.

    The method is ipykernel's own; without it (7.3 and before, other kernels) there is nothing to undo.
    """
    for widget in widgets:
        comm = widget.comm
        if hasattr(comm, "_reply_subshell_for"):
            comm._reply_subshell_for = _as_sent  # noqa: SLF001 - see above; a browser test clicks while busy


def _as_sent(_: object, default: Any) -> Any:
    return default
