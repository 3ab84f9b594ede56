"""The controls above an inspector's table: filters, order, refresh."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ipywidgets as widgets

from disco_magic.notebook.inspector.controls import STYLE, Changes, button, dropdown, named, show
from disco_magic.notebook.inspector.view import ANY, KINDS, ORDERS, SIZES, View

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Toolbar:
    """Text, lists and switches.

    Args:
        changed: called when a control was changed by the user.

    Attributes:
        controls: all controls, in order.
        refresh: the refresh button.
        live: the switch for a refresh every second.
        numbered: the switch for registers that only references keep.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changes = Changes(changed)
        self._search = widgets.Text(
            placeholder="name, w_*, dtype, 64\u00d764 \u2026",
            description="Search",
            continuous_update=True,
            layout=_layout("16em"),
            style=STYLE,
        )
        self._kind = dropdown("Show", named(list(KINDS)), "19em")
        self._dtype = dropdown("dtype", [("any", ANY)], "11em")
        self._size = dropdown("Size", named(list(SIZES)), "13em")
        self._order = dropdown("Sort", named(list(ORDERS)), "13em")
        self.numbered = widgets.Checkbox(
            value=True, description="references (#n)", indent=False, layout=_layout("auto")
        )
        self.refresh = button("Refresh", "look again", icon="refresh")
        self.live = widgets.ToggleButton(
            value=False,
            description="Live",
            icon="clock-o",
            tooltip="look again every second, also while a cell runs",
            layout=_layout("auto"),
        )
        chosen = (self._search, self._kind, self._dtype, self._size, self._order, self.numbered)
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

    def offer(self, dtypes: Sequence[str], *, asking: bool) -> None:
        """Offer these element types; the selected one stays, even if no register has it any more.

        Args:
            dtypes: the element types.
            asking: whether to offer what looks again, too. Without a session there is nothing to look at, and
                only what selects among the rows seen last is left.
        """
        show(self._asking, shown=asking)
        chosen = self._dtype.value or ANY
        options = [("any", ANY), *named(sorted({*dtypes, *([chosen] if chosen else [])}))]
        if tuple(options) != tuple(self._dtype.options):
            with self._changes.of_ours():
                self._dtype.options = options
                self._dtype.value = chosen


def _layout(width: str) -> widgets.Layout:
    return widgets.Layout(width=width)
