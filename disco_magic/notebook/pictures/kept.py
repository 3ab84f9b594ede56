"""Drawings as a saved notebook keeps them, also for readers who have not trusted it yet."""

from __future__ import annotations

import re
from typing import Final

_TIP: Final = re.compile(
    r"<(rect|path|circle|text)\b([^<>]*)>([^<>]*)<title>([^<>]*)</title>([^<>]*)</\1>", re.DOTALL
)
_SVG: Final = '<svg xmlns="http://www.w3.org/2000/svg"'
_UNTRUSTED: Final = (
    "<style>.disco-untrusted{display:none}</style>"
    '<div class="disco-untrusted">drawings are shown once the notebook is trusted</div>'
)


def kept(html: str) -> str:
    """HTML with drawings that a notebook is saved with.

    In a notebook of somebody else's, JupyterLab removes style elements, and the tags of SVG but not the words
    in them: the tooltips of a timeline would be pages of text. Attributes go with their tags, and
    browsers show this one as a tooltip, too (Chromium; Firefox shows none). The sentence that says what is
    missing is hidden by a style, which is removed where it is needed.

    Cost: about 1 us per tooltip.
    """
    if _SVG not in html:
        return html
    named = _TIP.sub(r'<a xlink:title="\4"><\1\2>\3\5</\1></a>', html)
    linked = named.replace(_SVG, f'{_SVG} xmlns:xlink="http://www.w3.org/1999/xlink"')
    return f"{_UNTRUSTED}{linked}"
