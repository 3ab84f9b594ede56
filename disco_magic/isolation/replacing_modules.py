"""Modules that replace themselves while they are imported, or fail, imported by several workers at once.

``transformers`` is one: its body puts another object into `sys.modules`. A thread that finds the first object
there, still being executed, waits until that is over and then continues with what it has found, an empty
shell: ``cannot import name 'GPT2Config'``. Python works like that, and programs with one thread never see it;
but all workers begin with the same imports. So such a shell passes attribute lookups on to the module that
took its place. If the import has failed, a thread that has waited imports it again, and fails as well.

All imports pass through here, so the contents of their files are noted here, too; see `sources`.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from disco_magic.callers.replaced import replace_all, replacing
from disco_magic.isolation import sources
from disco_magic.libraries import read_import_path

if TYPE_CHECKING:
    import types
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec

_ASKED: Final = "__getattr__"  # called by Python for an attribute that a module lacks


def fit_imports(module: types.ModuleType) -> Callable[[], None]:
    """Let several workers import such modules; `module` is ``importlib._bootstrap``.

    The functions replaced there are not on the stack while the body of a module is imported: otherwise frames
    of ours would be in each of its tracebacks.
    """
    begun: WeakValueDictionary[str, types.ModuleType] = WeakValueDictionary()

    @replacing(module, "module_from_spec")
    def module_from_spec(spec: ModuleSpec) -> types.ModuleType:
        made: types.ModuleType = module_from_spec.below(spec)
        with suppress(TypeError):  # what its loader makes may be no module, or allow no weak references
            begun[spec.name] = made
            sources.note(made, sources.read(spec))
        return made

    @replacing(module, "_exec")
    def execute(spec: ModuleSpec, reloaded: types.ModuleType) -> types.ModuleType:
        source = sources.read(spec)
        made: types.ModuleType = execute.below(spec, reloaded)
        sources.note(made, source)  # only on success: otherwise it is what it was
        return made

    @replacing(module, "_lock_unlock_module")
    def wait(name: str) -> None:
        wait.below(name)
        shell = begun.get(name)
        if shell is None:
            return
        present = sys.modules.get(name, shell)
        if name not in sys.modules:
            present = vars(module)["_gcd_import"](name)
        if present is not shell and present is not None:
            vars(shell).setdefault(_ASKED, lambda attribute: getattr(sys.modules[name], attribute))

    read_import_path()  # imports a module, through `sysconfig`: that must not happen inside of `note`
    return replace_all([module_from_spec, execute, wait])
