"""The live views of one notebook: opened, replaced, closed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from disco_magic.notebook.shell import request_of

if TYPE_CHECKING:
    from collections.abc import Callable

    V = TypeVar("V", bound="View")


MOST_OPEN: Final = 16
"""With another one the oldest is closed: front ends that name no cells would collect them for ever."""


class View(Protocol):
    """Widgets that stay up to date."""

    def close(self) -> None:
        """End it: no comm and no thread of it is left. Idempotent."""


class LiveViews:
    """Keeps the views that are open; a front end does not say when it drops one."""

    def __init__(self) -> None:
        self._open: list[tuple[str, View]] = []

    def open(self, shell: Any, make: Callable[[], V]) -> V:
        """A new view. Those that the same cell has opened in an earlier run are closed: they are gone.

        A cell may open several: they have the number of its execution in common.
        """
        cell, number = _cell_id(shell), shell.execution_count
        for place, view in list(self._open):
            if cell and place.startswith(f"{cell} ") and place != f"{cell} {number}":
                self._open.remove((place, view))
                view.close()
        while len(self._open) >= MOST_OPEN:
            self._open.pop(0)[1].close()
        view = make()
        self._open.append((f"{cell} {number}", view))
        return view

    def close(self) -> None:
        """Close all of them."""
        while self._open:
            self._open.pop()[1].close()


def can_show(shell: Any) -> bool:
    """Whether the front end can show widgets: a kernel's can, a terminal cannot."""
    return hasattr(shell, "kernel")


def _cell_id(shell: Any) -> str:
    """What the front end calls the cell that runs; empty if it does not say."""
    return str(request_of(shell).get("metadata", {}).get("cellId", ""))
