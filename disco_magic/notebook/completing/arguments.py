"""Names of the arguments of the call that the cursor is in.

IPython evaluates what is called, in some of its versions without any care, and looks at one line only. Here
the path is followed without running code, and the call may have begun some lines above.
"""

from __future__ import annotations

import inspect
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from disco_magic.functions.documents import called_of
from disco_magic.functions.members import member
from disco_magic.notebook.completing.offer import Offer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.notebook.completing.offer import Request

KIND: Final = "param"
_TYPED: Final = re.compile(r"(?<!\w)(?:[^\W\d]\w*)?$")
_TOKEN: Final = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|#[^\n]*|\w+|\S")
_BACK: Final = 4000  # characters
_NAMED: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def argument_offers(bound: dict[str, Any], behind: dict[str, Any], request: Request) -> list[Offer]:
    """``out=`` and its like, but for those that the call has already."""
    typed = _TYPED.search(request.line)
    before = request.text[max(0, request.offset - _BACK) : request.offset]
    tokens = [token for token in _TOKEN.findall(before) if token[0] != "#"]
    opening = _opening(tokens)
    if typed is None or opening is None or request.line[: typed.start()].rstrip().endswith("."):
        return []
    path = _path(tokens[:opening])
    found = member(bound, behind, path) if path else None
    given = {name for name, sign in pairwise(tokens[opening:]) if sign == "="}
    names = _arguments(called_of(found.value)) if found is not None else []
    start = request.offset - len(typed[0])
    return [
        Offer(start, request.offset, f"{name}=", KIND)
        for name in names
        if name.startswith(typed[0]) and name not in given
    ]


def _opening(tokens: Sequence[str]) -> int | None:
    """Where the innermost call begins that is not closed."""
    depth = 0
    for at in reversed(range(len(tokens))):
        depth += {")": 1, "]": 1, "}": 1, "(": -1, "[": -1, "{": -1}.get(tokens[at], 0)
        if depth < 0:
            return at if tokens[at] == "(" else None
    return None


def _path(tokens: Sequence[str]) -> list[str]:
    """The names at the end, with dots between them."""
    path: list[str] = []
    for at in reversed(range(len(tokens))):
        if (len(tokens) - at) % 2:
            if not tokens[at].isidentifier():
                return []
            path.insert(0, tokens[at])
        elif tokens[at] != ".":
            break
    return path


def _arguments(called: Any) -> list[str]:
    try:
        parameters = inspect.signature(called).parameters.values()
    except Exception:  # noqa: BLE001 - there is none for some of C, and a class of the user's may say anything
        return []
    return [each.name for each in parameters if each.kind in _NAMED]
