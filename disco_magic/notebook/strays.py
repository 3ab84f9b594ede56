"""Names looked for on the wrong side: a notebook variable on the workers, a register in the notebook.

The notebook and every worker have namespaces of their own. Who forgets that sees a NameError for a name that
he has just bound; it is told where the name is, and how its value comes to the other side.
"""

from __future__ import annotations

import re
import sys
import types
from itertools import count
from typing import TYPE_CHECKING, Final

from disco_magic.errors import near_misses, people

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from disco_magic.notebook.shell import Shell

_HISTORY: Final = ("In", "Out", "_ih", "_oh", "_i", "_ii", "_iii", "__", "___")
_OF_IPYTHON: Final = {
    **dict.fromkeys(_HISTORY, "on the workers _ is the value that the cell before left there"),
    **dict.fromkeys(("exit", "quit"), "%disco stop ends the workers"),
}
_NAMESPACE: Final = re.compile(r"(__disco_s\d+_w)\d+__")


def advice_on_workers(shell: Shell, error: BaseException) -> list[str]:
    """Where the name is that a worker's cell did not find: a line, or none if there is nothing to say."""
    frame = _frame_of_cell(shell, error)
    if frame is None:
        return []
    name = str(error.name)  # type: ignore[attr-defined]  # a NameError: see `_frame_of_cell`
    said = _there(shell, frame, name) or near_misses(name, _known(frame))
    return [said] if said else []


def _there(shell: Shell, frame: types.FrameType, name: str) -> str:
    """Where a name is that code of a worker's did not find."""
    if frame.f_globals is shell.user_ns:
        code = frame.f_code.co_name
        called = code if code.isidentifier() else "this function"
        return f"{called} was defined in the notebook, where it looks names up; define it in a %%disco cell"
    if name in _OF_IPYTHON:
        return f"{name} is the notebook's; {_OF_IPYTHON[name]}"
    holders = _holders(frame, name)
    if holders:
        return f"only {people(holders)} {'has' if len(holders) == 1 else 'have'} {name}"
    if name not in shell.user_ns or name in shell.user_ns_hidden:
        return ""
    if issubclass(type(shell.user_ns[name]), types.ModuleType):
        return f"{name} is imported in the notebook; import it in a %%disco cell, too"
    ways = f"%disco broadcast {name} or %%disco --push {name}"
    return f"{name} is a variable of the notebook; {ways} hands it to every worker"


def advice_in_notebook(
    shell: Shell, error: BaseException, registers: Callable[[], Mapping[str, Sequence[int]]]
) -> list[str]:
    """Where the name is that a plain cell did not find: a line if it is on workers.

    Args:
        shell: whose cell.
        error: what it ended with.
        registers: tells name -> the workers that have it.
    """
    if _frame_of_cell(shell, error) is None:
        return []
    name = str(error.name)  # type: ignore[attr-defined]  # a NameError: see `_frame_of_cell`
    holders = registers().get(name, ())
    if 0 in holders:
        return [f"{name} is a register of the workers; %disco get {name} copies worker 0's into the notebook"]
    if holders:
        way = f"%%disco -w {holders[0]} --pull {name}"
        return [f"{name} is a register of {people(holders)}; {way} copies it into the notebook"]
    from disco_magic.functions.context import BEHIND, VERBS  # brings NumPy

    if name in VERBS or (name in BEHIND and name != "np"):  # that is forgotten in plain cells, too
        return [f"{name} is there on the workers; begin the cell with %%disco"]
    return []


def _frame_of_cell(shell: Shell, error: BaseException) -> types.FrameType | None:
    """The code of a cell that did not find a name; libraries' own mistakes are not for us to explain."""
    if type(error) is not NameError or not error.name:
        return None
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    if step is None or shell.compile.format_code_name(step.tb_frame.f_code.co_filename) is None:
        return None
    code = step.tb_frame.f_code
    local = error.name in code.co_freevars or error.name in code.co_cellvars  # it is there, and has no value
    return None if local else step.tb_frame


def _holders(frame: types.FrameType, name: str) -> list[int]:
    """The workers of the same session that have a register of this name now."""
    found = _NAMESPACE.fullmatch(str(frame.f_globals.get("__name__")))
    holders: list[int] = []
    for worker in count() if found is not None else ():
        module = sys.modules.get(f"{found[1]}{worker}__")  # type: ignore[index]  # mypy does not see the line above
        if module is None:
            break
        if name in vars(module):
            holders.append(worker)
    return holders


def _known(frame: types.FrameType) -> list[str]:
    """What code could have meant: its variables, and what is there without import."""
    # Whoever writes to globals() may have put in any keys.
    names = {**frame.f_builtins, **frame.f_globals, **frame.f_locals}
    return [name for name in names if isinstance(name, str) and not name.startswith("_")]
