"""Common parts of the controls of live views: their look, and whether the user has changed them."""

from __future__ import annotations

from contextlib import contextmanager
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final

import ipywidgets as widgets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

STYLE: Final = {"description_width": "initial"}


def dropdown(description: str, options: Sequence[tuple[str, Any]], width: str = "auto") -> widgets.Dropdown:
    """A dropdown of (label, value) with the first one selected; by default the value would be None."""
    return widgets.Dropdown(
        options=options,
        value=options[0][1],
        description=description,
        style=STYLE,
        layout=widgets.Layout(width=width),
    )


def button(description: str, tooltip: str, **look: str) -> widgets.Button:
    """A button as wide as its text."""
    return widgets.Button(
        description=description, tooltip=tooltip, layout=widgets.Layout(width="auto"), **look
    )


def wrapped(controls: Sequence[widgets.Widget]) -> widgets.HBox:
    """A row that wraps to the width of the window."""
    look = widgets.Layout(flex_flow="row wrap", align_items="center", grid_gap="0 8px")
    return widgets.HBox(controls, layout=look)


def text(description: str, width: str, **look: Any) -> widgets.Text:
    """A field for a line of text."""
    return widgets.Text(description=description, layout=widgets.Layout(width=width), style=STYLE, **look)


def named(names: Sequence[str]) -> list[tuple[str, str]]:
    """Options with themselves as labels."""
    return [(name, name) for name in names]


def show(controls: Iterable[widgets.DOMWidget], *, shown: bool) -> None:
    """Show or hide controls; where there is no session, hide those that would ask it for something."""
    for control in controls:
        control.layout.display = None if shown else "none"


def worker_options(num_workers: int) -> list[tuple[str, int]]:
    """An option per worker."""
    return [(f"worker {worker}", worker) for worker in range(num_workers)]


class Changes:
    """Distinguishes the user's changes of controls from our own."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._ours = 0  # the thread in `of_ours`; changes by other threads are the user's

    @property
    def are_ours(self) -> bool:
        """Whether the calling thread is in `of_ours`."""
        return self._ours == get_ident()

    @contextmanager
    def of_ours(self) -> Iterator[None]:
        """Change controls in this block without calling `changed`."""
        self._ours = get_ident()
        try:
            yield
        finally:
            self._ours = 0

    def __call__(self, _: object = None) -> None:
        """The observer of the controls."""
        if not self.are_ours:
            self._changed()
