"""Modules that each worker imports for itself, as processes do: their global variables are the worker's own.

A module is a process's, and so is what it keeps: a library that has its groups, its rank or a counter in
global variables has those of the worker that came last. What a session is told of each worker imports itself:

1. code of cells, and of such modules, imports through an `Importer`, which is among its builtins, and gets
   the worker's own module;
2. in `sys.modules`, where pickle, dataclasses, `importlib.import_module` and code of other libraries look, a
   `Standing` is, and answers a worker with what is in its own module;
3. everybody else, the notebook for one, has the module that the process has.

Extension modules cannot be loaded twice: of these there is one.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import sys
import threading
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import BuiltinImporter, ExtensionFileLoader, FrozenImporter, ModuleSpec
from typing import TYPE_CHECKING, Any, Final

from disco_magic.core.module_names import OF_USER
from disco_magic.functions.imported import find_beside
from disco_magic.functions.standing_modules import (
    IMPORTS,
    LOCK,
    Imports,
    Standing,
    imports_of,
    leave,
    stand,
    stand_no_more,
)
from disco_magic.libraries import is_of_library

if TYPE_CHECKING:
    import types
    from collections.abc import Iterable, Mapping, Sequence

    from disco_magic.functions.context import WorkerContext

_ONCE: Final[Any] = (BuiltinImporter, ExtensionFileLoader, FrozenImporter)


class Importer(Imports):
    """What stands in the place of `__import__` for code of one worker's.

    Args:
        worker: whose modules these are.
        names: of packages and modules that it imports for itself, with all that is in them; see `OF_USER`.

    """

    def __init__(self, worker: WorkerContext, names: Iterable[str]) -> None:
        super().__init__()
        self._worker = worker.id
        self._names = frozenset(names)
        self._is_own: dict[str, bool] = {}  # by the first part of a name
        self._lock = threading.RLock()  # the worker's threads may import the same module
        self._builtins: dict[str, Any] = {**vars(builtins), "__import__": self}

    def __call__(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - as `__import__` has it
        locals: Mapping[str, Any] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        """See `builtins.__import__`."""
        absolute = _resolved(name, globals, level)
        if not absolute or not self.owns(absolute):
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        module = self.load(absolute)
        if not fromlist:
            return module if level else self.load(absolute.partition(".")[0])
        for each in _listed(module, fromlist):
            if not hasattr(module, each) and hasattr(module, "__path__"):
                self._load_if_there(f"{absolute}.{each}")
        return module

    def owns(self, name: str) -> bool:
        """Whether that module is the worker's own."""
        root = name.partition(".")[0]
        known = self._is_own.get(root)
        if known is None:
            known = root in self._names or (None if OF_USER in self._names else False)
            known = _is_of_user(root) if known is None else known
            if known is not None:  # else it may be found later
                self._is_own[root] = known
        return bool(known)

    def load(self, name: str) -> types.ModuleType:
        """The worker's own module of that name, which is executed if it was not before.

        Raises:
            ModuleNotFoundError: there is none.
        """
        found = self.modules.get(name)
        if found is not None:
            return found
        parent, _, last = name.rpartition(".")
        path = None
        if parent:
            around = self.load(parent)
            path = getattr(around, "__path__", None)
            if name in self.modules:  # it was imported by that
                return self.modules[name]
            if path is None:
                raise ModuleNotFoundError(f"No module named {name!r}; {parent!r} is not a package", name=name)
        with self._lock:
            found = self.modules.get(name)
            if found is None:
                found = self._execute(name, path)
                if parent:
                    setattr(self.modules[parent], last, found)
        return found

    def _execute(self, name: str, path: Sequence[str] | None) -> types.ModuleType:
        spec = find_beside(_FINDER, name, path)
        if spec is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        if _is_loaded_once(spec):
            module = self.modules[name] = importlib.import_module(name)
            return module
        module = self.modules[name] = importlib.util.module_from_spec(spec)
        vars(module)["__builtins__"] = self._builtins
        standing = stand(spec)
        try:
            if spec.loader is not None:
                spec.loader.exec_module(module)
        except BaseException:
            self.modules.pop(name, None)
            stand_no_more(standing)
            raise
        with LOCK:
            chosen = sys.modules.get(name)
            if chosen is not None and not isinstance(chosen, Standing):  # it has put that in its own place
                sys.modules[name] = standing
                self.modules[name] = chosen
        return self.modules[name]

    def _load_if_there(self, name: str) -> None:
        try:
            self.load(name)
        except ModuleNotFoundError as missing:
            if missing.name != name:
                raise

    def __repr__(self) -> str:
        return f"<imports of worker {self._worker}>"


class _Finder(MetaPathFinder):
    """Finds for workers what they import for themselves, where code imports it that has no `Importer`."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`."""
        importer = imports_of(name)
        if importer is None:
            return None
        spec = find_beside(self, name, path, target)
        if spec is None or _is_loaded_once(spec):
            return spec
        return importlib.util.spec_from_loader(name, _Maker(importer, spec), origin=spec.origin)


class _Maker(Loader):
    """Puts a `Standing` there, and has the worker's own module loaded."""

    def __init__(self, importer: Imports, spec: ModuleSpec) -> None:
        self._importer, self._spec = importer, spec

    def create_module(self, _: ModuleSpec) -> types.ModuleType:
        """See `importlib.abc.Loader`."""
        return stand(self._spec)

    def exec_module(self, _: types.ModuleType) -> None:
        """See there."""
        self._importer.load(self._spec.name)


_FINDER: Final = _Finder()


def begin(worker: WorkerContext, names: Iterable[str]) -> Importer:
    """Let a worker import these for itself, until `end`; what is to stand in the place of `__import__`."""
    importer = Importer(worker, names)
    with LOCK:
        IMPORTS[worker] = importer
        if _FINDER not in sys.meta_path:
            sys.meta_path.insert(0, _FINDER)
    return importer


def end(worker: WorkerContext) -> None:
    """It has ended; after the last one all is as it was before."""
    with LOCK:
        if IMPORTS.pop(worker, None) is None or IMPORTS:
            return
        sys.meta_path.remove(_FINDER)
        for name, module in list(sys.modules.items()):
            if isinstance(module, Standing):
                leave(name, module)


def _is_loaded_once(spec: ModuleSpec) -> bool:
    return spec.loader in _ONCE or isinstance(spec.loader, _ONCE)


def _is_of_user(root: str) -> bool | None:
    """Whether that module is no library's; None if there is none."""
    present = sys.modules.get(root)
    spec = getattr(present, "__spec__", None) if present is not None else find_beside(_FINDER, root, None)
    if spec is None:
        return None if present is None else False
    places = [spec.origin] if spec.has_location else list(spec.submodule_search_locations or ())
    return bool(places) and not any(is_of_library(str(each)) for each in places)


def _resolved(name: str, scope: Mapping[str, Any] | None, level: int) -> str:
    """The absolute name; "" if there is none, of which `__import__` says what is wrong."""
    package = None if scope is None else scope.get("__package__")
    if not level:
        return name if isinstance(name, str) else ""
    if not isinstance(package, str):
        return ""
    try:
        return importlib.util.resolve_name("." * level + name, package)
    except ImportError:
        return ""


def _listed(module: types.ModuleType, fromlist: Sequence[str]) -> list[str]:
    """The names behind ``from module import``."""
    everything = getattr(module, "__all__", ())
    return [name for each in fromlist for name in (everything if each == "*" else [each])]
