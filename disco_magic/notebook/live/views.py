"""Opens, replaces and closes the live views of one notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from disco_magic.notebook.shell import request_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.notebook.live.live_view import LiveView

    V = TypeVar("V", bound=LiveView)


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
