"""Modules that replace themselves as they are imported, or fail, imported by several workers at once.

``transformers`` is one: its body puts another object into `sys.modules`. A thread that finds the first one
there, still being executed, waits until that is over, and then goes on with what it has found, an empty
shell: ``cannot import name 'GPT2Config'``. Python is so, and in a program that is one thread nobody sees it;
all workers begin with the same imports. So such a shell answers with what is in the module that took its
place. Where the import has failed, who has waited imports it again, and fails as well.

As all imports come by here, what is in their files is noted, see `sources`.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from disco_magic.callers.replaced import Replaced, replace_all
from disco_magic.isolation import sources
from disco_magic.libraries import is_of_library

if TYPE_CHECKING:
    import types
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec

_ASKED: Final = "__getattr__"  # by Python, for what is missing in a module


def fit_imports(module: types.ModuleType) -> Callable[[], None]:
    """Let workers import such modules; `module` is ``importlib._bootstrap``.

    What is changed there is not on the way when the body of a module is imported: frames of ours would be in
    every traceback of it.
    """
    begun: WeakValueDictionary[str, types.ModuleType] = WeakValueDictionary()

    def module_from_spec(spec: ModuleSpec) -> types.ModuleType:
        made: types.ModuleType = making.below(spec)
        with suppress(TypeError):  # what its loader makes need not be one, nor allow weak references
            begun[spec.name] = made
            sources.note(made, sources.read(spec))
        return made

    def execute(spec: ModuleSpec, reloaded: types.ModuleType) -> types.ModuleType:
        source = sources.read(spec)
        made: types.ModuleType = executing.below(spec, reloaded)
        sources.note(made, source)  # else it is what it was
        return made

    def wait(name: str) -> None:
        waiting.below(name)
        shell = begun.get(name)
        if shell is None:
            return
        present = sys.modules.get(name, shell)
        if name not in sys.modules:
            present = vars(module)["_gcd_import"](name)
        if present is not shell and present is not None:
            vars(shell).setdefault(_ASKED, _Answers(name))

    is_of_library("")  # asks `sysconfig`, which imports a module for that: not when `note` asks
    making = Replaced(module, "module_from_spec", module_from_spec)
    executing = Replaced(module, "_exec", execute)  # what reloads
    waiting = Replaced(module, "_lock_unlock_module", wait)
    return replace_all([making, executing, waiting])


class _Answers:
    """What a shell has for who asks it for an attribute that it has not."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, attribute: str) -> Any:
        return getattr(sys.modules[self._name], attribute)
