"""What a notebook shows of a live view when the kernel is gone: a still, taken when the cell ran.

Of an output that offers a widget and HTML, JupyterLab shows the widget, and an error in its place when the
kernel that had it is gone: "model not found". So a still is an output of its own, before the widget's:

* while the widget is there, a rule inside of it hides the still;
* where it is not, a rule inside of the still hides the error, and the still is what is left;
* web pages made of the notebook, and front ends without widgets, show the still.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PANEL: Final = "disco-live"
_OUTPUT: Final = ".jp-OutputArea-child"


class Still:
    """The still of one live view.

    Attributes:
        hiding: the rule that hides it, as HTML; belongs into the widget.
    """

    def __init__(self) -> None:
        self._name = f"disco-still-{uuid.uuid4().hex[:12]}"
        me = f".{self._name}"
        self.hiding = f"<style>{me},{_OUTPUT}:has({me}){{display:none}}</style>"
        self._rule = f"<style>{_OUTPUT}:has({me})+{_OUTPUT}:not(:has(.{PANEL})){{display:none}}</style>"

    def html(self, content: str) -> str:
        """The still as HTML."""
        return f'<div class="{self._name}">{self._rule}{content}</div>'

    def bundles(self, bundle: Mapping[str, Any], widget: Any | None) -> list[dict[str, Any]]:
        """The outputs: the still, made of a MIME bundle, and the widget unless that is closed."""
        still = {**bundle, "text/html": self.html(bundle["text/html"])}
        if widget is None:
            return [still]
        # Its text names classes of widgets: who shows text has the still's. But nbconvert wants one.
        return [still, {**widget._repr_mimebundle_(), "text/plain": ""}]


def publish(bundles: Iterable[Mapping[str, Any]]) -> None:
    """Display outputs one after the other; what ``_ipython_display_`` does."""
    from IPython.display import publish_display_data

    for bundle in bundles:
        publish_display_data(dict(bundle))  # type: ignore[no-untyped-call]  # IPython's
