"""Formats a `CellResult`: equal values once, below the workers that have them."""

from __future__ import annotations

import re
from functools import partial
from html import escape
from operator import is_
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from disco_magic.notebook.output.arrange import Item
from disco_magic.notebook.output.gallery import HELD, base64_of, gallery, is_picture
from disco_magic.phrases import ranges

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disco_magic.session.results import CellResult

_filters: WeakKeyDictionary[CellResult, tuple[int, ...]] = WeakKeyDictionary()
_IS_NONE = partial(is_, None)
_TEXT = {"text/plain"}
_MARKDOWN = "text/markdown"
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_RICHER = HELD - {_MARKDOWN}
_BESIDE = "display:flex;flex-wrap:wrap;align-items:flex-start;gap:4px 24px"
_LABEL = "font-family:monospace;opacity:.7"


def show_only(result: CellResult, workers: tuple[int, ...] | None) -> None:
    """Let `result` display only the values of these workers; it still holds all of them."""
    if workers is not None:
        _filters[result] = workers


def is_empty(result: CellResult) -> bool:
    """Whether there is nothing to display: None everywhere, or values that displayed themselves."""
    if all(map(_IS_NONE, result.shown.values())):
        return True  # as with most cells
    return not any(_has_content(data) for _, data in _groups(result))


def shown_bundle(result: CellResult, workers: tuple[int, ...] | None) -> dict[str, str]:
    """The MIME bundle of a result that displays only these workers' values; empty if there is nothing."""
    show_only(result, workers)
    return {} if is_empty(result) else result_bundle(result)


def result_bundle(result: CellResult) -> dict[str, str]:
    """The MIME bundle of a result: always text, and HTML if any value has a richer form.

    Never talks to workers: values were rendered on them when the cell ended.
    """
    shown = _filters.get(result)
    groups = result.groups(shown)
    bundle = {"text/plain": result.text(shown)}
    apart = result.apart(shown)
    full = [(workers, data) for workers, data in groups if _has_content(data)]
    if full and all(_is_markdown(data) for _, data in full):
        texts = [f"`{ranges(workers)}`\n\n{data[_MARKDOWN]}" for workers, data in full]
        texts += [f"`{line}`" for line in apart]
        bundle[_MARKDOWN] = "\n\n".join(texts)  # typeset by the front end
    elif any(set(data) - _TEXT for _, data in groups):
        bundle["text/html"] = _html(full) + "".join(f"<div>{_faint(line)}</div>" for line in apart)
    return bundle


def _is_markdown(data: Mapping[str, Any]) -> bool:
    """Whether Markdown is the richest form, and has no open code block that would swallow the next one."""
    text = data.get(_MARKDOWN)
    return text is not None and not _RICHER & set(data) and len(_FENCE.findall(text)) % 2 == 0


def _html(groups: Sequence[tuple[tuple[int, ...], Mapping[str, Any]]]) -> str:
    """Values side by side as space permits; figures as at the end of a cell."""
    if len(groups) > 1 and all(is_picture(data, {}) for _, data in groups):
        pictures = [(workers, Item("picture", data=dict(data))) for workers, data in groups]
        return gallery(pictures, _label)["text/html"]
    sections = "".join(
        f'<div style="max-width:100%"><div>{_label(workers)}</div>{_body(data)}</div>'
        for workers, data in groups
    )
    return f'<div class="disco-result" style="{_BESIDE}">{sections}</div>'


def _groups(result: CellResult) -> list[tuple[tuple[int, ...], Mapping[str, Any]]]:
    return result.groups(_filters.get(result))


def _has_content(data: Mapping[str, Any]) -> bool:
    """Whether there is something to show; a value that displayed itself has an empty text."""
    return any(data.values())


def _label(workers: Sequence[int]) -> str:
    return _faint(ranges(tuple(workers)))


def _faint(text: str) -> str:
    return f'<span style="{_LABEL}">{escape(text)}</span>'


def _body(data: Mapping[str, Any]) -> str:
    """The richest form that fits into HTML. LaTeX stays unchanged: notebooks typeset it inside HTML."""
    for mime in ("text/html", "image/svg+xml"):
        if mime in data:
            return str(data[mime])
    for mime in ("image/png", "image/jpeg"):
        if mime in data:
            return f'<img src="data:{mime};base64,{base64_of(data[mime])}" alt="{escape(_text(data))}">'
    if "text/latex" in data:
        return f"<div>{escape(str(data['text/latex']))}</div>"
    return f"<pre>{escape(str(data.get(_MARKDOWN) or _text(data)))}</pre>"


def _text(data: Mapping[str, Any]) -> str:
    return str(data.get("text/plain", ""))
