"""The type by which this package refers to IPython's shell, and what it asks of one in many places."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

Shell = Any
"""An `IPython.core.interactiveshell.InteractiveShell`.

Any for the type checker, because the annotations of its attributes change with every IPython release. The
tests run against a real shell and a real kernel instead.
"""


def request_of(shell: Shell) -> dict[str, Any]:
    """The front end's request to which output belongs; empty in a terminal, and before the first one.

    It is the cell's request, even while a question is answered.
    """
    return shell.get_parent() if hasattr(shell, "get_parent") else {}


def is_watched(shell: Shell) -> bool:
    """Whether somebody may see the cell's output as it comes: not where a tool executes the notebook.

    nbclient, which nbconvert, papermill and ``jupyter execute`` use, says that nobody can be asked for input.
    JupyterLab and VS Code name the cell.
    """
    request = request_of(shell)
    can_be_asked = request.get("content", {}).get("allow_stdin", True)
    return bool(can_be_asked or request.get("metadata", {}).get("cellId"))


def stopped_by(shell: Shell) -> str:
    """What stops a cell there, in words: a terminal has no button."""
    return "the stop button" if hasattr(shell.display_pub, "set_parent") else "Ctrl-C"


def is_of_cell(shell: Shell, code: CodeType) -> bool:
    """Whether `code` is of a cell: IPython has a name for its file, such as ``Cell In[7]``."""
    return shell.compile.format_code_name(code.co_filename) is not None


def cell_namer(shell: Shell) -> Callable[[str], str | None]:
    """A function from the filename of a plain cell to ``Cell In[7]``; see `sites.add_labeller`."""
    held = weakref.ref(shell)  # labellers outlive the shell

    def name(filename: str) -> str | None:
        alive = held()
        told = alive.compile.format_code_name(filename) if alive is not None else None
        return " ".join(told) if told else None

    return name
