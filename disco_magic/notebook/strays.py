"""Names looked for on the wrong side: a notebook variable on the workers, a register in the notebook.

The notebook and every worker have namespaces of their own. Who forgets that sees a NameError for a name that
he has just bound; it is told where the name is, and how its value comes to the other side.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, Final

from disco_magic.errors import near_misses

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from disco_magic.notebook.shell import Shell

_HISTORY: Final = {"In", "Out", "_ih", "_oh", "_i", "_ii", "_iii", "__", "___"}
_LEAVING: Final = {"exit", "quit"}


def advice_on_workers(shell: Shell, error: BaseException) -> list[str]:
    """Where the name is that a worker's cell did not find: a line, or none if there is nothing to say."""
    name = _missing(shell, error)
    if name is None:
        return []
    if name in _HISTORY:
        return [f"{name} is the notebook's; on the workers _ is the value that the cell before left there"]
    if name in _LEAVING:
        return [f"{name} is the notebook's; %disco stop ends the workers"]
    variables = shell.user_ns
    if name in variables and name not in shell.user_ns_hidden:
        value = variables[name]
        if isinstance(value, types.ModuleType):
            return [f"{name} is imported in the notebook; import it in a %%disco cell, too"]
        ways = f"%disco broadcast {name} or %%disco --push {name}"
        return [f"{name} is a variable of the notebook; {ways} hands it to every worker"]
    near = near_misses(name, _known(error))
    return [near] if near else []


def advice_in_notebook(
    shell: Shell, error: BaseException, registers: Callable[[], Container[str]]
) -> list[str]:
    """Where the name is that a plain cell did not find: a line if it is one of `registers`."""
    name = _missing(shell, error)
    if name is None or name not in registers():
        return []
    return [f"{name} is a register of the workers; %disco get {name} copies worker 0's into the notebook"]


def _missing(shell: Shell, error: BaseException) -> str | None:
    """The name that code of a cell did not find; libraries' own mistakes are not for us to explain."""
    if type(error) is not NameError or not error.name:
        return None
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    if step is None or shell.compile.format_code_name(step.tb_frame.f_code.co_filename) is None:
        return None
    return str(error.name)


def _known(error: BaseException) -> list[str]:
    """What the code that failed could have meant."""
    step: Any = error.__traceback__
    while step.tb_next is not None:
        step = step.tb_next
    frame = step.tb_frame
    names = {**frame.f_globals, **frame.f_locals}  # whoever writes to globals() may have put in any keys
    return [name for name in names if isinstance(name, str) and not name.startswith("_")]
