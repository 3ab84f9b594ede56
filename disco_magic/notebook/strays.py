"""Explains names that are on the other side: a notebook variable on the workers, or the reverse.

The notebook and every worker have separate namespaces. A user who forgets that sees a NameError for a name
that was just bound. A line below it says where the name is, and how its value gets to the other side.
"""

from __future__ import annotations

import linecache
import sys
import types
from typing import TYPE_CHECKING, Final

from IPython.utils.capture import CapturedIO

from disco_magic.callers.namespaces import beside
from disco_magic.callers.tracebacks import frames_of, traceback_of
from disco_magic.libraries import is_of_library
from disco_magic.notebook.elsewhere import ELSEWHERE
from disco_magic.notebook.plain import is_left_by_cell
from disco_magic.notebook.shell import is_of_cell
from disco_magic.phrases import lost_in_restart, near_misses, only, people

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from disco_magic.notebook.shell import Shell

_HISTORY: Final = ("In", "Out", "_ih", "_oh", "_i", "_ii", "_iii", "__", "___")
_OF_IPYTHON: Final = {
    **dict.fromkeys(_HISTORY, "on the workers _ is the value that the cell before left there"),
    **dict.fromkeys(("exit", "quit"), "%disco stop ends the workers"),
}

_SENT: Final = " sends it to every worker"
_IN_CELLS: Final = "worker, worker_id and the collectives: allreduce(x), barrier(), ..."


def advice_on_workers(shell: Shell, error: BaseException) -> str:
    """A line that says where a name is that a worker's cell did not find; "" if that is not known."""
    missing = _missing(shell, error)
    if missing is None:
        return _advice_for_modules(shell, error)
    name, frame = missing
    return _there(shell, frame, name) or _meant(name, frame)


def _there(shell: Shell, frame: types.FrameType, name: str) -> str:
    """Where a name is that a worker's code did not find, in words."""
    if frame.f_globals is shell.user_ns:
        code = frame.f_code.co_name
        called = code if code.isidentifier() else "this function"
        return f"{called} was defined in the notebook, where it looks names up; define it in a %%disco cell"
    if name in frame.f_builtins:  # it was found, so the error comes from `del name`
        return f"{name} is given to every cell, behind the cell's own names, and cannot be deleted"
    if name in _OF_IPYTHON:
        return f"{name} is the notebook's; {_OF_IPYTHON[name]}"
    holders = [worker for worker, names in beside(frame.f_globals).items() if name in names]
    if holders:
        return only(holders, name)
    if name not in shell.user_ns or name in shell.user_ns_hidden:
        return _lost(frame, name) or ELSEWHERE.get(name, "") or _of_worker(frame, name)
    said = _of_notebook(name, shell.user_ns[name])
    is_plain = not linecache.getline(frame.f_code.co_filename, 1).startswith("%%disco")
    return f"{said}; %%local runs a cell there" if is_plain and said.endswith(_SENT) else said


def _lost(frame: types.FrameType, name: str) -> str:
    """That the session whose cell this is had such a register before a restart."""
    from disco_magic.session.current import open_sessions  # there is one, so it is imported

    number = getattr(frame.f_builtins.get("worker"), "session_id", None)
    former = next((each.former_names for each in open_sessions() if each.id == number), ())
    return lost_in_restart(name) if name in former else ""


def _meant(name: str, frame: types.FrameType) -> str:
    """What the name may have been meant to be, as Python has it from 3.12 on; IPython does not show that."""
    near = near_misses(name, _known(frame))
    if name not in sys.stdlib_module_names:
        return near
    forgotten = f"did you forget to import {name!r}?"
    return f"{near} Or {forgotten}" if near else forgotten


def _of_worker(frame: types.FrameType, name: str) -> str:
    """That a method of `worker` is called through it."""
    method = getattr(type(frame.f_builtins.get("worker")), name, None)
    return f"it is worker.{name}(...) in cells" if callable(method) and not name.startswith("_") else ""


