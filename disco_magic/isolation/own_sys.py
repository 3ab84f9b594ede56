"""`sys` while any session runs: some attributes are each worker's own; for all others they are the process's.

C code that reads them gets the process's. Reading any other attribute takes 20 ns longer.

Python, for instance in `doctest` and in a debugger, calls the ``displayhook`` in the dictionary of `sys`, to
show the value of an interactive statement; a notebook puts its own there while it executes a cell. So while
sessions run, the dictionary has a proxy that calls the caller's hook. A worker's hook writes the value to
``sys.stdout``, until the worker assigns another one; one that a program assigns ends with the program.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.current import calling_worker
from disco_magic.callers.module_classes import SYS, ModuleOfWorkers, dictionary_of, exchange, is_tester
from disco_magic.callers.per_worker import PerProgram
from disco_magic.isolation import own_streams, programs
from disco_magic.isolation.own_builtins import behind_of

if TYPE_CHECKING:
    import types
    from collections.abc import Callable

_HOOK: Final = "displayhook"
_HOOKS: Final = PerProgram()


class _Asking:
    """Proxy that calls the caller's hook; `process` is the process's."""

    def __init__(self) -> None:
        self.process: Callable[[Any], object] = sys.__displayhook__

    def __call__(self, value: Any, /) -> None:
        hook, me = _hook(), calling_worker()
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


def _hook(_: object = None) -> Callable[[Any], object]:
    """Return the caller's hook."""
    me = calling_worker()
    if me is not None:
        return _HOOKS.of(me).get(_HOOK, _show)  # type: ignore[no-any-return]
    try:
        present = SYS[_HOOK]
    except KeyError:
        raise AttributeError(f"module 'sys' has no attribute {_HOOK!r}", name=_HOOK, obj=sys) from None
    return _asking.process if present is _asking else present  # type: ignore[no-any-return]


def _set_hook(_: object, hook: Callable[[Any], object]) -> None:
    """Set the caller's hook; the proxy, which may have been read in the dictionary of `sys`, means none."""
    me = calling_worker()
    if me is not None:
        mine = _HOOKS.of(me)
        if hook is _asking:
            mine.pop(_HOOK, None)
        else:
            mine[_HOOK] = _show if hook is sys.__displayhook__ else hook
    elif SYS.get(_HOOK) is not _asking:
        SYS[_HOOK] = _asking.process if hook is _asking else hook
    elif hook is not _asking:
        _asking.process = hook


def _delete_hook(_: object) -> None:
    """Delete the caller's hook: a worker again has what it had at first."""
    mine = _HOOKS.mine()
    if mine is not None:
        mine.pop(_HOOK, None)
    elif SYS.pop(_HOOK, None) is None:
        raise AttributeError(_HOOK, name=_HOOK, obj=sys)


def _own(home: Any, name: str) -> property:
    """Return the property for an attribute that one of our modules, `home`, reads and sets for the caller."""
    read = partial(home.read, name)  # C code: much of what writes to sys.stdout reads it each time

    def assign(_: object, value: Any) -> None:
        home.assign(name, value)

    def delete(_: object) -> None:
        home.delete(name)

    return property(read, assign, delete if hasattr(home, "delete") else None)


class SysOfWorkers(ModuleOfWorkers):
    """The class of `sys` while any session runs."""

    argv = _own(programs, "argv")
    path = _own(programs, "path")
    displayhook = property(_hook, _set_hook, _delete_hook)
    stdout = _own(own_streams, "stdout")
    stderr = _own(own_streams, "stderr")

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        """The usual one; for ``mock.patch``, which restores what it reads there, with the caller's own."""
        found = dictionary_of(self)
        if not is_tester(sys._getframe(1)):  # noqa: SLF001 - the caller
            return found
        return found | {name: getattr(self, name) for name in ("argv", "path", "displayhook")}


def fit_sys(module: types.ModuleType) -> Callable[[], None]:
    """Let workers have their own; `module` is `sys`."""
    put_back = exchange(module, SysOfWorkers)
    present = SYS.get(_HOOK)
    if present is not None and present is not _asking:
        _asking.process, SYS[_HOOK] = present, _asking

    def undo() -> None:
        if SYS.get(_HOOK) is _asking:
            SYS[_HOOK] = _asking.process
        put_back()

    return undo
