"""The expression of a cell that failed, for hints below its error."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from disco_magic.callers.failed_expression import failed_at
from disco_magic.callers.tracebacks import steps_of, traceback_of
from disco_magic.notebook.shell import is_of_cell

if TYPE_CHECKING:
    import types

    from disco_magic.callers.failed_expression import FailedExpression
    from disco_magic.notebook.shell import Shell


def failed_expression(shell: Shell, error: BaseException) -> FailedExpression | None:
    """The expression that raised `error`, if it is in a cell; else None."""
    *_, step = [None, *steps_of(traceback_of(error))]
    if step is None or not is_of_cell(shell, step.tb_frame.f_code):
        return None
    return failed_at(step)


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
