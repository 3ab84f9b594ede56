"""The comms of a view, and clicks that arrive while a cell runs.

JupyterLab sends clicks to a subshell of the kernel, whose thread is free. ipykernel 7.4 forwards them to the
shell that last published on that comm: the busy one, which would handle them after the cell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


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
