"""The expression that raised an error, in the innermost code of the user's: Python keeps its position."""

from __future__ import annotations

import ast
import dis
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from disco_magic.callers.sites import Site, is_own, line_at
from disco_magic.callers.source_text import parsed, source_at
from disco_magic.callers.tracebacks import steps_of, traceback_of

if TYPE_CHECKING:
    from types import FrameType, TracebackType

# Read from the class: one of the user's may have a property of this name.
_CONTEXT: Final[Any] = BaseException.__dict__["__context__"]
# Whose place in the source is only the target: the rest of the statement matters as much.
_TARGETS: Final = frozenset({"STORE_SUBSCR", "STORE_SLICE", "STORE_ATTR", "UNPACK_SEQUENCE", "UNPACK_EX"})


class FailedExpression(NamedTuple):
    """The expression or statement that raised.

    Attributes:
        text: as it is written.
        node: as a tree of its own; an expression is not wrapped in a statement.
        frame: the frame that executed it.
        offset: where in the code of `frame`.
        line: where in the source.
        changed: the target of ``t[0] += [2]``, if that was computed, perhaps in place, and could not be set.
    """

    text: str
    node: ast.AST
    frame: FrameType
    offset: int
    line: Site
    changed: ast.expr | None = None


def step_of_user(error: BaseException) -> TracebackType | None:
    """The innermost entry of the traceback whose code the user has written; None if there is none."""
    found = None
    for step in steps_of(traceback_of(error)):
        if is_own(step.tb_frame.f_code.co_filename):
            found = step
    return found


def was_kept(error: BaseException, frame: FrameType) -> bool:
    """Whether a frame has caught the error, kept it, and raised it while it handled another one.

    The traceback then has the frame twice, and the error the other one as its context. An error that its own
    handler raises again has none.
    """
    entries = sum(step.tb_frame is frame for step in steps_of(traceback_of(error)))
    return entries > 1 and _CONTEXT.__get__(error) is not None


def failed_at(step: TracebackType | None) -> FailedExpression | None:
    """The expression in which the traceback's entry raised; None if its source cannot be read."""
    if step is None:
        return None
    code, offset = step.tb_frame.f_code, step.tb_lasti
    line = Site(code.co_filename, step.tb_lineno or line_at(code, offset))
    texts = [source_at(code, offset)]
    sets = dis.opname[code.co_code[offset]] in _TARGETS
    if sets:
        texts.insert(0, source_at(code, offset, whole_lines=True))
    # From 3.12 on, what failed in an f-string is one field: ``{loss:.3f}``, which may also be read as a dict.
    is_field = texts[0].startswith("{") and dis.opname[code.co_code[offset]].startswith("FORMAT_")
    for text in texts:
        node = _tree(f'f"""{text}"""' if is_field else text)
        if node is not None:
            changed = node.target if sets and isinstance(node, ast.AugAssign) else None
            return FailedExpression(text, node, step.tb_frame, offset, line, changed)
    return None


def _tree(text: str) -> ast.AST | None:
    # In brackets, because an expression of several lines was in some. Of a loop there may be the head only.
    for whole in (f"(\n{text}\n)", text, f"{text} pass"):
        with suppress(SyntaxError, ValueError, RecursionError):
            statements = parsed(whole, "<failed>").body
            if len(statements) == 1:  # not if other lines have taken its place
                (statement,) = statements
                return statement.value if isinstance(statement, ast.Expr) else statement
    return None
