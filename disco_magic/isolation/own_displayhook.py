"""``sys.displayhook``, which shows the value of an interactive statement: each worker's own.

Python, for instance in `doctest` and in a debugger, calls the hook in the dictionary of `sys`; a notebook
puts its own there while it executes a cell. So while sessions run, the dictionary has a proxy that calls the
caller's hook. A worker's hook writes the value to ``sys.stdout``, until the worker assigns another one; one
that a program assigns ends with the program.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.current import calling_worker
from disco_magic.callers.module_classes import SYS
from disco_magic.callers.per_worker import PerProgram
from disco_magic.isolation.own_builtins import behind_of

if TYPE_CHECKING:
    from collections.abc import Callable

_NAME: Final = "displayhook"
_OWN: Final = PerProgram()


class _Asking:
    """Proxy that calls the caller's hook; `process` is the process's."""

    def __init__(self) -> None:
        self.process: Callable[[Any], object] = sys.__displayhook__

    def __call__(self, value: Any, /) -> None:
        hook, me = read(), calling_worker()
        hook(value)
        if hook is not _show or value is None or me is None:
            return
        scope = sys._getframe(1).f_globals  # noqa: SLF001 - of the statement
        if scope is not me.namespace:
            # As in doctest: it is a copy of a cell's, with the last cell's `_`, or of a shared module's.
            scope["_"] = value


_asking: Final = _Asking()


def _show(value: Any) -> None:
    """As ``sys.__displayhook__``, with the worker's ``_``: IPython sets none if `builtins` has one."""
    if value is None:
        return
    me = calling_worker()
    behind = {} if me is None else behind_of(me)
    behind["_"] = None
    sys.stdout.write(f"{value!r}\n")
    behind["_"] = value


def read(_: object = None) -> Callable[[Any], object]:
    """Return the caller's hook."""
    mine = _OWN.mine()
    if mine is not None:
        return mine.get(_NAME, _show)  # type: ignore[no-any-return]
    try:
        present = SYS[_NAME]
    except KeyError:
        raise AttributeError(f"module 'sys' has no attribute {_NAME!r}", name=_NAME, obj=sys) from None
    return _asking.process if present is _asking else present  # type: ignore[no-any-return]


def assign(hook: Callable[[Any], object]) -> None:
    """Set the caller's hook; the proxy, which may have been read in the dictionary of `sys`, means none."""
    mine = _OWN.mine()
    if mine is not None:
        if hook is _asking:
            mine.pop(_NAME, None)
        else:
            mine[_NAME] = _show if hook is sys.__displayhook__ else hook
    elif SYS.get(_NAME) is not _asking:
        SYS[_NAME] = _asking.process if hook is _asking else hook
    elif hook is not _asking:
        _asking.process = hook


def delete() -> None:
    """Delete the caller's hook: a worker again has what it had at first."""
    mine = _OWN.mine()
    if mine is not None:
        mine.pop(_NAME, None)
    elif SYS.pop(_NAME, None) is None:
        raise AttributeError(_NAME, name=_NAME, obj=sys)


def begin() -> None:
    """Install the proxy. Idempotent."""
    present = SYS.get(_NAME)
    if present is not None and present is not _asking:
        _asking.process, SYS[_NAME] = present, _asking


def end() -> None:
    """Remove it again. Idempotent."""
    if SYS.get(_NAME) is _asking:
        SYS[_NAME] = _asking.process
