"""Completions in a cell, on one worker: where the values are.

`offers` is for `Session.examine_names`: it runs where the values are, takes and returns plain data, and keeps
no values. IPython's completer knows the names and, under its policy ``limited``, the values' attributes. It
gets only the cursor's line, because it would execute what it considers harmless in the lines above, such as
``list(range(10**9))``. Jedi, if the user's completer uses it, is asked only about names that the cell binds
above the cursor, results of calls, and imports: it knows the rest too, but takes thirty times as long.
"""

from __future__ import annotations

import ast
import keyword
import re
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from IPython.core.completer import has_open_quotes

from disco_magic.notebook.completing.arguments import KIND, argument_offers, text_offers
from disco_magic.notebook.completing.completer import ipython_offers
from disco_magic.notebook.completing.jedi import TYPES_FOR_S, is_there, jedi_offers
from disco_magic.notebook.completing.offer import UNKNOWN
from disco_magic.values.documents import signature_of
from disco_magic.values.members import NOTHING, attribute, kind_of, member

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from disco_magic.notebook.completing.offer import Offer, Request
    from disco_magic.values.members import Member

# `a.b[0].c(1).na`: the first name, the steps after it, and the begun attribute.
_CHAIN: Final = re.compile(r"(?<![\w.])([^\W\d]\w*)((?:\s*\.\s*\w+|\[[^][]*\]|\([^()]*\))*)\s*\.\s*\w*$")
_PATH: Final = re.compile(r"[\w.\s]*$")
_NAME_IN_FORMULA: Final = re.compile(r"(?<=[\w)\]} ])[-/%~](?=[^\W\d]\w*$)")
_IMPORT: Final = re.compile(r"\s*(import|from)\s")
_OF_IPYTHON: Final = re.compile(r"^(\s*)(?:[!%?].*|[\w.]+\?+)$", re.MULTILINE)
# A dot of an attribute, not of a number.
_DOT: Final = re.compile(r"(?:[^\d\s.]|[^\W\d]\w*)\s*\.\s*\w*$")
# Signatures of more offers would not be read, and each takes 0.1 ms.
_SIGNED: Final = 100
# IPython's types of names and attributes that it has not looked up.
_VAGUE: Final = ("variable", "attribute", UNKNOWN)


def offers(bound: dict[str, Any], behind: dict[str, Any], request: Request) -> list[Offer]:
    """The offers at the cursor in a cell of the worker, each once, in no order."""
    above = _bound_above(request)
    for name in (*request.elsewhere, *(above or ())):
        bound.setdefault(name, _NAME)
    found = {(each.start, each.text): each for each in reversed(_found(bound, behind, request, above))}
    until = time.monotonic() + TYPES_FOR_S
    look = partial(_named, bound, behind, _owner(bound, behind, request.line))
    signed = len(found) <= _SIGNED
    return [
        _explained(each, look, signed=signed) if time.monotonic() < until else each for each in found.values()
    ]


def _found(
    bound: dict[str, Any], behind: dict[str, Any], request: Request, above: set[str] | None
) -> list[Offer]:
    line = request.line
    if texts := text_offers(bound, behind, request):
        return texts
    may_ask = request.settings.use_jedi and is_there()
    first = may_ask and _is_for_jedi(line, above)
    found = jedi_offers(bound, behind, request) if first else []
    if found:
        return found
    seen = request.back(ipython_offers(bound, behind, _spaced(request.of_line())))
    seen += argument_offers(bound, behind, request)
    if _is_text(line):
        return [each for each in seen if each.type not in (*_VAGUE, KIND)]
    if _IMPORT.match(line):
        return [each for each in seen if each.type != "variable"]
    known = any(each.type in ("attribute", "dict key") for each in seen)
    if may_ask and not first and not known and (above is None or _DOT.search(line)):
        return [*jedi_offers(bound, behind, request), *seen]
    return seen


def _is_for_jedi(line: str, above: set[str] | None) -> bool:
    """Whether the line imports, or completes an object of the cell itself, which has no value yet."""
    chain = _CHAIN.search(line)
    made = chain is not None and (above is None or chain[1] in above or "(" in chain[2])
    return made or _IMPORT.match(line) is not None


def _spaced(request: Request) -> Request:
    """Replace an operator that IPython takes for a part of a (file) name by a space."""
    found = _NAME_IN_FORMULA.search(request.line)
    if found is None or "!" in request.line or _is_text(request.line):
        return request
    at = found.start()
    return request._replace(text=f"{request.text[:at]} {request.text[at + 1 :]}")


def _is_text(line: str) -> bool:
    """Whether the cursor is in a string, but not in the expression of an f-string."""
    quote = has_open_quotes(line)
    return bool(quote) and "{" not in line.rpartition(str(quote))[2]


def _owner(bound: dict[str, Any], behind: dict[str, Any], line: str) -> Member | None:
    """The object before the last dot, if it can be found without evaluating anything."""
    chain = _CHAIN.search(line)
    if chain is None or not _PATH.fullmatch(chain[2]):
        return None
    return member(bound, behind, [part.strip() for part in f"{chain[1]}{chain[2]}".split(".")])


def _named(bound: dict[str, Any], behind: dict[str, Any], owner: Member | None, offer: Offer) -> Any:
    if offer.type == "attribute":
        return NOTHING if owner is None else attribute(owner.value, offer.text.rpartition(".")[2])
    return bound.get(offer.text, behind.get(offer.text, NOTHING))


def _explained(offer: Offer, look: Callable[[Offer], Any], *, signed: bool) -> Offer:
    """Add the type, and if `signed` the signature, to an offer that has none."""
    value = look(offer) if offer.type in _VAGUE else NOTHING
    if value is NOTHING:
        return offer._replace(type="keyword") if keyword.iskeyword(offer.text) else offer
    kind = kind_of(value)
    return offer._replace(type=kind, signature=signature_of(value) if signed and kind == "function" else "")


def _bound_above(request: Request) -> set[str] | None:
    """The names that the cell binds above the cursor's line; None if that part is not valid Python."""
    line = request.line
    above = _OF_IPYTHON.sub(r"\1pass", request.text[: request.offset - len(line)])
    try:
        tree = ast.parse(f"{above}{line[: len(line) - len(line.lstrip())]}pass")
    except (SyntaxError, ValueError, SystemError):  # the last: see `functions.execution.cells`
        return None
    return {name for node in ast.walk(tree) for name in _bound_by(node)}


def _bound_by(node: ast.AST) -> Iterable[str]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return [node.id]
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.arg):
        return [node.arg]
    if isinstance(node, ast.alias):
        return [(node.asname or node.name).partition(".")[0]]
    return ()


class _Name:
    """Stand-in for a missing value: a name without attributes."""


_NAME: Final = _Name()
