"""Controls that choose a part of an array: rows, columns, and where along all further axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import ipywidgets as widgets

from disco_magic.functions.peek import Window

if TYPE_CHECKING:
    from collections.abc import Callable

FURTHER: Final = 4
"""Sliders for axes beyond the two of the picture; those of arrays with more axes stay at 0."""


class SlicePicker:
    """Sliders for one array shape at a time.

    Args:
        changed: called when the user has moved one.

    Attributes:
        box: all of it.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._filling = False
        self._shape: tuple[int, ...] = ()
        self._rows, self._columns = _range("rows"), _range("columns")
        self._further = [_slider() for _ in range(FURTHER)]
        for control in (self._rows, self._columns, *self._further):
            control.observe(self._on_change, "value")
        self.box = widgets.HBox(
            [*self._further, self._rows, self._columns], layout=widgets.Layout(flex_flow="row wrap")
        )

    def fit(self, shape: tuple[int, ...]) -> None:
        """Offer the axes of `shape`; where the user was stays if the shape is the one before."""
        if shape == self._shape:
            return
        self._shape = shape
        self._filling = True
        try:
            _span(self._rows, shape[-2] if len(shape) > 1 else 1)
            _span(self._columns, shape[-1] if shape else 1)
            for axis, slider in enumerate(self._further):
                length = shape[axis] if axis < len(shape) - 2 else 1
                slider.value, slider.max = 0, max(length - 1, 0)
                slider.description = f"axis {axis}"
                slider.layout.display = None if length > 1 else "none"
        finally:
            self._filling = False

    def window(self) -> Window:
        """The chosen part."""
        further = max(len(self._shape) - 2, 0)
        fixed = [slider.value for slider in self._further[:further]]
        fixed += [0] * (further - len(fixed))
        window = Window.of(self._shape)
        return Window(self._rows.value, self._columns.value, window.axes, tuple(fixed))

    def _on_change(self, _: dict[str, Any]) -> None:
        if not self._filling:
            self._changed()


def _range(description: str) -> widgets.IntRangeSlider:
    return widgets.IntRangeSlider(
        value=(0, 1),
        min=0,
        max=1,
        description=description,
        continuous_update=False,
        layout=widgets.Layout(width="22em"),
        style={"description_width": "initial"},
    )


def _slider() -> widgets.IntSlider:
    return widgets.IntSlider(
        value=0,
        min=0,
        max=0,
        continuous_update=False,
        layout=widgets.Layout(width="16em", display="none"),
        style={"description_width": "initial"},
    )


def _span(control: widgets.IntRangeSlider, length: int) -> None:
    control.value = (0, min(1, length))  # inside of both the old bounds and the new ones
    control.max = max(length, 1)
    control.value = (0, max(length, 1))
    control.layout.display = None if length > 1 else "none"