def _advice_for_modules(shell: Shell, error: BaseException) -> str:
    """How a user's module can import a name that cells have without import."""
    from disco_magic.functions.context import BEHIND, VERBS  # brings NumPy

    frames = frames_of(traceback_of(error))
    if type(error) is not NameError or not frames:
        return ""
    name, code = error.name, frames[-1].f_code
    if is_of_library(code.co_filename) or is_of_cell(shell, code):
        return ""
    if name in VERBS and name != "reduce":  # a missing `reduce` is more likely that of functools
        way = f"disco_magic.worker().{name}(...)"
    elif name in BEHIND and name != "np":
        way = "disco_magic.worker()" if name == "worker" else f"disco_magic.worker().{name}"
    else:
        return ""
    return f"{name} is there without import in cells alone; a module imports disco_magic and has {way}"


def _of_notebook(name: str, value: object) -> str:
    """How cells can get the value of a notebook variable."""
    # Imported here because they load NumPy, for which %load_ext should not wait.
    from disco_magic.notebook.handle import CellHandle
    from disco_magic.session.dref import DRef
    from disco_magic.session.pending import PendingCell
    from disco_magic.session.session import Session

    if issubclass(type(value), CellHandle | PendingCell):
        return f"{name} is the handle of a cell, and the notebook's; ask it there, under %%local if need be"
    if is_left_by_cell(value):
        what = "what %%capture has kept" if type(value) is CapturedIO else "the result of a cell"
        return f"{name} is {what}, and the notebook's; ask it there, under %%local if need be"
    if issubclass(type(value), Session):
        return f"{name} is a session, which the notebook has; a cell has {_IN_CELLS}"
    if issubclass(type(value), DRef):
        way = f'disco_magic.session()["{name}"] = {name}'
        return f"{name} is a reference of the notebook; {way} gives its register that name for cells"
    if issubclass(type(value), types.ModuleType):
        return f"{name} is imported in the notebook; import it in a %%disco cell, too"
    ways = f"%disco broadcast {name} or %%disco --push {name}"
    return f"{name} is a variable of the notebook; {ways}{_SENT}"


def way_here(name: str, holders: Sequence[int]) -> str:
    """How a register that these workers have gets into the notebook, in a sentence."""
    if 0 in holders:
        return f"{name} is a register of the workers; %disco get {name} copies worker 0's into the notebook"
    way = f"%disco get {name} -w {holders[0]}"
    return f"{name} is a register of {people(holders)}; {way} copies it into the notebook"


def advice_in_notebook(shell: Shell, error: BaseException, holders_of: Callable[[str], Sequence[int]]) -> str:
    """A line that says where a name is that a plain cell did not find, if workers have it; else ""."""
    missing = _missing(shell, error)
    if missing is None:
        return ""
    name, _ = missing
    holders = holders_of(name)
    if holders:
        return way_here(name, holders)
    from disco_magic.functions.context import BEHIND, VERBS  # brings NumPy

    if name == "np":
        return "np is there without import in cells on the workers only; here: import numpy as np"
    if name in VERBS or name in BEHIND:
        return f"{name} exists only on the workers; begin the cell with %%disco"
    if name == "session":
        return "the session of %disco start is disco_magic.session(): import disco_magic"
    return ""


def _missing(shell: Shell, error: BaseException) -> tuple[str, types.FrameType] | None:
    """The name that a cell's code did not find; None for errors raised in libraries."""
    frames = frames_of(traceback_of(error))
    if type(error) is not NameError or not error.name or not frames:
        return None
    code = frames[-1].f_code
    # A function's own variable exists, but has no value yet.
    if error.name in code.co_freevars or error.name in code.co_cellvars:
        return None
    return (error.name, frames[-1]) if is_of_cell(shell, code) else None


def _known(frame: types.FrameType) -> list[str]:
    """The names that the code could have meant: its variables, and the names that need no import."""
    # globals() may have any keys.
    names = {**frame.f_builtins, **frame.f_globals, **frame.f_locals}
    return [name for name in names if isinstance(name, str) and not name.startswith("_")]
