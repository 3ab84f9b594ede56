"""The frame of a picture: style for light and dark themes, titles, captions, tiles."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from disco_magic.core.markup import MARK_RULES

if TYPE_CHECKING:
    from collections.abc import Iterable

# `!important`, because JupyterLab sets margins and widths by more specific selectors.
_RULES: Final = (
    (
        "{}{display:inline-block;vertical-align:top;margin:0 16px 8px 0!important;"
        "font:12px/1.4 var(--jp-ui-font-family,sans-serif);color:var(--jp-ui-font-color1,inherit)}"
    ),
    "{} .told{max-width:34em}",
    "{} figcaption{max-width:34em;margin:0;padding:0;text-align:left}",
    "{} .dim{color:var(--jp-ui-font-color2,inherit)}",
    *MARK_RULES,
    "{} .stage{position:relative;overflow:visible}",
    "{} .stage>*{position:absolute;margin:0!important;max-width:none!important}",
    (
        "{} img{box-sizing:content-box!important;image-rendering:pixelated;"
        "border:1px solid var(--jp-border-color0,rgba(128,128,128,.6))}"
    ),
    "{} svg{overflow:visible;font-size:10px}",
    "{} svg text{fill:currentColor}",
    "{} .bar{box-sizing:border-box;height:9px;border:1px solid var(--jp-border-color0,rgba(128,128,128,.6))}",
    "{} .ends{display:flex;justify-content:space-between;font-size:10px}",
    "{} .tiles{margin:4px 0}",
    (
        "{} .note{display:flex;align-items:center;justify-content:center;text-align:center;"
        "box-sizing:border-box;padding:4px;border:1px dashed var(--jp-border-color0,rgba(128,128,128,.6))}"
    ),
)
_STYLE: Final = f"<style>{''.join(rule.replace('{}', '.disco-picture') for rule in _RULES)}</style>"


def figure(title: str, body: str, captions: Iterable[str] = ()) -> str:
    """A figure with trusted HTML `body`; title and captions are escaped, empty ones left out."""
    head = f"<div><b>{escape(title)}</b></div>" if title else ""
    lines = "<br/>".join(escape(line) for line in captions if line)
    foot = f'<figcaption class="dim">{lines}</figcaption>' if lines else ""
    return f'{_STYLE}<figure class="disco-picture">{head}{body}{foot}</figure>'


def note(text: str, width: int, height: int, top: int = 0) -> str:
    """A box with text in the place of a picture."""
    style = f"width:{width}px;min-height:{height}px;margin-top:{top}px"
    return f'<div class="note dim" style="{style}">{escape(text)}</div>'


def dim(text: str) -> str:
    """A line in a dim colour; "" stays empty."""
    return f'<div class="dim">{escape(text)}</div>' if text else ""
