"""Changes to the import system for modules that workers import for themselves.

See `own_modules`. While any worker has such modules, a finder precedes all others, and three functions of
`importlib`, one of `inspect` and a method of Python's finders are replaced.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from functools import update_wrapper
from importlib.abc import MetaPathFinder
from importlib.machinery import FileFinder, ModuleSpec
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.module_classes import spec_of
from disco_magic.callers.replaced import Replaced
from disco_magic.isolation.imported import find_beside, is_asked_for
from disco_magic.isolation.own_modules import Importer
from disco_magic.isolation.specs import is_loaded_once
from disco_magic.isolation.standing_modules import (
    IMPORTS,
    LOCK,
    StandingSpec,
    imports_for,
    imports_of,
    is_standing,
    leave_all,
    plain_modules,
    serve_process,
    stand,
)
from disco_magic.libraries import read_import_path

if TYPE_CHECKING:
    import types
    from collections.abc import Collection, Sequence

    from disco_magic.callers.current import CallingWorker


class _OfProcess(Importer):
    """The process's importer: it has all modules that any worker imports for itself."""

    def owns(self, name: str) -> bool:
        """Whether any worker imports that module for itself."""
        return any(each.owns(name) for each in list(IMPORTS.values()))


class _Finder(MetaPathFinder):
    """Finds modules that workers import for themselves, for code without an `Importer` in its builtins."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`."""
        if is_standing(target) and name not in imports_for(name).modules:
            return target.__spec__  # for a reload: nothing is executed, wherever it would be found now
        if imports_of(name) is None and not _PROCESS.owns(name):
            return None
        spec = find_beside(self, name, path, target)
        return spec if spec is None or is_loaded_once(spec) else StandingSpec(spec)


_FINDER: Final = _Finder()
_PROCESS: Final = _OfProcess("the process", (), _FINDER)
serve_process(_PROCESS)


def _reload(module: types.ModuleType) -> types.ModuleType:
    """Replacement of `importlib.reload`, which takes only what is in `sys.modules` itself."""
    name = getattr(getattr(module, "__spec__", None), "name", None)
    own = None if name is None else imports_for(name).modules.get(name)
    if name is None or own is None or (own is not module and not is_standing(module)):
        return _RELOAD.below(module)  # type: ignore[no-any-return]
    return imports_for(name).reload(name)


def _import_module(name: str, package: str | None = None) -> types.ModuleType:
    """Replacement of `importlib.import_module`: a worker gets its own module.

    It never comes to the import system's lock of that name, which only one worker at a time could hold.
    """
    absolute = name
    if isinstance(name, str) and name.startswith(".") and package:
        absolute = importlib.util.resolve_name(name, package)
    mine = imports_of(absolute) if isinstance(name, str) else None
    if mine is not None:
        return mine.load(absolute)
    module: types.ModuleType = _IMPORT.below(name, package)
    if is_standing(module):
        imports_for(module.__name__).load(module.__name__)
    return module


def _lock_unlock_module(name: str) -> None:
    """Replacement of the import system's wait: executes the caller's module, if that was not done before."""
    if is_standing(sys.modules.get(name)):
        imports_for(name).load(name)
    else:
        _WAIT.below(name)


def _getmodule(object: Any, _filename: str | None = None) -> types.ModuleType | None:  # noqa: A002 - as `inspect` has it
    """Replacement of `inspect.getmodule`: a worker gets its own module."""
    module: types.ModuleType | None = _OF.below(object, _filename)
    mine = imports_of(module.__name__) if is_standing(module) else None
    return module if mine is None or module is None else mine.modules.get(module.__name__, module)


