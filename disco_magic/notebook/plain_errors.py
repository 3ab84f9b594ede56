"""Errors of this package in plain cells: the lines of the user that led to them, and not this package's own.

``session.load_safetensors(...)`` in a plain cell raises through five functions of ours, which tell the user
nothing: where the call stands in the cell, and what the error says, does. Ctrl-C in a call that waits is
shown so, too. Below a NameError stands where the name is, if it is a register.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakMethod, ref

from disco_magic.callers.sites import runtime_file
from disco_magic.callers.tracebacks import frames_of
from disco_magic.errors import DiscoError
from disco_magic.notebook.strays import advice_in_notebook
from disco_magic.notebook.tracebacks import as_ipython_shows, ended, user_frames

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from disco_magic.notebook.shell import Shell

# IPython asks a class: of several shells the last one shows all. They hold the extension: none is held here.
_shells: Final[list[ref[Any]]] = []


def _lines(error: DiscoError) -> list[str]:
    """As IPython shows `error`, of the calls only the user's; all of them with ``%xmode Verbose``.

    It goes on as if there were no such method if this raises.
    """
    shell = next(found for each in reversed(_shells) if (found := each()) is not None)
    return as_ipython_shows(shell, error, _own_frames(shell, error))


def _own_frames(shell: Shell, error: BaseException) -> TracebackType | None:
    trace = None if shell.InteractiveTB.mode == "Verbose" else user_frames(shell, error)
    return trace or error.__traceback__


class _Others:
    """Stands for ``InteractiveTB.structured_traceback``: no class of ours is asked of other errors.

    The shell's own dictionary leads to this, and this to nothing of it, so that it is freed as without.
    """

    def __init__(self, shell: Shell, holders: Callable[[str], Sequence[int]]) -> None:
        self._shell = ref(shell)
        self._holders = WeakMethod(holders)

    def __call__(self, *shown: Any, **options: Any) -> Any:
        """See IPython: of a class, an exception, its traceback, how many frames to leave out."""
        shell = self._shell()
        if shell is None:
            return []
        error = next((each for each in shown if isinstance(each, (KeyboardInterrupt, NameError))), None)
        if isinstance(error, KeyboardInterrupt) and _struck_ours(error):
            # None is to be left out: IPython's own frames are gone, too.
            shown = (type(error), error, _own_frames(shell, error), 0, *shown[4:])
            options.pop("tb_offset", None)
        told = shell.InteractiveTB
        lines = type(told).structured_traceback(told, *shown, **options)
        holders = self._holders()
        if isinstance(error, NameError) and holders is not None and isinstance(lines, list):
            advice = advice_in_notebook(shell, error, holders)
            if advice:
                lines[-1:] = ended(shell, [*lines[-1:], *advice])
        return lines


def _struck_ours(error: KeyboardInterrupt) -> bool:
    """Whether the innermost line of it is one of this package."""
    frames = frames_of(error.__traceback__)
    return bool(frames) and runtime_file(frames[-1].f_code.co_filename)


def show_own_lines(shell: Shell, holders: Callable[[str], Sequence[int]]) -> None:
    """From now on IPython shows errors of this package so, in plain cells too.

    Args:
        shell: whose cells.
        holders: a method that tells who has a register of a name; its object is not kept alive.
    """
    _shells.append(ref(shell))
    DiscoError._render_traceback_ = _lines  # type: ignore[attr-defined]
    if hasattr(shell, "InteractiveTB"):
        shell.InteractiveTB.structured_traceback = _Others(shell, holders)


def show_all_lines(shell: Shell) -> None:
    """Take that back for `shell`."""
    _shells[:] = [each for each in _shells if each() not in (None, shell)]
    if not _shells:
        with suppress(AttributeError):
            del DiscoError._render_traceback_  # type: ignore[attr-defined]
    own = vars(getattr(shell, "InteractiveTB", None) or shell)
    if isinstance(own.get("structured_traceback"), _Others):
        del shell.InteractiveTB.structured_traceback
