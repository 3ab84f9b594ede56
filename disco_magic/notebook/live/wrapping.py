"""The layout of controls of live views."""

from __future__ import annotations

import ipywidgets as widgets


def wrapped() -> widgets.Layout:
    """A row that wraps to the width of the window."""
    return widgets.Layout(flex_flow="row wrap", align_items="center", grid_gap="0 8px")