def _find_spec(
    finder: FileFinder, fullname: str, target: types.ModuleType | None = None
) -> ModuleSpec | None:
    """Replacement of `FileFinder.find_spec`: what a scan of a package finds there is the worker's own, too.

    Libraries that look for plugins in their own folders ask `pkgutil`'s finders, execute what these find, and
    put it into `sys.modules`: all workers would have the module of the last one. Imports come to `_Finder`
    first. What lies elsewhere, such as a configuration with that name, may be executed as often as asked.
    """
    spec: ModuleSpec | None = _FOUND.below(finder, fullname, target)
    around = fullname.rpartition(".")[0]
    mine = None if spec is None or not around or is_asked_for(fullname) else imports_of(fullname)
    if spec is None or mine is None or around not in mine.modules or is_loaded_once(spec):
        return spec
    own = find_beside(_FINDER, fullname, getattr(mine.modules[around], "__path__", None))
    return StandingSpec(spec) if own is not None and own.origin == spec.origin else spec


for _ours, _first in (
    (_reload, importlib.reload),
    (_import_module, importlib.import_module),
    (_getmodule, inspect.getmodule),
    (_find_spec, FileFinder.find_spec),
):
    update_wrapper(_ours, _first)
_RELOAD: Final = Replaced(importlib, "reload", _reload)
_IMPORT: Final = Replaced(importlib, "import_module", _import_module)
_WAIT: Final = Replaced(importlib._bootstrap, "_lock_unlock_module", _lock_unlock_module)  # noqa: SLF001 - Python's
_OF: Final = Replaced(inspect, "getmodule", _getmodule)
_FOUND: Final = Replaced(FileFinder, "find_spec", _find_spec)
_REPLACED: Final = (_RELOAD, _IMPORT, _WAIT, _OF, _FOUND)


_OF_PROGRAMS: Final = object()  # in `belongings` of workers whose programs are to have modules of their own


def begin(worker: CallingWorker, names: Collection[str]) -> Importer:
    """Let a worker import these for itself, until `end`; return the replacement of `__import__`."""
    importer = Importer(f"worker {worker.id}", names, _FINDER)
    read_import_path()  # imports a module, through `sysconfig`, for which our finder would ask again
    with LOCK:
        if not IMPORTS:
            _PROCESS.begin()
            _PROCESS.modules.clear()
        IMPORTS[worker] = importer
        if _FINDER not in sys.meta_path:
            sys.meta_path.insert(0, _FINDER)
            for each in _REPLACED:
                each.put()
        if names:
            _stand_for(importer)
    return importer


def _stand_for(importer: Importer) -> None:
    """Make the imported modules that `importer` is to import for itself the process's."""
    owned: dict[str, bool] = {}  # by the first part of a name: libraries have thousands of modules
    for name, module in plain_modules().items():
        root = name.partition(".")[0]
        if not owned.get(root, True):
            continue
        spec = spec_of(module)
        if not isinstance(spec, ModuleSpec) or spec.name != name or is_loaded_once(spec):
            continue
        if root not in owned:
            owned[root] = importer.owns(name)
        if owned[root]:
            stand(spec)


def let_programs_begin(worker: CallingWorker) -> None:
    """From its first program on, let a worker import for itself the user's modules not imported yet."""
    worker.belongings[_OF_PROGRAMS] = True


def program_begins(worker: CallingWorker, behind: dict[str, Any]) -> None:
    """Prepare a worker for a program; `behind` is its cells' `__builtins__`. The first time takes some ms."""
    is_first, mine = worker.belongings.pop(_OF_PROGRAMS, False), IMPORTS.get(worker)
    if is_first:
        if mine is None:
            mine = behind["__import__"] = begin(worker, ())
        with LOCK:
            # Not the imported ones: objects and classes that cells have belong to these.
            mine.own_rest({name.partition(".")[0] for name in plain_modules()})
    if mine is not None:
        mine.program_begins()


def program_ends(worker: CallingWorker) -> None:
    """Note that the program of a worker has ended."""
    mine = IMPORTS.get(worker)
    if mine is not None:
        mine.program_ends()


def end(worker: CallingWorker) -> None:
    """Forget the modules of a worker that has ended; after the last one, undo all changes."""
    with LOCK:
        mine = IMPORTS.pop(worker, None)
        if mine is not None:
            mine.is_over = True
            if not IMPORTS:
                sys.meta_path.remove(_FINDER)
                for each in _REPLACED:
                    each.take()
                leave_all()
