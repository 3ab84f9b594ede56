"""Controls that select a part of an array: two axes, ranges along them, positions along the others."""

from __future__ import annotations

from itertools import permutations, zip_longest
from typing import TYPE_CHECKING, Any, Final

import ipywidgets as widgets

from disco_magic.notebook.live.controls import STYLE, Changes, dropdown, wrapped
from disco_magic.values.peek import Window

if TYPE_CHECKING:
    from collections.abc import Callable

FURTHER: Final = 6
"""Number of sliders for axes other than the two of the picture; further axes stay at 0."""


class SlicePicker:
    """Controls for one array shape at a time."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changes = Changes(changed)
        self._shape: tuple[int, ...] = ()
        self.axes = dropdown("axes", [("", ())], "9em")
        self.rows, self.columns = _range("rows"), _range("columns")
        self.further = [_slider() for _ in range(FURTHER)]
        self.axes.observe(self._on_axes, "value")
        for control in (self.rows, self.columns, *self.further):
            control.observe(self._changes, "value")
        self.box = wrapped([self.axes, *self.further, self.rows, self.columns])
        self._offer(())

    def fit(self, shape: tuple[int, ...]) -> None:
        """Offer the axes of `shape`; if the shape is unchanged, the positions stay."""
        if shape != self._shape:
            self._offer(shape)

    def _offer(self, shape: tuple[int, ...]) -> None:
        self._shape = shape
        pairs = list(permutations(range(len(shape)), 2))
        with self._changes.of_ours():
            self.axes.options = [(f"{down} \u00d7 {across}", (down, across)) for down, across in pairs] or [
                ("", ())
            ]
            self.axes.value = Window.of(shape).axes if pairs else ()
            # Of no elements there is no part to select.
            self.axes.layout.display = None if pairs and 0 not in shape else "none"
            self._spread()

    def window(self) -> Window:
        """The selected part; full ranges are left open, so that they fit arrays of other shapes too."""
        others = self._others()
        fixed = [slider.value for slider in self.further[: len(others)]]
        fixed += [0] * (len(others) - len(fixed))
        shown = self._shown()
        usual = shown == Window.of(self._shape).axes
        return Window(
            _narrowed(self.rows),
            _narrowed(self.columns),
            None if usual else shown,
            tuple(fixed) if any(fixed) else None,
        )

    def _shown(self) -> tuple[int, ...]:
        return self.axes.value or tuple(range(len(self._shape)))

    def _others(self) -> list[int]:
        return [axis for axis in range(len(self._shape)) if axis not in self._shown()]

    def _spread(self) -> None:
        """Set the sliders' ranges to the lengths of their axes."""
        shown, others = self._shown(), self._others()
        shape = self._shape if 0 not in self._shape else (1,) * len(self._shape)
        _span(self.rows, shape[shown[0]] if len(shown) > 1 else 1)
        _span(self.columns, shape[shown[-1]] if shown else 1)
        for slider, axis in zip_longest(self.further, others[:FURTHER]):
            length = 1 if axis is None else shape[axis]
            slider.value, slider.max = 0, max(length - 1, 0)
            slider.description = f"axis {axis}"
            slider.layout.display = None if length > 1 else "none"

    def _on_axes(self, _: dict[str, Any]) -> None:
        if self._changes.are_ours:
            return
        with self._changes.of_ours():
            self._spread()
        self._changes()


def _range(description: str) -> widgets.IntRangeSlider:
    return widgets.IntRangeSlider(
        value=(0, 1),
        min=0,
        max=1,
        description=description,
        continuous_update=False,
        layout=widgets.Layout(width="22em"),
        style=STYLE,
    )


def _slider() -> widgets.IntSlider:
    return widgets.IntSlider(
        value=0,
        min=0,
        max=0,
        continuous_update=False,
        layout=widgets.Layout(width="16em", display="none"),
        style=STYLE,
    )


def _narrowed(control: widgets.IntRangeSlider) -> tuple[int, int] | None:
    """The range that the user has selected; None for all."""
    start, stop = control.value
    if (start, stop) == (control.min, control.max):
        return None
    return (start, stop) if start < stop else (min(start, control.max - 1), min(start, control.max - 1) + 1)


def _span(control: widgets.IntRangeSlider, length: int) -> None:
    control.value = (0, min(1, length))  # within both the old and the new bounds
    control.max = max(length, 1)
    control.value = (0, max(length, 1))
    control.layout.display = None if length > 1 else "none"
