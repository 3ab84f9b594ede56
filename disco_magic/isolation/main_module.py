"""``__main__`` on a worker, for test runners and for code that loads what a script has pickled.

``unittest.main()`` and ``doctest.testmod()`` test what is in ``__main__``. In a process with a session that
is the notebook, or the program that began the session, which does not contain a worker's tests: they would
report success. On a worker, they test what is in its namespace, and profilers run statements there. For all
code of a program, ``__main__`` is the program. Other code of workers finds in ``__main__`` what the process
has, as before, and additionally what only the worker has: for example ``__main__.Net``, the name of a
class with which a script has pickled a model.
"""

from __future__ import annotations

import linecache
import sys
import types
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.current import calling_worker
from disco_magic.callers.module_classes import ModuleOfWorkers, exchange, is_tester
from disco_magic.callers.namespaces import CELL_MODULE, of_caller
from disco_magic.callers.per_worker import PerWorker
from disco_magic.callers.replaced import Replaced, replace_all, replacing
from disco_magic.isolation import programs

if TYPE_CHECKING:
    from collections.abc import Callable

_NOTHING: Final = object()
# They execute a statement in ``__main__.__dict__``.
_TOOLS: Final = frozenset({"cProfile", "profile", "profiling.tracing", "trace", "bdb", "pdb"})


class MainModule(ModuleOfWorkers):
    """The class of ``__main__`` while any session runs."""

    def __getattribute__(self, name: str) -> Any:
        for namespace in _tested(sys._getframe(1)):  # noqa: SLF001 - the caller
            if name == "__dict__":  # `dir()` reads it, too
                return namespace
            if name in namespace:
                return namespace[name]
            if name == "__spec__":  # a script has none, and how the process was started says nothing of it
                return None
        return types.ModuleType.__getattribute__(self, name)

    def __getattr__(self, name: str) -> Any:
        # Once a program has ended, cells do not see its `__file__`: processes would execute it again.
        is_over = name.startswith("__") and not programs.is_executed()
        for namespace in [] if is_over else of_caller():
            value = namespace.get(name, _NOTHING)
            if value is not _NOTHING:
                return value
        raise AttributeError(f"module '__main__' has no attribute {name!r}", name=name, obj=self)

    def __setattr__(self, name: str, value: Any) -> None:
        for namespace in _tested(sys._getframe(1)):  # noqa: SLF001
            namespace[name] = value
            return
        types.ModuleType.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        for namespace in _tested(sys._getframe(1)):  # noqa: SLF001
            if name in namespace:
                del namespace[name]
                return
        types.ModuleType.__delattr__(self, name)


def _tested(frame: types.FrameType) -> list[dict[str, Any]]:
    """The calling worker's namespace, in a list, if the frame's code looks for what it runs; else []."""
    me = calling_worker()
    if me is None:
        return []
    home = frame.f_globals.get("__name__")
    looks = is_tester(frame) or (type(home) is str and home in _TOOLS) or programs.is_executed()
    return [me.namespace] if looks else []


def fit_main(module: types.ModuleType) -> Callable[[], None]:
    """Let test runners on workers find the worker's tests; `module` is ``__main__``, if of a usual class."""
    return exchange(module, MainModule)


class _Seen:
    """A module as another one sees it: what the latter assigns to it on a worker is visible there only.

    Args:
        module: the module.
        **first: initial values for workers, where those are not the module's.
    """

    def __init__(self, module: types.ModuleType, **first: Any) -> None:
        vars(self).update(_module=module, _own=PerWorker(dict), _first=first)

    def own(self, name: str) -> Any:
        """Return what has been assigned on the calling worker; None: nothing."""
        return (self._own.mine() or {}).get(name)

    def __getattr__(self, name: str) -> Any:
        mine = self._own.mine()
        for found in () if mine is None else (mine, self._first):
            if name in found:
                return found[name]
        return getattr(self._module, name)

    def __setattr__(self, name: str, value: Any) -> None:
        mine = self._own.mine()
        if mine is None:
            setattr(self._module, name, value)
        else:
            mine[name] = value


def fit_doctest(module: Any) -> Callable[[], None]:
    """Let workers test their own functions, several at a time; `module` is ``doctest``."""

    @replacing(module, "testmod")
    def testmod(m: Any = None, *args: Any, **options: Any) -> Any:
        if of_caller() and (m is None or m is sys.modules.get("__main__")):
            m = sys.modules[CELL_MODULE]  # doctest looks for functions that come from this very module
        return testmod.below(m, *args, **options)

    # doctest assigns a `getlines` that calls the one it found; `linecache` has a function that looks for it.
    lines, debugger = _Seen(linecache, getlines=linecache.getlines), _Seen(module.pdb)

    @replacing(linecache, "getlines")
    def getlines(filename: str, module_globals: Any = None) -> list[str]:
        """Return lines of examples, too: tracebacks and `inspect` ask for them."""
        read = lines.own("getlines") or getlines.below
        return read(filename, module_globals)  # type: ignore[no-any-return]

    seen = [Replaced(module, "linecache", lines), Replaced(module, "pdb", debugger)]
    return replace_all([testmod, getlines, *seen])
