"""rich on workers: each has its own console, which writes lines; their errors are shown as all others.

rich has one console per process. In a notebook it shows each `print` as a display and a progress bar as an
output widget. Four workers would draw their bars into one widget, which would also capture the rest of the
cell's output. A worker's console writes coloured lines with the worker's label to `sys.stdout` instead, and
only the last state of progress bars and other live displays.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any

from disco_magic.callers.current import calling_worker
from disco_magic.callers.replaced import replace_all, replacing
from disco_magic.notebook.libraries.homes import OfWorkers

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


def fit_console(module: ModuleType) -> Callable[[], None] | None:
    """Give every worker its own console; `module` is ``rich``.

    Many modules of rich have imported the function that returns the console by name, so its code is changed
    instead of replacing the function.
    """
    ask = module.get_console
    if type(ask) is not FunctionType or ask.__closure__:
        return None  # it has been wrapped: such a function cannot take the code
    before = ask.__code__
    ask_elsewhere = FunctionType(before, ask.__globals__, ask.__name__)
    consoles = OfWorkers(_console)

    def answer() -> Any:
        console = consoles.mine()
        return ask_elsewhere() if console is None else console

    # Without free variables, like the code that it replaces.
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


def fit_traceback(module: ModuleType) -> Callable[[], None]:
    """Let ``install()`` do nothing on workers; `module` is ``rich.traceback``.

    It would put rich in the place of the methods with which IPython shows errors of the notebook. Errors of
    workers do not come there.
    """

    @replacing(module, "install")
    def install(*args: Any, **options: Any) -> Any:
        return install.below(*args, **options) if calling_worker() is None else sys.excepthook

    return replace_all([install])
