"""rich on workers: each has a console of its own, which writes lines.

rich has one console for a process, and in a notebook shows each `print` as a display and a progress bar as an
output widget. Four workers would draw their bars into one widget, which takes in the rest of the cell's
output. A worker's console writes coloured lines to `sys.stdout` instead, under the worker's label; of a
progress bar, or of anything else that is live, its last state.
"""

from __future__ import annotations

from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any

from disco_magic.notebook.libraries.homes import OfWorkers

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


def fit_console(module: ModuleType) -> Callable[[], None] | None:
    """Give every worker a console of its own; `module` is ``rich``.

    The function that everybody asks for the console is known by its own name in many modules of rich, so it
    is changed and not replaced.
    """
    ask = module.get_console
    if type(ask) is not FunctionType or ask.__closure__:
        return None  # somebody has wrapped it: code cannot be put into that
    before = ask.__code__
    ask_elsewhere = FunctionType(before, ask.__globals__, ask.__name__)
    consoles = OfWorkers(_console)

    def answer() -> Any:
        console = consoles.mine()
        return ask_elsewhere() if console is None else console

    # Code without variables of its own around it, as that which it takes the place of.
    def get_console() -> Any:
        return _disco_console()  # type: ignore[name-defined]  # noqa: F821 - runs in rich

    vars(module)["_disco_console"] = answer
    ask.__code__ = get_console.__code__

    def undo() -> None:
        ask.__code__ = before
        del vars(module)["_disco_console"]
        consoles.forget()

    return undo


def _console() -> Any:
    console = import_module("rich.console").Console
    return console(force_jupyter=False, force_terminal=False, color_system="standard")
