"""Finds the expression of a cell that failed; Python keeps the position of each."""

from __future__ import annotations

import ast
import linecache
from contextlib import suppress
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from disco_magic.callers.sites import place_at
from disco_magic.callers.tracebacks import steps_of, traceback_of
from disco_magic.functions.execution.cells import parsed

if TYPE_CHECKING:
    import types

    from disco_magic.notebook.shell import Shell


class FailedExpression(NamedTuple):
    """The expression or statement of a cell that raised, and the frame that executed it."""

    node: ast.AST
    frame: types.FrameType


def failed_expression(shell: Shell, error: BaseException) -> FailedExpression | None:
    """The expression that raised `error`, if it is in a cell; else None."""
    *_, step = [None, *steps_of(traceback_of(error))]
    if step is None:
        return None
    code = step.tb_frame.f_code
    if shell.compile.format_code_name(code.co_filename) is None:
        return None
    place = place_at(code, step.tb_lasti)
    with suppress(SyntaxError):  # the lines may have been replaced meanwhile
        tree = parsed(_source(code.co_filename), code.co_filename)
        found = (node for node in ast.walk(tree) if place == _place(node))
        return next((FailedExpression(node, step.tb_frame) for node in found), None)
    return None


def _source(filename: str) -> str:
    """The lines of a cell as they were compiled, with blank lines for the magics at the top."""
    lines = linecache.getlines(filename)
    above = len(list(takewhile(lambda line: line.startswith(("%", "\n")), lines)))
    return "\n" * above + "".join(lines[above:])


def _place(node: ast.AST) -> tuple[int | None, ...] | None:
    """The position in the form of `co_positions`; None for a statement that is just an expression."""
    if not isinstance(node, ast.expr | ast.stmt) or isinstance(node, ast.Expr):
        return None
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


def own_names(frame: types.FrameType) -> tuple[str, ...]:
    """The variables of the function that is executed, and of the functions around it."""
    code = frame.f_code
    return (*code.co_varnames, *code.co_freevars, *code.co_cellvars)


def name_of_called(called: ast.expr, frame: types.FrameType) -> str:
    """The called name if every cell has it: ``allreduce``, or `rank` of ``worker.rank``; else ""."""
    named = called.value if isinstance(called, ast.Attribute) else called
    if not isinstance(named, ast.Name) or named.id in own_names(frame) or named.id in frame.f_globals:
        return ""
    if isinstance(called, ast.Attribute):
        return called.attr if named.id == "worker" else ""
    return named.id
