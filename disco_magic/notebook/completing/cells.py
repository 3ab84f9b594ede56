"""Completions in a cell that runs on the workers, from the names that the workers have."""

from __future__ import annotations

import builtins
import re
import types
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from IPython.core.completer import Completion, completions_sorting_key
from IPython.core.error import UsageError

from disco_magic.errors import DiscoError
from disco_magic.notebook.cell_options import cell_parser
from disco_magic.notebook.completing.offer import UNKNOWN, Request, Settings
from disco_magic.notebook.options import HelpAskedFor
from disco_magic.notebook.targets import parse_workers, workers_of_group

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Sequence

    from disco_magic.notebook.completing.offer import Offer
    from disco_magic.notebook.front import Front
    from disco_magic.session.session import Session

_NAMES: Final = re.compile(r"(?<![\w.])[^\W\d]\w*")
_IMPORT: Final = re.compile(r"\s*(import|from)\s")
# Kinds of offers that may be names of registers: not keys, files or arguments.
_KINDS: Final = ("instance", "function", "class", "module", "variable", "statement", "property", UNKNOWN)
PUSHED: Final = "pushed"
# IPython takes these builtins away while a cell runs, so workers do not have them. A plain cell that consists
# of one ends the kernel, see `plain`.
_ENDS: Final = ("exit", "quit")


class Body(NamedTuple):
    """The part of a cell that runs on the workers.

    Attributes:
        options: the text after ``%%disco``; empty without that line.
        start: position in the cell where it begins.
    """

    options: str
    start: int


def completions(front: Front, body: Body, text: str, offset: int) -> Iterator[Completion]:
    """The completions at `offset` of the cell `text`, within its body; never waits for a worker."""
    options = options_of(body)
    code, cursor = text[body.start :], offset - body.start
    request = Request(code, cursor, (), Settings.of(front.shell.Completer))
    pushed = _pushed(front, options)
    session = front.session_there(None if options is None else options.session)
    if session is None:
        found, kinds = _of_notebook(pushed, request, front.settings.expected), {}
    else:
        from disco_magic.notebook.completing.summary import marks

        found = _of_workers(session, _order(options, session), pushed, request)
        kinds = marks(session, [each.text for each in found if _is_name(each, code)])
    kinds.update(dict.fromkeys(pushed, PUSHED))
    order: Any = completions_sorting_key  # IPython's
    for each in sorted(found, key=lambda offer: order(offer.text)):
        is_name = not _IMPORT.match(request.line) and _is_name(each, code)
        yield Completion(
            start=body.start + each.start,
            end=body.start + each.end,
            text=each.text,
            type=kinds.get(each.text, each.type) if is_name else each.type,
            signature=each.signature,
            _origin="disco_magic",
        )
    if not body.start and offset == len(text) and (word := text.lstrip()):
        for name in set(_ENDS) - {each.text for each in found}:
            if name.startswith(word):
                yield Completion(offset - len(word), offset, name, type="instance", _origin="disco_magic")


def options_of(body: Body) -> Namespace | None:
    """The cell's options; None if they are incomplete or wrong."""
    try:
        return cell_parser().read(body.options)
    except (UsageError, HelpAskedFor):
        return None


def _pushed(front: Front, options: Namespace | None) -> dict[str, Any]:
    names = front.shell.user_ns
    return {name: names[name] for name in (options.push if options is not None else ()) if name in names}


def _order(options: Namespace | None, session: Session) -> Sequence[int]:
    """The workers that run the cell; a name is looked up on the first of them that has it."""
    everybody = range(session.num_workers)
    if options is None:
        return everybody
    try:
        chosen = workers_of_group(options.group, session.topology)
        return chosen or parse_workers(options.workers, session.topology) or everybody
    except DiscoError:  # there is no such worker: running the cell will say so
        return everybody


def _of_workers(
    session: Session, order: Sequence[int], pushed: dict[str, Any], request: Request
) -> list[Offer]:
    from disco_magic.notebook.completing.on_worker import offers
    from disco_magic.values.members import names_of

    names = dict(zip(order, map(set, session.examine_names(names_of, workers=order)), strict=True))
    known = set().union(*names.values())
    used = set(_NAMES.findall(request.line))
    if used & set(pushed) - known:
        return _of_notebook(pushed, request._replace(elsewhere=tuple(known)), session.num_workers)
    asked = next((worker for worker in order if used & known <= names[worker]), order[0])
    request = request._replace(elsewhere=(*known, *pushed))
    (found,) = session.examine_names(offers, request, workers=(asked,))
    return list(found)


def _of_notebook(pushed: dict[str, Any], request: Request, num_workers: int) -> list[Offer]:
    """Offers from variables that the cell will get, and from the names that every worker has."""
    from disco_magic.notebook.completing.on_worker import offers

    bound = dict(pushed)
    try:
        return offers(bound, behind(num_workers), request)
    finally:
        bound.clear()


def behind(num_workers: int) -> dict[str, Any]:
    """The names that cells see on every worker, without a session."""
    import numpy as np

    from disco_magic.functions.context import VERBS, WorkerContext

    verbs = {verb: types.MethodType(getattr(WorkerContext, verb), WorkerContext) for verb in VERBS}
    numbers = {"worker_id": 0, "num_workers": num_workers}
    known = {name: value for name, value in vars(builtins).items() if name not in _ENDS}
    return {**known, **verbs, **numbers, "np": np, "xp": np, "worker": WorkerContext}


def _is_name(offer: Offer, code: str) -> bool:
    before = code[: offer.start].rstrip()
    return offer.type in _KINDS and offer.text.isidentifier() and not before.endswith(".")
