"""``__main__`` as tests look into it, and who loads an object that a script has pickled.

``unittest.main()`` and ``doctest.testmod()`` test what ``__main__`` has. Beside a session that is the
notebook, or the program that began it, in which a worker's tests do not stand: they would say that all is
well. On a worker, they test what is in its namespace. Everybody else finds in ``__main__`` what the process
has, as before, and what only the worker has beside it: a class by whose name, ``__main__.Net``, a script has
pickled a model.
"""

from __future__ import annotations

import sys
import types
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final

from disco_magic.functions.module_classes import OfModules, exchange, put_back
from disco_magic.functions.namespaces import CELL_MODULE, of_caller
from disco_magic.functions.replaced import Replaced, replace_all

if TYPE_CHECKING:
    from collections.abc import Callable

_TESTERS: Final = "unittest"  # `mock` is part of it, and so are the modules' names `unittest.main`, ...
_NOTHING: Final = object()


class MainModule(types.ModuleType, metaclass=OfModules):
    """The class of ``__main__`` as long as any session runs."""

    def __getattribute__(self, name: str) -> Any:
        for namespace in _tested(sys._getframe(1)):  # noqa: SLF001 - who asks
            if name == "__dict__":  # dir() asks for it, too
                return namespace
            if name in namespace:
                return namespace[name]
        return super().__getattribute__(name)

    def __getattr__(self, name: str) -> Any:
        for namespace in of_caller():
            value = namespace.get(name, _NOTHING)
            if value is not _NOTHING:
                return value
        raise AttributeError(f"module '__main__' has no attribute {name!r}", name=name, obj=self)

    def __setattr__(self, name: str, value: Any) -> None:
        for namespace in _tested(sys._getframe(1)):  # noqa: SLF001
            namespace[name] = value
            return
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        for namespace in _tested(sys._getframe(1)):  # noqa: SLF001
            if name in namespace:
                del namespace[name]
                return
        super().__delattr__(name)


def _tested(frame: types.FrameType) -> list[dict[str, Any]]:
    """The namespace of the calling worker, if it is tests, in this frame, that want to know."""
    home = frame.f_globals.get("__name__")
    is_tester = type(home) is str and home.partition(".")[0] == _TESTERS
    return of_caller() if is_tester else []


def fit_main(module: types.ModuleType) -> Callable[[], None]:
    """Let tests of workers find their own; `module` is ``__main__``, left alone if of another class."""
    exchange(module, MainModule)
    return partial(put_back, module, MainModule)


def fit_doctest(module: types.ModuleType) -> Callable[[], None]:
    """Let a worker that names no module test its own functions; `module` is ``doctest``."""

    def testmod(m: Any = None, *args: Any, **options: Any) -> Any:
        if m is None and of_caller():
            m = sys.modules[CELL_MODULE]  # doctest looks for functions that come from this very module
        return tested.below(m, *args, **options)

    tested = Replaced(module, "testmod", wraps(vars(module)["testmod"])(testmod))
    return replace_all([tested])
