"""Python files and packages as modules: imported under private names, never under their own.

So a ``model.py`` is not what ``import model`` finds, and two of them do not collide.
"""

from __future__ import annotations

import hashlib
import importlib
import re
import sys
import types
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec
from typing import TYPE_CHECKING, Any, Final

from disco_magic.functions.modules import Module
from disco_magic.threads.locks import new_lock
from disco_magic.threads.loop_ends import covered

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class PythonModule(Module):
    """A Python file or package: its functions and classes, and whatever else in it can be called."""

    def __init__(self, path: Path, module: types.ModuleType) -> None:
        super().__init__(path)
        self.module = module

    def find(self, name: str, *, imports: bool = True) -> Callable[..., Any] | None:
        """The callable of that name, even a private one; without `imports` only if it is defined there."""
        value = getattr(self.module, name, None)
        return value if callable(value) and (imports or self._is_own(value)) else None

    def function_names(self) -> list[str]:
        """The names in ``__all__``, or public names of what is defined there; of callables only."""
        names = vars(self.module)
        public = names.get("__all__")
        if public is None:
            own = (name for name in names if isinstance(name, str) and not name.startswith("_"))
            public = [name for name in own if self._is_own(names[name])]
        return sorted(name for name in public if callable(names.get(name)))

    def lack(self, name: str) -> str:
        """See `Module.lack`; also says if the name is something that cannot be called."""
        value = getattr(self.module, name, None)
        if value is not None:
            return f"'{name}' in '{self.path}' is {type(value).__name__}, which cannot be called"
        return super().lack(name)

    def _is_own(self, value: object) -> bool:
        """Whether this module has made it, as far as the value says."""
        if not isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
            return True
        home = f"{value.__module__}."
        return home.startswith(f"{self.module.__name__}.")


# CPython's finder removes entries from a dictionary without a lock: if two threads do so at once, one gets a
# KeyError, even if they load different modules.
_invalidating: Final = new_lock()


def load(path: Path) -> PythonModule:
    """Import a file or package under a private name that depends on its path.

    The same path has the same name in every process, so that objects of its classes can be pickled. A package
    finds its neighbours by relative imports; a file does not find them at all.
    """
    file = path / "__init__.py" if path.is_dir() else path
    digest = hashlib.blake2b(str(path).encode(), digest_size=6).hexdigest()
    name = f"_disco_{digest}_{re.sub(r'[^0-9a-zA-Z_]', '_', path.stem)}"
    spec = ModuleSpec(name, SourceFileLoader(name, str(file)), origin=str(file))
    spec.has_location = True
    spec.submodule_search_locations = [str(path)] if path.is_dir() else None
    module = module_from_spec(spec)
    former = _forget(name)
    sys.modules[name] = module
    with _invalidating:
        importlib.invalidate_caches()
    try:
        # Executed here, not by the import system's own loader: that one distinguishes compiled files by whole
        # seconds, and its frames would stand above the user's in a traceback.
        code = covered(compile(file.read_bytes(), str(file), "exec", dont_inherit=True))
        exec(code, vars(module))  # noqa: S102 - its purpose
    except BaseException:
        _forget(name)
        sys.modules.update(former)
        raise
    return PythonModule(path, module)


def _forget(name: str) -> dict[str, types.ModuleType]:
    """Remove a module and those inside of it from ``sys.modules``, and return them."""
    inside = [key for key in list(sys.modules) if key == name or key.startswith(f"{name}.")]
    return {key: sys.modules.pop(key) for key in inside}
