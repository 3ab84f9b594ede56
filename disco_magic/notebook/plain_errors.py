"""Errors of this package in plain cells: the lines of the user that led to them, and not this package's own.

``session.load_safetensors(...)`` in a plain cell raises through five functions of ours, which tell the user
nothing: where the call stands in the cell, and what the error says, does.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from disco_magic.errors import DiscoError
from disco_magic.notebook.tracebacks import as_ipython_shows, user_frames

if TYPE_CHECKING:
    from disco_magic.notebook.shell import Shell

# IPython asks a class: of several shells the last one shows all. They hold the extension: none is held here.
_shells: Final[list[ref[Any]]] = []


def _lines(error: DiscoError) -> list[str]:
    """As IPython shows `error`, of the calls only the user's; all of them with ``%xmode Verbose``.

    It goes on as if there were no such method if this raises.
    """
    shell = next(found for each in reversed(_shells) if (found := each()) is not None)
    trace = error.__traceback__
    if shell.InteractiveTB.mode != "Verbose":
        trace = user_frames(shell, error) or trace
    return as_ipython_shows(shell, error, trace)


def show_own_lines(shell: Shell) -> None:
    """From now on IPython shows errors of this package so, in plain cells too."""
    _shells.append(ref(shell))
    DiscoError._render_traceback_ = _lines  # type: ignore[attr-defined]


def show_all_lines(shell: Shell) -> None:
    """Take that back for `shell`."""
    _shells[:] = [each for each in _shells if each() not in (None, shell)]
    if not _shells:
        with suppress(AttributeError):
            del DiscoError._render_traceback_  # type: ignore[attr-defined]
