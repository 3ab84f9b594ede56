"""The controls above an inspector's table: filters, order, refresh."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import ipywidgets as widgets

from disco_magic.core.register_values import FEW_WORKERS, columns_of
from disco_magic.notebook.inspector.view import ANY, KINDS, ORDERS, SIZES, View, dtypes
from disco_magic.notebook.live.controls import Changes, button, dropdown, named, show, text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from disco_magic.core.snapshot import SessionSnapshot


# Not None, which is no choice to a dropdown.
_BY_VALUE: Final[tuple[str, Sequence[int]]] = ("by value", ())


class Toolbar:
    """Text, lists and switches."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changes = Changes(changed)
        self._search = text(
            "Search", "16em", placeholder="name, w_*, dtype, 64\u00d764 \u2026", continuous_update=True
        )
        self._kind = dropdown("Show", named(list(KINDS)), "19em")
        self._dtype = dropdown("dtype", [("any", ANY)], "11em")
        self._size = dropdown("Size", named(list(SIZES)), "13em")
        self._order = dropdown("Sort", named(list(ORDERS)), "13em")
        self._workers = dropdown("Workers", [_BY_VALUE], "13em")
        self.numbered = widgets.Checkbox(
            value=True, description="references (#n)", indent=False, layout=widgets.Layout(width="auto")
        )
        self.refresh = button("Refresh", "look again", icon="refresh")
        self.live = widgets.ToggleButton(
            value=False,
            description="Live",
            icon="clock-o",
            tooltip="look again every second, also while a cell runs",
            layout=widgets.Layout(width="auto"),
        )
        rows = (self._search, self._kind, self._dtype, self._size, self._order)
        chosen = (*rows, self._workers, self.numbered)
        for control in chosen:
            control.observe(self._changes, "value")
        self.controls = (*chosen, self.refresh, self.live)
        self._asking = (self.numbered, self.refresh, self.live)

    def view(self, pinned: frozenset[str]) -> View:
        """The settings of the controls."""
        return View(
            self._search.value,
            self._kind.value,
            self._dtype.value or ANY,
            self._size.value,
            self._order.value,
            pinned,
        )

    @property
    def columns(self) -> Sequence[int] | None:
        """The workers that have a column each; None: one column, with a line per value."""
        columns: Sequence[int] = self._workers.value
        return columns or None

    def offer(self, snapshot: SessionSnapshot, *, asking: bool) -> None:
        """Offer what there is to select; the selected dtype stays, even if no register has it any more.

        Args:
            snapshot: the registers and workers.
            asking: whether to offer what looks again, too. Without a session there is nothing to look at, and
                only what selects among the rows seen last is left.
        """
        show(self._asking, shown=asking)
        chosen = self._dtype.value or ANY
        found = {*dtypes(snapshot.rows), *([chosen] if chosen else [])}
        self._set(self._dtype, [("any", ANY), *named(sorted(found))])
        workers = range(snapshot.num_workers)
        everybody = columns_of(snapshot.num_workers)
        show([self._workers], shown=everybody is None)
        parts = [workers[at : at + FEW_WORKERS] for at in workers[::FEW_WORKERS]]
        some = [_BY_VALUE, *((_label(part), part) for part in parts)]
        self._set(self._workers, some if everybody is None else [("all", everybody)])

    def _set(self, control: widgets.Dropdown, options: list[tuple[str, Any]]) -> None:
        """Change what can be chosen; what is chosen stays if it can be."""
        if tuple(options) != tuple(control.options):
            chosen = control.value
            with self._changes.of_ours():
                control.options = options
                control.value = chosen if chosen in [value for _, value in options] else options[0][1]


def _label(part: range) -> str:
    return f"{part[0]} to {part[-1]}" if len(part) > 1 else f"{part[0]}"
