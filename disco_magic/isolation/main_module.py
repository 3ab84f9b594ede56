"""``__main__`` as tests look into it, and who loads an object that a script has pickled.

``unittest.main()`` and ``doctest.testmod()`` test what ``__main__`` has. Beside a session that is the
notebook, or the program that began it, in which a worker's tests do not stand: they would say that all is
well. On a worker, they test what is in its namespace. Everybody else finds in ``__main__`` what the process
has, as before, and what only the worker has beside it: a class by whose name, ``__main__.Net``, a script has
pickled a model.
"""

from __future__ import annotations

import linecache
import sys
import types
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.module_classes import ModuleOfWorkers, exchange, is_tester, put_back
from disco_magic.callers.namespaces import CELL_MODULE, of_caller
from disco_magic.callers.per_worker import PerWorker
from disco_magic.callers.replaced import Replaced, replace_all
from disco_magic.isolation import programs

if TYPE_CHECKING:
    from collections.abc import Callable

_NOTHING: Final = object()


class MainModule(ModuleOfWorkers):
    """The class of ``__main__`` as long as any session runs."""

    def __getattribute__(self, name: str) -> Any:
        for namespace in _tested(sys._getframe(1)):  # noqa: SLF001 - who asks
            if name == "__dict__":  # dir() asks for it, too
                return namespace
            if name in namespace:
                return namespace[name]
        return types.ModuleType.__getattribute__(self, name)

    def __getattr__(self, name: str) -> Any:
        # A program that has ended is no file of what the cells after it do: processes would execute it again.
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
    """The namespace of the calling worker, if it is tests, in this frame, that want to know."""
    return of_caller() if is_tester(frame) else []


def fit_main(module: types.ModuleType) -> Callable[[], None]:
    """Let tests of workers find their own; `module` is ``__main__``, left alone if of another class."""
    exchange(module, MainModule)
    return partial(put_back, module, MainModule)


class _Seen:
    """A module as another one sees it: what that puts there for a while, on a worker, nobody else finds.

    Args:
        module: which.
        **first: what a worker finds there at first, where that is not what the module has.
    """

    def __init__(self, module: types.ModuleType, **first: Any) -> None:
        vars(self).update(_module=module, _own=PerWorker(dict), _first=first)

    def own(self, name: str) -> Any:
        """What has been put there on the calling worker; None: nothing."""
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
    """Let a worker that names no module test its own functions, beside others; `module` is ``doctest``."""

    def testmod(m: Any = None, *args: Any, **options: Any) -> Any:
        if of_caller() and (m is None or m is sys.modules.get("__main__")):
            m = sys.modules[CELL_MODULE]  # doctest looks for functions that come from this very module
        return tested.below(m, *args, **options)

    tested = Replaced(module, "testmod", wraps(vars(module)["testmod"])(testmod))
    # What doctest's own calls below it; the module has what asks for that.
    lines, debugger = _Seen(linecache, getlines=linecache.getlines), _Seen(module.pdb)

    def getlines(filename: str, module_globals: Any = None) -> list[str]:
        """Sources of examples, too: tracebacks and `inspect` ask for them."""
        read = lines.own("getlines") or asked.below
        return read(filename, module_globals)  # type: ignore[no-any-return]

    asked = Replaced(linecache, "getlines", wraps(linecache.getlines)(getlines))
    seen = [Replaced(module, "linecache", lines), Replaced(module, "pdb", debugger)]
    return replace_all([tested, asked, *seen])
