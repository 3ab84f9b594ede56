"""How controls of live views stand beside each other."""

from __future__ import annotations

import ipywidgets as widgets


def wrapped() -> widgets.Layout:
    """In as many lines as the window's width asks for."""
    return widgets.Layout(flex_flow="row wrap", align_items="center", grid_gap="0 8px")
