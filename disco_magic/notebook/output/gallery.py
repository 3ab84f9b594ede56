"""HTML for figures of several workers side by side, each below its worker's label, as large as possible."""

from __future__ import annotations

import base64
import re
from html import escape
from typing import TYPE_CHECKING, Any, Final

from disco_magic.core.markup import LINE_FONT, LINE_INDENT
from disco_magic.notebook.output.arrange import Item, display_id
from disco_magic.notebook.output.screens import clean
from disco_magic.phrases import ranges

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from disco_magic.notebook.output.arrange import Shown

    Tile = tuple[tuple[int, ...], Sequence[Item]]

# Two columns fit into a notebook of ordinary width, and numbers remain readable.
_COLUMN_PX: Final = 340
_COLUMNS: Final = "repeat(auto-fill,minmax(min(100%,{}px),1fr))"
_GRID: Final = f"display:grid;gap:6px 16px;grid-template-columns:{_COLUMNS};{LINE_INDENT}"
_FORMS: Final = ("image/svg+xml", "image/png", "image/jpeg")
HELD: Final = frozenset({"text/html", "text/latex", "text/markdown", *_FORMS})
"""The MIME types in which values of several workers can be shown together."""
TEXT: Final = f"{LINE_FONT};white-space:pre-wrap;overflow-wrap:anywhere"
"""CSS of lines."""
ERROR: Final = f"{TEXT};background:var(--jp-rendermime-error-background,#fdd)"
"""CSS of lines of stderr."""
# Comments are matched to skip them; quoted text may contain the end of the tag.
_SVG: Final = re.compile(rb"""<!--.*?-->|<svg(?=[\s/>])(?:[^>"']|"[^"]*"|'[^']*')*""", re.DOTALL)
_NAMESPACE: Final = re.compile(rb"""(?<![\w:.-])xmlns\s*=""")
_PNG: Final = b"\x89PNG\r\n\x1a\n"
# JupyterLab's colours behind images with a transparent background.
_BACKGROUNDS: Final = {"light": "#ffffff", "dark": "#000000"}


def is_picture(data: Mapping[str, Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a display is only an image that will not be updated in place."""
    lasting = not kwargs.get("update") and not display_id(kwargs)
    return lasting and "text/html" not in data and any(form in data for form in _FORMS)


def is_held(data: Mapping[str, Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a display can be combined with others in one display, and only we will change it."""
    known = {"text/plain", "text/html", *_FORMS}
    return is_picture(data, kwargs) or (
        "text/html" in data and known.issuperset(data) and not kwargs.get("update") and not display_id(kwargs)
    )


def gallery(shown: Shown, label: Callable[[Sequence[int]], str]) -> dict[str, str]:
    """MIME bundle of several pictures, in the order of `shown`; `label` returns workers' names as HTML.

    SVGs become images: inline in HTML, they would share the ids of their elements.
    """
    return tiled([(workers, [picture]) for workers, picture in shown], label)


def tiled(tiles: Sequence[Tile], label: Callable[[Sequence[int]], str]) -> dict[str, str]:
    """Like `gallery`, with pictures, tables and lines below each other in each of `tiles`."""
    html = [
        f'<div><div style="{LINE_FONT}">{label(workers)}</div>{"".join(map(html_of, items))}</div>'
        for workers, items in tiles
    ]
    column = min(_COLUMN_PX, max(_width(item) for _, items in tiles for item in items))
    lines = [
        f"{ranges(workers)} {line}" for workers, items in tiles for item in items for line in plain_of(item)
    ]
    return {
        "text/plain": "\n".join(lines),
        "text/html": f'<div class="disco-figures" style="{_GRID.format(column)}">{"".join(html)}</div>',
    }


def plain_of(item: Item) -> list[str]:
    """The item as lines of text."""
    return item.lines if item.is_text else [str(item.data.get("text/plain", ""))]


def html_of(item: Item) -> str:
    """The item as HTML."""
    if item.is_text:
        text = escape("\n".join(map(clean, item.lines)))
        return f'<div style="{ERROR if item.kind == "stderr" else TEXT}">{text}</div>'
    if "text/html" in item.data:
        return f"<div>{item.data['text/html']}</div>"
    return _image(item)


def sized(data: Mapping[str, Any], metadata: Mapping[str, Any]) -> str:
    """An image as HTML, if its metadata has the size that front ends give it and it has none; else ""."""
    picture = Item("picture", data=dict(data), kwargs={"metadata": metadata})
    form = _form(picture)
    is_sized = form is not None and "text/html" not in data and (metadata.get(form) or {}).get("width")
    return _image(picture) if is_sized else ""


def _image(picture: Item) -> str:
    form = _form(picture)
    text = escape(str(picture.data.get("text/plain", "")))
    if form is None:
        return f"<pre>{text}</pre>"
    background = _BACKGROUNDS.get(_told(picture).get("needs_background", ""))
    style = "max-width:100%;height:auto" + (f";background:{background}" if background else "")
    width = _told(picture).get(form, {}).get("width")
    size = f' width="{width}"' if width else ""
    content = picture.data[form]
    shown = base64_of(_standing_alone(content) if form == "image/svg+xml" else content)
    return f'<img src="data:{form};base64,{shown}" alt="{text}"{size} style="{style}"/>'


def _standing_alone(svg: bytes | str) -> bytes:
    """An SVG with its namespace, which is optional inline in HTML but required as an image."""
    content = svg.encode() if isinstance(svg, str) else svg
    opening = next((tag for tag in _SVG.finditer(content) if tag[0].startswith(b"<svg")), None)
    if opening is None or _NAMESPACE.search(opening[0]):
        return content
    after = opening.start() + len(b"<svg")
    return content[:after] + b' xmlns="http://www.w3.org/2000/svg"' + content[after:]


def _form(picture: Item) -> str | None:
    return next((form for form in _FORMS if form in picture.data), None)


def _told(picture: Item) -> dict[str, Any]:
    return picture.kwargs.get("metadata") or {}


def _width(picture: Item) -> int:
    """The width of a picture in pixels; that of a column if it is not easily found."""
    form = _form(picture) or ""
    told = _told(picture).get(form, {}).get("width")
    if told is None and form == "image/png":
        told = _png_width(base64_of(picture.data[form]))
    return int(told or _COLUMN_PX)


def _png_width(content: str) -> int | None:
    try:
        head = base64.b64decode(content[:32])
    except ValueError:
        return None  # not an image at all, which front ends will show
    return int.from_bytes(head[16:20], "big") if head.startswith(_PNG) else None


def base64_of(content: bytes | str) -> str:
    """Base64 of what IPython's formatters return: bytes, encoded text, or the text of an SVG."""
    if isinstance(content, str) and content.lstrip().startswith("<"):
        content = content.encode()
    return base64.b64encode(content).decode() if isinstance(content, bytes) else "".join(content.split())
