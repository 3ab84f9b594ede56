"""Stills: what a notebook shows of a live view when the kernel is gone, taken when the cell ran.

If an output offers a widget and HTML, JupyterLab shows the widget, or, when its kernel is gone, the error
"model not found". So a still is a separate output before the widget's:

* while the widget exists, a CSS rule in it hides the still;
* otherwise a CSS rule in the still hides the error, and the still remains;
* when the kernel of a widget on the page ends, the widget says so once, not in each of its controls;
* web pages made from the notebook, and front ends without widgets, show the still.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PANEL: Final = "disco-live"
_OUTPUT: Final = ".jp-OutputArea-child"
_GONE: Final = "jupyter-widgets-disconnected"
_ENDED: Final = (
    f".{PANEL}.{_GONE}::before,.{PANEL} .{_GONE}::before{{content:none!important}}"
    f".{PANEL}.{_GONE}::before{{"
    "content:'The kernel has ended: this is what it showed last. Run the cell again.'!important;"
    "font:italic 13px var(--jp-ui-font-family);color:var(--jp-ui-font-color1,inherit)!important}"
    f".{PANEL}.{_GONE}{{opacity:.75}}"
)
"""ipywidgets puts a sign of a broken link before each widget whose kernel has ended, also after a restart."""


class Still:
    """The still of one live view.

    Attributes:
        hiding: CSS rules as HTML to be put into the widget: they hide the still as long as there is a widget,
            and say when its kernel has ended.
    """

    def __init__(self) -> None:
        self._name = f"disco-still-{uuid.uuid4().hex[:12]}"
        me = f".{self._name}"
        self.hiding = f"<style>{me},{_OUTPUT}:has({me}){{display:none}}{_ENDED}</style>"
        self._rule = f"<style>{_OUTPUT}:has({me})+{_OUTPUT}:not(:has(.{PANEL})){{display:none}}</style>"

    def html(self, content: str) -> str:
        """The still as HTML."""
        return f'<div class="{self._name}">{self._rule}{content}</div>'

    def bundles(self, bundle: Mapping[str, Any], widget: Any | None) -> list[dict[str, Any]]:
        """The outputs: the still, made from a MIME bundle, and the widget unless it is closed."""
        still = {**bundle, "text/html": self.html(bundle["text/html"])}
        if widget is None:
            return [still]
        # The widget's text lists classes of widgets; front ends that show text have the still's. It is empty
        # and not absent because nbconvert expects one.
        return [still, {**widget._repr_mimebundle_(), "text/plain": ""}]


def publish(bundles: Iterable[Mapping[str, Any]]) -> None:
    """Display outputs one after the other; for ``_ipython_display_``."""
    from IPython.display import publish_display_data

    for bundle in bundles:
        publish_display_data(dict(bundle))  # type: ignore[no-untyped-call]  # IPython's
