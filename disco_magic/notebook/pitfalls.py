"""Two mistakes that Python's own words do not lead to: a name that hides a collective, a result of others.

``reduce = []`` in a cell hides the collective from all later cells, which fail with "'list' object is not
callable"; and ``gather(x).shape`` fails on all workers but the root, since what they get is None. Both are
told by the expression that failed, of which Python keeps the place.
"""

from __future__ import annotations

import ast
import linecache
from contextlib import suppress
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Final, NamedTuple

from disco_magic.functions.cells import parsed
from disco_magic.functions.namespaces import beside
from disco_magic.functions.tracebacks import steps_of, traceback_of
from disco_magic.phrases import class_name, people

if TYPE_CHECKING:
    import types

    from disco_magic.notebook.shell import Shell

_CODE_UNIT: Final = 2  # bytes: `tb_lasti` counts these, `co_positions` has an entry for each unit
_NOTHING: Final = "NoneType"
# Collectives whose result is the root's alone, each with the one that gives it to all.
_OF_ROOT: Final = {"gather": "allgather", "reduce": "allreduce"}


class _Failed(NamedTuple):
    """What raised, an expression of a cell or a statement, and the frame that executed it."""

    node: ast.AST
    frame: types.FrameType


def advice_on_pitfalls(shell: Shell, error: BaseException) -> list[str]:
    """A line if `error`, of a worker, is what one of the two leads to."""
    if type(error) not in (TypeError, AttributeError):
        return []
    failed = _failed(shell, error)
    if failed is None:
        return []
    said = _hidden(failed) or (_of_root(failed) if _NOTHING in str(error) else "")
    return [said] if said else []


def _failed(shell: Shell, error: BaseException) -> _Failed | None:
    """Where `error` was raised, if that is code of a cell."""
    *_, step = [None, *steps_of(traceback_of(error))]
    if step is None:
        return None
    code = step.tb_frame.f_code
    if shell.compile.format_code_name(code.co_filename) is None:
        return None
    place = next(islice(code.co_positions(), step.tb_lasti // _CODE_UNIT, None), None)
    with suppress(SyntaxError):  # lines that have been replaced meanwhile
        tree = parsed(_source(code.co_filename), code.co_filename)
        found = (node for node in ast.walk(tree) if place == _place(node))
        return next((_Failed(node, step.tb_frame) for node in found), None)
    return None


def _source(filename: str) -> str:
    """The lines of a cell as they were compiled, blank ones in place of the magics at its top."""
    lines = linecache.getlines(filename)
    above = len(list(takewhile(lambda line: line.startswith(("%", "\n")), lines)))
    return "\n" * above + "".join(lines[above:])


def _place(node: ast.AST) -> tuple[int | None, ...] | None:
    """As `co_positions` has it; a statement that is an expression stands for nothing."""
    if not isinstance(node, ast.expr | ast.stmt) or isinstance(node, ast.Expr):
        return None
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


def _hidden(failed: _Failed) -> str:
    """What to say if a name of the cells' own was used as what every cell is given under that name."""
    from disco_magic.functions.context import BEHIND, VERBS  # brings NumPy

    node, frame = failed
    used = node.func if isinstance(node, ast.Call) else getattr(node, "value", None)
    if not isinstance(used, ast.Name) or used.id not in (*BEHIND, *VERBS):
        return ""
    name, own = used.id, frame.f_globals
    if name in _own_names(frame) or name not in own or _serves_as(own[name], frame.f_builtins.get(name)):
        return ""
    kind = class_name(own[name])
    return f"{name} is a register, {kind}, which hides what cells are given; %disco rm {name} gives that back"


def _serves_as(own: object, given: object) -> bool:
    """Whether it is of the same kind, as another module of arrays or another function is."""
    return type(own) is type(given) or (callable(own) and callable(given))


def _of_root(failed: _Failed) -> str:
    """What to say if something was None that the root of a collective, or another worker, has."""
    parts = list(ast.iter_child_nodes(failed.node))
    if not isinstance(failed.node, ast.BinOp | ast.Compare):  # of these either side may be None
        for verb in (_verb(part.func, failed.frame) for part in parts if isinstance(part, ast.Call)):
            if verb in _OF_ROOT:
                root = "its root, worker 0 by default"
                return f"what {verb} returns is None but for {root}; {_OF_ROOT[verb]} gives it to all"
    # From 3.13 on what cannot be iterated over stands for itself.
    names = [part.id for part in [failed.node, *parts] if isinstance(part, ast.Name)]
    return next(filter(None, (_of_others(failed.frame, name) for name in names)), "")


def _verb(called: ast.expr, frame: types.FrameType) -> str:
    """The name of the collective that an expression calls, a worker's own; "" if it calls anything else."""
    named = called.value if isinstance(called, ast.Attribute) else called
    if not isinstance(named, ast.Name) or named.id in _own_names(frame) or named.id in frame.f_globals:
        return ""
    if isinstance(called, ast.Attribute):
        return called.attr if named.id == "worker" else ""
    return named.id


def _own_names(frame: types.FrameType) -> tuple[str, ...]:
    """Variables of the function that is executed, and of those around it."""
    code = frame.f_code
    return (*code.co_varnames, *code.co_freevars, *code.co_cellvars)


def _of_others(frame: types.FrameType, name: str) -> str:
    """What to say if a register is None here, and has a value elsewhere."""
    if name in _own_names(frame) or frame.f_globals.get(name, 0) is not None:
        return ""
    workers = beside(frame.f_globals)
    have = [worker for worker, names in workers.items() if names.get(name) is not None]
    lack = [worker for worker, names in workers.items() if name in names and names[name] is None]
    if not have:
        return ""
    kind = class_name(workers[have[0]][name])
    return f"{name} is None on {people(lack)}, and {kind} on {people(have)}"
