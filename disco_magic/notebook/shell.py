"""The type under which this package handles IPython's shell."""

from __future__ import annotations

from typing import Any

Shell = Any
"""An `IPython.core.interactiveshell.InteractiveShell`.

Any for the type checker: which of its attributes are annotated, and as what, changes with every IPython
release; the tests run against a real shell and a real kernel instead.
"""


def request_of(shell: Shell) -> dict[str, Any]:
    """The front end's request that outputs belong to; empty in a terminal, and before the first one.

    That is the cell's, also while a question is answered beside it.
    """
    return shell.get_parent() if hasattr(shell, "get_parent") else {}
