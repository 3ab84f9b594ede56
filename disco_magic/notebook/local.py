"""Runs a workers' cell in the notebook as well: ``%%disco --local``."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, NoReturn

from IPython.display import display

from disco_magic.errors import UsageMistake
from disco_magic.notebook.tracebacks import as_ipython_shows, user_frames

if TYPE_CHECKING:
    from disco_magic.functions.execution.cells import Cell
    from disco_magic.notebook.shell import Shell


def run_locally(shell: Shell, cell: Cell) -> None:
    """Execute a cell in the notebook's namespace and show the value of its last expression."""
    if any(code.co_flags & inspect.CO_COROUTINE for code in cell.codes):
        raise UsageMistake(
            f"{cell.label} awaits, which --local cannot do in the notebook; leave --local out, and run what "
            "the notebook needs in a cell of its own"
        )
    try:
        value = None
        if cell.body is not None:
            exec(cell.body, shell.user_global_ns, shell.user_ns)  # noqa: S102 - the user's own cell
        if cell.last is not None:
            value = eval(cell.last, shell.user_global_ns, shell.user_ns)  # noqa: S307 - as above
    except BaseException as error:  # noqa: BLE001 - raised again
        _raise_as_own(shell, error)
    if value is not None:
        display(value)  # type: ignore[no-untyped-call]  # IPython's


def _raise_as_own(shell: Shell, error: BaseException) -> NoReturn:
    """Raise `error` so that IPython shows it like a plain cell's, without our frames."""
    if not hasattr(error, "_render_traceback_") and not isinstance(error, BaseExceptionGroup):
        lines = as_ipython_shows(shell, error, user_frames(shell, error))
        error._render_traceback_ = lines.copy  # type: ignore[attr-defined]  # IPython's protocol; see `dress`
    raise error
