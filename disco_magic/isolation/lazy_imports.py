"""Python 3.15's ``lazy from sys import argv`` while any session runs: it imports what the worker has.

Python makes such an import at once if the module is there and has the name. But it takes the value from the
module's dictionary, whatever the module's class says (`module_classes`): a program would have the notebook's
arguments. Imported without ``lazy``, it asks the module. Python's own modules are there in any case, so that
nothing is imported earlier than it would be.

All other lazy imports need no help. A module of a worker's own is imported by the ``__import__`` of the
builtins of who imports it, on the thread that uses it first, and what stands for it in `sys.modules` has
nothing in its dictionary that could be taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from disco_magic.callers.module_classes import SYS, ModuleOfWorkers

if TYPE_CHECKING:
    from collections.abc import Callable


def fit_lazy_imports(module: Any) -> Callable[[], None] | None:
    """Have what depends on the worker imported without ``lazy``; `module` is `sys`."""
    if not hasattr(module, "set_lazy_imports_filter"):  # before 3.15
        return None
    before: Callable[[str, str, tuple[str, ...] | None], object] | None = module.get_lazy_imports_filter()

    def is_lazy(importing: str, imported: str, names: tuple[str, ...] | None) -> object:
        if names and issubclass(type(SYS["modules"].get(imported)), ModuleOfWorkers):
            return False
        return before is None or before(importing, imported, names)

    def undo() -> None:
        if module.get_lazy_imports_filter() is is_lazy:  # else a program has set its own since
            module.set_lazy_imports_filter(before)

    module.set_lazy_imports_filter(is_lazy)
    return undo
