"""Explains mistakes that Python's messages do not: names that hide what cells are given, results of the root.

``reduce = []`` in a cell hides the collective from all later cells, and ``sum = 0`` Python's function: they
fail with "'list' object is not callable". ``gather(x).shape`` fails on all workers but the root, because it
returns None there. Both are recognised by the expression that failed. A cell that binds ``worker_id`` fails
nowhere, and is told before.
What workers share and cannot all do is recognised by the message.
"""

from __future__ import annotations

import ast
import dis
import re
from typing import TYPE_CHECKING, Final

from disco_magic.callers.failed_expression import failed_at
from disco_magic.callers.namespaces import beside
from disco_magic.callers.tracebacks import steps_of, traceback_of
from disco_magic.notebook.shell import is_of_cell
from disco_magic.phrases import class_name, people

if TYPE_CHECKING:
    import types
    from collections.abc import Iterable

    from disco_magic.callers.failed_expression import FailedExpression
    from disco_magic.notebook.shell import Shell

_NOTHING: Final = "NoneType"
_NUMBERS: Final = ("worker_id", "num_workers")
_NUMBERED: Final = frozenset(_NUMBERS)
_STORE_NAME: Final = dis.opmap["STORE_NAME"]
# Collectives that return a result on the root only -> the one that returns it on all members.
_OF_ROOT: Final = {"gather": "allgather", "reduce": "allreduce"}
# How Python names the types of two operands: ``unsupported operand type(s) for +: 'NoneType' and 'int'``.
_OPERANDS: Final = re.compile(r"'(\w+)' and '(\w+)'$")
# A message of what is done to the process, which workers share -> what they can do.
_OF_PROCESS: Final = {
    re.compile(r"A colormap named .* is already registered"): (
        "matplotlib's colormaps are shared by all workers: register one with force=True, or on one worker "
        "(if worker_id == 0:)"
    ),
    re.compile(r"no running event loop|There is no current event loop"): (
        "a worker has an event loop while it runs a cell with `await` in it: await in the cell what it starts"
    ),
    re.compile(r"set_wakeup_fd only works in main thread"): (
        "signals come to the process in which all workers are, where a worker's event loop cannot take them: "
        "leave add_signal_handler out in cells; Ctrl-C or the stop button cancels what they await"
    ),
}


def advice_on_pitfalls(shell: Shell, error: BaseException) -> str:
    """A hint if a worker's `error` is caused by one of these mistakes; else ""."""
    if type(error) in (ValueError, RuntimeError):
        said = str(error)
        return next((advice for text, advice in _OF_PROCESS.items() if text.match(said)), "")
    if type(error) not in (TypeError, AttributeError):
        return ""
    failed = failed_expression(shell, error)
    if failed is None:
        return ""
    return _hidden(failed) or (_of_root(failed, str(error)) if _NOTHING in str(error) else "")


def told_of_numbers(codes: Iterable[types.CodeType]) -> str:
    """What a cell makes of names that have a number on each worker, in a sentence; "" if it binds none.

    No error follows: in ``for worker_id in range(2)`` all workers get the same one, for good.
    """
    about = [code for code in codes if not _NUMBERED.isdisjoint(code.co_names) and _may_bind(code)]
    if not about:
        return ""
    steps = (step for code in about for step in dis.get_instructions(code))
    bound = {step.argval for step in steps if step.opname == "STORE_NAME"}
    names = [name for name in _NUMBERS if name in bound]
    if not names:
        return ""
    them = " and ".join(names)
    back = "gives it back" if len(names) == 1 else "gives them back"
    return (
        f"{them} in this cell is a register like any other, not what the worker is given; "
        f"%disco rm {' '.join(names)} {back}"
    )


def _may_bind(code: types.CodeType) -> bool:
    """Whether code seems to bind such a name: most only read them, and to disassemble takes up to 10 ms."""
    # With more than 256 names, the lowest byte of the number of one follows the instruction.
    numbers = (number for number, name in enumerate(code.co_names) if name in _NUMBERS)
    return any(bytes((_STORE_NAME, number & 0xFF)) in code.co_code for number in numbers)


def _hidden(failed: FailedExpression) -> str:
    """The hint if the cells have rebound a name of ours or of Python, and it was used as if they had not."""
    from disco_magic.functions.context import BEHIND, VERBS  # brings NumPy

    node, frame = failed.node, failed.frame
    used = node.func if isinstance(node, ast.Call) else getattr(node, "value", None)
    # `input` and `range` are good names for arrays: that `input.shap` fails is no mistake about the built-in.
    given = frame.f_builtins if isinstance(node, ast.Call) else (*BEHIND, *VERBS)
    if not isinstance(used, ast.Name) or used.id not in given:
        return ""
    name, own = used.id, frame.f_globals
    if name in own_names(frame) or name not in own:
        return ""
    theirs, behind = own[name], frame.f_builtins.get(name)
    if type(theirs) is type(behind) or (callable(theirs) and callable(behind)):
        return ""  # of the same kind: another array module, or another function
    kind = class_name(theirs)
    way = f"%disco rm {name} brings that back"
    return f"{name} is a register ({kind}), which hides what cells have under that name; {way}"


def _of_root(failed: FailedExpression, message: str) -> str:
    """The hint if a value was None here which the root of a collective, or another worker, has."""
    parts = _maybe_none(failed.node, message)
    for verb in (name_of_called(part.func, failed.frame) for part in parts if isinstance(part, ast.Call)):
        if verb in _OF_ROOT:
            root = "its root, worker 0 by default"
            return f"what {verb} returns is None but for {root}; {_OF_ROOT[verb]} gives it to all"
    # From 3.13 on, the failed node of an iteration is the iterated expression itself.
    names = [part.id for part in [failed.node, *parts] if isinstance(part, ast.Name)]
    return next(filter(None, (_of_others(failed.frame, name) for name in names)), "")


def _maybe_none(node: ast.AST, message: str) -> list[ast.AST]:
    """The parts of the failed expression that may have been the None of the message."""
    if isinstance(node, ast.JoinedStr):
        return [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
    if isinstance(node, ast.BinOp):
        sides: list[ast.AST] = [node.left, node.right]
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        sides = [node.left, *node.comparators]
    else:
        return list(ast.iter_child_nodes(node))
    named = _OPERANDS.search(message)
    if named is None:
        return sides
    return [side for side, kind in zip(sides, named.groups(), strict=True) if kind == _NOTHING]


def _of_others(frame: types.FrameType, name: str) -> str:
    """The hint if a register is None here and has a value on other workers."""
    if name in own_names(frame) or frame.f_globals.get(name, 0) is not None:
        return ""
    workers = beside(frame.f_globals)
    have = [worker for worker, names in workers.items() if names.get(name) is not None]
    lack = [worker for worker, names in workers.items() if name in names and names[name] is None]
    if not have:
        return ""
    kind = class_name(workers[have[0]][name])
    return f"{name} is None on {people(lack)}, and {kind} on {people(have)}"


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
