"""Shows errors of this package in plain cells with the user's frames only.

``session.load_safetensors(...)`` in a plain cell raises through five functions of ours, which do not help the
user: the line of the call and the message do. Ctrl-C in a waiting call is shown in the same way, and so is
``session["x"] + 1``, which raises a TypeError. Below a NameError, a line says where the name is if it is a
register.
"""

from __future__ import annotations

import ast
import linecache
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakMethod, ref

from disco_magic.callers.sites import runtime_file
from disco_magic.callers.tracebacks import steps_of, with_lines
from disco_magic.errors import DiscoError
from disco_magic.notebook.strays import advice_in_notebook
from disco_magic.notebook.tracebacks import as_ipython_shows, ended, user_frames

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from disco_magic.notebook.shell import Shell

# IPython asks the class, so the last shell shows the errors of all. Weak: a shell holds the extension.
_shells: Final[list[ref[Any]]] = []
_EXPLAINED: Final = (KeyboardInterrupt, NameError, TypeError, AttributeError)


def _lines(error: DiscoError) -> list[str]:
    """`error` in IPython's format with the user's frames only; with all frames in ``%xmode Verbose``.

    If this raises, IPython shows the error in its usual way.
    """
    shell = next(found for each in reversed(_shells) if (found := each()) is not None)
    return ended(shell, as_ipython_shows(shell, error, _own_frames(shell, error)))


def _own_frames(shell: Shell, error: BaseException) -> TracebackType | None:
    trace = None if shell.InteractiveTB.mode == "Verbose" else user_frames(shell, error)
    return trace or with_lines(error.__traceback__)


class _Others:
    """Replaces ``InteractiveTB.structured_traceback``, for errors that are not of our classes.

    The shell refers to this, and this refers to the shell weakly, so that it does not keep the shell alive.
    """

    def __init__(self, shell: Shell, holders: Callable[[str], Sequence[int]]) -> None:
        self._shell = ref(shell)
        self._holders = WeakMethod(holders)

    def __call__(self, *shown: Any, **options: Any) -> Any:
        """IPython's signature: class, exception, traceback, number of frames to skip."""
        shell = self._shell()
        if shell is None:
            return []
        error = next((each for each in shown if isinstance(each, _EXPLAINED)), None)
        ours = error if error is not None and _is_about_ours(error) else None
        if ours is not None:
            # Skip 0 frames: IPython's own are not among them any more.
            shown = (type(ours), ours, _own_frames(shell, ours), 0, *shown[4:])
            options.pop("tb_offset", None)
        shown = tuple(with_lines(each) if isinstance(each, TracebackType) else each for each in shown)
        told = shell.InteractiveTB
        lines = type(told).structured_traceback(told, *shown, **options)
        holders, advice = self._holders(), ""
        if isinstance(error, NameError) and holders is not None:
            advice = advice_in_notebook(shell, error, holders)
        if isinstance(lines, list) and (ours is not None or advice):  # else they are IPython's own
            return ended(shell, [*lines, *filter(None, [advice])])
        return lines


def _is_about_ours(error: BaseException) -> bool:
    """Whether the innermost frame is one of this package, which was interrupted or refuses what is asked.

    Python wants a TypeError or an AttributeError where an object has no such operation or attribute. If such
    an error just happens in our code, it is a bug of ours, and all lines are shown.
    """
    *_, step = [None, *steps_of(error.__traceback__)]
    if step is None or not runtime_file(step.tb_frame.f_code.co_filename):
        return False
    line = linecache.getline(step.tb_frame.f_code.co_filename, step.tb_lineno)
    return isinstance(error, KeyboardInterrupt) or line.lstrip().startswith("raise ")


def _of_syntax(told: Any, kind: Any, error: Any, steps: Any = None, *more: Any, **options: Any) -> Any:
    """Replaces ``SyntaxTB.structured_traceback``: where we compile a text, neither our calls nor `ast`'s.

    IPython shows a SyntaxError of running code in this way, whatever the error says itself.
    """
    if isinstance(steps, list) and any(runtime_file(each.filename) for each in steps):
        steps = [each for each in steps if each.filename != ast.__file__ and not runtime_file(each.filename)]
    return type(told).structured_traceback(told, kind, error, steps, *more, **options)


def show_own_lines(shell: Shell, holders: Callable[[str], Sequence[int]]) -> Callable[[], None]:
    """Let IPython show errors of this package in this way; return what undoes it.

    Args:
        shell: the shell of the cells.
        holders: a bound method that returns the workers with a register of a name; kept weakly.
    """
    _shells.append(ref(shell))
    DiscoError._render_traceback_ = _lines  # type: ignore[attr-defined]
    if hasattr(shell, "InteractiveTB"):
        shell.InteractiveTB.structured_traceback = _Others(shell, holders)
        shell.SyntaxTB.structured_traceback = partial(_of_syntax, shell.SyntaxTB)
    return partial(_show_all_lines, shell)


def _show_all_lines(shell: Shell) -> None:
    _shells[:] = [each for each in _shells if each() not in (None, shell)]
    if not _shells:
        with suppress(AttributeError):
            del DiscoError._render_traceback_  # type: ignore[attr-defined]
    own = vars(getattr(shell, "InteractiveTB", None) or shell)
    if isinstance(own.get("structured_traceback"), _Others):
        del shell.InteractiveTB.structured_traceback
    own = vars(getattr(shell, "SyntaxTB", None) or shell)
    if getattr(own.get("structured_traceback"), "func", None) is _of_syntax:
        del shell.SyntaxTB.structured_traceback
