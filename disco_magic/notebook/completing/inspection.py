"""Answers Shift-Tab and ``name?`` in cells that run on the workers."""

from __future__ import annotations

import ast
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from IPython.core import page
from IPython.utils.tokenutil import token_at_cursor

from disco_magic.callers.replaced import replace_all, replacing
from disco_magic.errors import DiscoError
from disco_magic.notebook.completing.completion import body_at
from disco_magic.notebook.completing.inquiries import DETAILS, INQUIRIES, Inquiry, is_question
from disco_magic.notebook.plain import transformed

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from disco_magic.notebook.front import Front
    from disco_magic.notebook.shell import Shell
    from disco_magic.session.session import Session
    from disco_magic.values.members import NameInfo

_QUESTION: Final = re.compile(
    r"\s*(?:#.*|\?{1,2}[\s\w.*]*|%(?:pinfo2?|psearch)\s[\s\w.*]*|[\w.*]+\?{1,2}\s*;?\s*)?$"
)


def inspect_for_workers(front: Front) -> Callable[[], None]:
    """Let IPython's kernel and shell know the names of the workers; return what ends that.

    The kernel's `do_inspect`, on the instance, answers Shift-Tab. A terminal has no kernel.
    """
    kernel = getattr(front.shell, "kernel", None)
    answer, replaced = partial(_answer, front), []
    if hasattr(kernel, "do_inspect"):

        @replacing(kernel, "do_inspect")
        def do_inspect(code: str, cursor_pos: int, detail_level: int = 0, omit_sections: Any = ()) -> Any:
            body = body_at(front, code, cursor_pos)
            if body is None:
                return do_inspect.below(code, cursor_pos, detail_level, omit_sections)
            from disco_magic.notebook.completing.cells import options_of

            options = options_of(body)
            session = front.session_there(None if options is None else options.session)
            name = token_at_cursor(code[body.start :], cursor_pos - body.start)
            data = inspected(front, name, detail_level, session, omit=omit_sections)
            return {"status": "ok", "found": bool(data), "data": data, "metadata": {}}

        replaced.append(do_inspect)
    front.shell.events.register("post_run_cell", answer)
    restore = replace_all(replaced)

    def remove() -> None:
        front.shell.events.unregister("post_run_cell", answer)
        restore()

    return remove


def _answer(front: Front, *_: object) -> None:
    """Answer the questions of a cell that has just ended, as IPython does."""
    if not INQUIRIES:
        return
    current = front.sessions.find()
    others = [session for session in front.others if session is not current]
    for session in others if current is None else [current, *others]:
        for inquiry, workers in INQUIRIES.take(session.id).items():
            tell(front, inquiry, session, workers)


def tell(front: Front, inquiry: Inquiry, session: Session | None, workers: Sequence[int] = ()) -> None:
    """Show the help for a name where IPython shows help; prefer the object of these `workers`."""
    if "*" in inquiry.name:
        page.page("\n".join(_found(front, inquiry.name, session)))
        return
    data = inspected(front, inquiry.name, inquiry.detail, session, first=workers)
    if not data:
        print(f"Object `{inquiry.name}` not found.")
        return
    if not front.shell.enable_html_pager:
        del data["text/html"]
    page.page(data)


def _found(front: Front, pattern: str, session: Session | None) -> list[str]:
    """The names that fit a pattern, on any worker."""
    from disco_magic.values.members import matching

    if session is None:
        from disco_magic.notebook.completing.cells import behind

        return matching({}, behind(front.settings.expected), pattern)
    try:
        found = session.examine_names(matching, pattern)
    except DiscoError:  # it has ended
        return []
    return sorted({name for names in found for name in names}, key=str.lower)


def asked_alone(shell: Shell, body: str) -> list[Inquiry]:
    """The questions of a cell that consists of questions (``x?``) only; otherwise none.

    Such a cell needs no worker, and does not have to wait for one.
    """
    # Do not parse other lines: parsing them twice would repeat warnings.
    if not all(map(_QUESTION.match, body.split("\n"))):
        return []
    try:
        statements = ast.parse(transformed(shell, body)).body
    except SyntaxError:
        return []
    found = [each for each in map(_inquiry, statements) if each is not None]
    return found if len(found) == len(statements) else []


def _inquiry(statement: ast.stmt) -> Inquiry | None:
    """The question in the statement into which IPython transforms ``x?``; else None."""
    match statement:
        case ast.Expr(
            ast.Call(
                ast.Attribute(ast.Call(ast.Name("get_ipython"), []), "run_line_magic"),
                [ast.Constant(str(magic)), ast.Constant(str(name))],
            )
        ) if is_question(magic, name):
            return Inquiry(name.strip(), DETAILS[magic])
    return None


def inspected(
    front: Front,
    name: str,
    detail: int,
    session: Session | None,
    *,
    omit: Container[str] = (),
    first: Sequence[int] = (),
) -> dict[str, str]:
    """The MIME bundle of the help for a name in workers' cells.

    Waits for no worker. For a register, first its value on each worker, then signature, docstring and so on
    of one worker's object.

    Args:
        front: the notebook's side.
        name: a dotted name, ``model.weight``.
        detail: 1 includes the source.
        session: the session; None: only names that every worker has.
        omit: titles of sections to leave out.
        first: workers whose object is preferred; otherwise that of the first worker that has one.
    """
    path = tuple(part.strip() for part in name.split("."))
    if not all(part.isidentifier() for part in path):
        return {}
    try:
        infos, sections = _asked(front, path, detail, session, first)
    except DiscoError:
        return {}
    if not sections:
        return {}
    from disco_magic.notebook.completing.summary import bundle

    kept = [
        each for each in sections if each[0] not in omit and each[0].lower().replace(" ", "_") not in omit
    ]
    circles = {} if session is None or session.closed else session.circles_of_marks()
    return bundle(front.shell, name, infos, kept, circles.get(path[0], ()))


def _asked(
    front: Front,
    path: tuple[str, ...],
    detail: int,
    session: Session | None,
    first: Sequence[int],
) -> tuple[list[NameInfo | None], list[tuple[str, str]]]:
    from disco_magic.values.documents import document
    from disco_magic.values.members import look_up

    if session is None:
        from disco_magic.notebook.completing.cells import behind

        names = behind(front.settings.expected)
        return [], document({}, names, path, detail > 0)
    infos = session.examine_names(look_up, path)
    holders = [worker for worker in (*first, *range(len(infos))) if infos[worker] is not None]
    if not holders:
        return infos, []
    (sections,) = session.examine_names(document, path, detail > 0, workers=holders[:1])
    return infos, sections
