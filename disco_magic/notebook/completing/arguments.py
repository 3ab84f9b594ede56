"""Completes names of arguments of the call at the cursor, and their string values: axes, operations.

IPython evaluates the called expression, in some versions without any care, and looks at one line only. Here
the dotted name is looked up without running code, and the call may begin some lines above.
"""

from __future__ import annotations

import inspect
import re
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Final

from disco_magic.core.mesh import NO_MESH, Mesh
from disco_magic.functions.context import WorkerContext
from disco_magic.notebook.completing.offer import Offer
from disco_magic.planes.reductions import OPS
from disco_magic.values.documents import called_of
from disco_magic.values.members import member

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from disco_magic.notebook.completing.offer import Request

KIND: Final = "param"
_TYPED: Final = re.compile(r"(?<!\w)(?:[^\W\d]\w*)?$")
_TOKEN: Final = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|#[^\n]*|\w+|\S")
_TEXT_BEGUN: Final = re.compile(r"""(?<!\w)["']\w*$""")  # no prefix: an f-string holds code
_DEPTHS: Final = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}
_BACK: Final = 4000  # characters
_NAMED: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_PLACED: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def argument_offers(bound: dict[str, Any], behind: dict[str, Any], request: Request) -> list[Offer]:
    """Offers like ``out=``, except arguments that the call has already."""
    typed = _TYPED.search(request.line)
    tokens = _tokens(request, request.offset)
    opening = _opening(tokens)
    if typed is None or opening is None or request.line[: typed.start()].rstrip().endswith("."):
        return []
    path = _path(tokens[:opening]) if tokens[opening] == "(" else []
    found = member(bound, behind, path) if path else None
    given = {name for name, sign in pairwise(tokens[opening:]) if sign == "="}
    names = _arguments(called_of(found.value), _mesh(behind)) if found is not None else []
    start = request.offset - len(typed[0])
    return [
        Offer(start, request.offset, f"{name}=", KIND)
        for name in names
        if name.startswith(typed[0]) and name not in given
    ]


def text_offers(bound: dict[str, Any], behind: dict[str, Any], request: Request) -> list[Offer]:
    """Offers within quotes: axes after ``over=`` or in ``worker.mesh[``, operations of a collective."""
    begun = _TEXT_BEGUN.search(request.line)
    if begun is None:
        return []
    start = request.offset - len(begun[0]) + 1
    tokens = _tokens(request, start - 1)
    opening = _opening(tokens)
    if opening is None:
        return []
    listed: Sequence[str] = ()
    if not _path(tokens[:opening]):  # in a tuple or list, which is the argument
        tokens, listed = tokens[:opening], [token[1:-1] for token in tokens[opening:]]
        opening = _opening(tokens)
    fitting = () if opening is None else _texts(bound, behind, tokens, opening)
    return [
        Offer(start, request.offset, text, kind)
        for text, kind in fitting
        if text.startswith(begun[0][1:]) and text not in listed
    ]


def _tokens(request: Request, end: int) -> list[str]:
    before = request.text[max(0, request.offset - _BACK) : end]
    return [token for token in _TOKEN.findall(before) if token[0] != "#"]


def _texts(
    bound: dict[str, Any], behind: dict[str, Any], tokens: Sequence[str], opening: int
) -> Iterable[tuple[str, str]]:
    path, axes = _path(tokens[:opening]), [(axis, "axis") for axis in _mesh(behind)]
    found = member(bound, behind, path) if path else None
    if found is None:
        return ()
    if tokens[opening] == "[":
        is_place = found.owner is WorkerContext and path[-1] == "coordinates"
        return axes if is_place or type(found.value) is Mesh else ()
    called = called_of(found.value)
    argument = _argument(called, tokens[opening:])
    if argument == "over":
        return axes
    ours = getattr(WorkerContext, getattr(called, "__name__", ""), None)
    is_ours = ours is not None and getattr(called, "__func__", None) is ours
    return [(op, "operation") for op in OPS] if argument == "op" and is_ours else ()


def _argument(called: Any, tokens: Sequence[str]) -> str:
    """The name of the argument at the end of a call's `tokens`, which begin with the bracket."""
    if len(tokens) > 2 and tokens[-1] == "=":
        return tokens[-2]
    if tokens[-1] not in "(,":
        return ""
    depths = accumulate(_DEPTHS.get(token, 0) for token in tokens)
    position = list(zip(tokens, depths, strict=True)).count((",", 1))
    positional = [each.name for each in _parameters(called) if each.kind in _PLACED]
    return positional[position] if position < len(positional) else ""


def _opening(tokens: Sequence[str]) -> int | None:
    """The position of the innermost bracket that is not closed."""
    depth = 0
    for at in reversed(range(len(tokens))):
        depth += _DEPTHS.get(tokens[at], 0)
        if depth > 0:
            return at
    return None


def _path(tokens: Sequence[str]) -> list[str]:
    """The dotted name at the end, as a list of names."""
    path: list[str] = []
    for at in reversed(range(len(tokens))):
        if (len(tokens) - at) % 2:
            if not tokens[at].isidentifier():
                return []
            path.insert(0, tokens[at])
        elif tokens[at] != ".":
            break
    return path


def _arguments(called: Any, mesh: Mesh) -> list[str]:
    """The names that a call may use; for coordinates in the mesh, its axes."""
    parameters = _parameters(called)
    named = [each.name for each in parameters if each.kind in _NAMED]
    further = [each.name for each in parameters if each.kind is inspect.Parameter.VAR_KEYWORD]
    return [*named, *mesh] if further == ["coordinates"] else named


def _parameters(called: Any) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(called).parameters.values())
    except Exception:  # noqa: BLE001 - there is none for some of C, and a class of the user's may say anything
        return []


def _mesh(behind: dict[str, Any]) -> Mesh:
    worker = behind.get("worker")
    return worker.mesh if type(worker) is WorkerContext else NO_MESH
