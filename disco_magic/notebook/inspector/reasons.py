"""What a closer look says where there is nothing to draw."""

from __future__ import annotations

from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

from disco_magic.errors import NoPicture

if TYPE_CHECKING:
    from collections.abc import Callable


def or_reason(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, but the reason why it draws nothing is returned, as text: for `Session.examine`."""
    return partial(_looked, function)


def _looked(function: Callable[..., Any], *given: Any) -> Any:
    try:
        return function(*given)
    except NoPicture as reason:
        return str(reason)


def present(picture: Any) -> Any:
    """What was found on a worker, or that it has no such register."""
    return "no value" if picture is None else picture


def sentence(text: str) -> str:
    """Text of any kind as HTML."""
    return f"<div>{escape(text)}</div>"
