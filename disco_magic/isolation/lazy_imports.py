"""Python 3.15's lazy imports: what of this package, and what of a worker, must be imported at once.

``lazy from sys import argv`` is made at once anyway, because `sys` is there and has the name. But Python
takes the value from the module's dictionary, whatever the module's class says (`module_classes`): a program
would have the notebook's arguments. Imported without ``lazy``, it asks the module.

``python -X lazy_imports=all`` makes all imports lazy, also those of this package. Some of them are made for
what they register, and some would be made while the import system asks us: they would need themselves.

All other lazy imports need no help. A module of a worker's own is imported by the ``__import__`` of the
builtins of who imports it, on the thread that uses it first, and what stands for it in `sys.modules` has
nothing in its dictionary that could be taken.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.module_classes import SYS, ModuleOfWorkers

if TYPE_CHECKING:
    from collections.abc import Callable

    Filter = Callable[[str | None, str, tuple[str, ...] | None], object]

_OURS: Final = __name__.partition(".")[0]
_kept: Final[list[Filter]] = []


def import_ours_at_once() -> None:
    """Have this package's imports made where they are written, from now on."""
    if not _kept and hasattr(sys, "set_lazy_imports_filter"):  # since 3.15
        _kept.append(_replace_filter(sys, lambda importing, *_: str(importing).partition(".")[0] == _OURS)[0])


def fit_lazy_imports(module: Any) -> Callable[[], None] | None:
    """Have what depends on the worker imported without ``lazy``, in sessions; `module` is `sys`."""
    if not hasattr(module, "set_lazy_imports_filter"):
        return None
    ours, before = _replace_filter(module, _is_of_worker)

    def undo() -> None:
        if module.get_lazy_imports_filter() is ours:  # else a program has set its own since
            module.set_lazy_imports_filter(before)

    return undo


def _is_of_worker(_importing: str | None, imported: str, names: tuple[str, ...] | None) -> bool:
    # Only of modules that are there: none is imported earlier than it would be.
    return bool(names) and issubclass(type(SYS["modules"].get(imported)), ModuleOfWorkers)


def _replace_filter(module: Any, is_eager: Callable[..., bool]) -> tuple[Filter, Filter | None]:
    """Set a filter that asks the one before of what is not eager; return it, and the one before."""
    before: Filter | None = module.get_lazy_imports_filter()

    def is_lazy(importing: str | None, imported: str, names: tuple[str, ...] | None) -> object:
        if is_eager(importing, imported, names):
            return False
        return before is None or before(importing, imported, names)

    module.set_lazy_imports_filter(is_lazy)
    return is_lazy, before
