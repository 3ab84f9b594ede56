"""Modules that each worker imports for itself, as processes do: their global variables are the worker's own.

A module exists once per process, and so does its state: a library that keeps its groups, its rank or a
counter in global variables has those of the worker that came last. The modules that a session names are
imported by each worker for itself:

1. code of cells, and of such modules, imports through an `Importer` among its builtins, and gets the worker's
   own module;
2. `sys.modules` has a `Standing`, which gives each caller the attributes of its own module;
3. the process, for the notebook, has modules of its own in the same way.

Extension modules cannot be loaded twice: they are shared. `own_imports` installs all of this.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import sys
import warnings
from contextlib import nullcontext
from importlib import _bootstrap
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.module_classes import spec_of
from disco_magic.core.module_names import OF_USER
from disco_magic.isolation import programs, sources
from disco_magic.isolation.import_locks import ImportLock
from disco_magic.isolation.import_statements import listed, resolved
from disco_magic.isolation.imported import find_beside
from disco_magic.isolation.lasting import kept
from disco_magic.isolation.namesakes import Namesakes
from disco_magic.isolation.sharing_advice import advise_sharing
from disco_magic.isolation.specs import is_loaded_once, is_of_user, present_spec
from disco_magic.isolation.standing_modules import (
    LOCK,
    is_executed_by_others,
    is_standing,
    stand,
    stand_no_more,
)

if TYPE_CHECKING:
    import types
    from collections.abc import Iterable, Mapping, Sequence
    from importlib.abc import MetaPathFinder

_SYSTEM: Final[Any] = _bootstrap

_FIRST: Final = "worker 0"
_SHARED: Final = (
    "{} was imported before, and all workers share what it keeps in global variables: with --reload, or "
    "reload=True, each imports it for itself"
)


class Importer:
    """Replacement of `__import__` for the code of one worker.

    Args:
        whose: owner of its modules, in words.
        names: packages and modules that it imports for itself, with all that is in them; see `OF_USER`.
        finder: finder to be skipped when a module is looked for.

    Attributes:
        modules: by name, those that have been executed or are being executed.
        is_over: whether it has no modules of its own any more.
    """

    def __init__(self, whose: str, names: Iterable[str], finder: MetaPathFinder) -> None:
        self.modules: dict[str, types.ModuleType] = {}
        self._finder = finder
        self._whose = whose
        self._names = frozenset(names)
        self._shared: set[str] = set()  # the user's packages and modules that it does not import for itself
        self._users: set[str] = set()  # those of them that are no library's
        self._met: set[str] = set()  # those of them that programs have imported
        self._namesakes = Namesakes(finder)
        self._is_own: dict[str, bool] = {}  # by the first part of a name
        self._locks: dict[str, ImportLock] = {}
        self._running: set[str] = set()
        self._builtins: dict[str, Any] = {}
        self.is_over = False
        self.begin()

    def own_rest(self, shared: Iterable[str]) -> None:
        """Also import for itself everything that is no library's, except these packages and modules."""
        self._shared = set(shared)
        self._users = {root for root in self._shared if is_of_user(spec_of(sys.modules.get(root)))}
        self._names |= {OF_USER}

    def program_begins(self) -> None:
        """Until `program_ends`, look whether imports still find the modules that were imported before."""
        self._namesakes.begin()

    def program_ends(self) -> None:
        """Keep the modules that the program had: cells after it go on with them."""
        self._namesakes.end()

    def look_again(self, name: str) -> None:
        """Forget the package of that module, if a program would find another one of that name now."""
        for root in self._namesakes.outdated_by(name, self.modules, self._users):
            self._import_anew(root)

    def _import_anew(self, root: str) -> None:
        """Forget a package, which from now on is the worker's own; all others keep theirs."""
        self._is_own.pop(root, None)
        with LOCK:
            there = sys.modules.copy()
            for name in (each for each in there if each.partition(".")[0] == root):
                self.forget(name)
                spec = None if is_standing(there[name]) else spec_of(there[name])
                if not isinstance(spec, ModuleSpec) or is_loaded_once(spec):
                    continue
                stand(spec)

    def forget(self, name: str) -> None:
        """Import that module anew, and for itself even if it was shared before."""
        self.modules.pop(name, None)
        self._shared.discard(name.partition(".")[0])
        self._users.discard(name.partition(".")[0])

    def _tell_shared(self, root: str) -> None:
        """Warn, once and on the first worker, if a program imports a module that was shared before."""
        if root in self._met or root not in self._shared or not programs.is_executed():
            return
        self._met.add(root)
        if self._whose == _FIRST and root not in sys.stdlib_module_names and self._is_of_user(root):
            warnings.warn(_SHARED.format(root), stacklevel=3)

    def offer(self, names: Mapping[str, Any]) -> None:
        """Add these names to the builtins of its modules."""
        self._builtins.update(names)

    def has_module_of(self, names: Mapping[str, Any]) -> bool:
        """Whether these are the globals of one of its modules."""
        return names.get("__builtins__") is self._builtins

    def begin(self) -> None:
        """Update the builtins of its modules to the present ones."""
        self._builtins.update({**vars(builtins), "__import__": self})

    def __call__(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - as `__import__` has it
        locals: Mapping[str, Any] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        """See `builtins.__import__`."""
        absolute = resolved(name, globals, level)
        self.look_again(absolute)
        if self.is_over or not absolute or not self.owns(absolute):
            self._tell_shared(absolute.partition(".")[0])
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        module = self.load(absolute)
        if not fromlist:
            below = name.count(".")
            return self.load(absolute.rsplit(".", below)[0] if below else absolute)
        for each in listed(module, fromlist):
            if not hasattr(module, each) and hasattr(module, "__path__"):
                self._load_if_there(f"{absolute}.{each}")
        return module

    def owns(self, name: str) -> bool:
        """Whether that module is the worker's own."""
        root = name.partition(".")[0]
        if root in self._names:
            return True
        known = self._is_own.get(root)
        if known is None and OF_USER in self._names and root not in self._shared:
            known = self._is_of_user(root)
            if known:  # one that is not found now may be found later
                self._is_own[root] = known
        return bool(known)

    def load(self, name: str) -> types.ModuleType:
        """Return its own module of that name, which is executed if it was not before."""
        found = self.modules.get(name)
        if found is not None and name not in self._running:
            if name in sys.modules:
                return found
            self.modules.pop(name, None)  # removed from `sys.modules`, to have it executed again
        with LOCK:
            lock = self._locks.setdefault(name, ImportLock(name))
        with lock:  # not under the lock, where imports of other modules would wait for this one
            found = self.modules.get(name)
            return self._find(name) if found is None else found

    def reload(self, name: str) -> types.ModuleType:
        """Return that module; if it was executed before, execute it again, as `importlib.reload` does.

        It may have been emptied before, as autoreload does.
        """
        own = self.modules.get(name)
        if own is None:
            return self.load(name)
        around = self.modules.get(name.rpartition(".")[0])
        # A program's folder is searched only while it runs.
        spec = find_beside(self._finder, name, getattr(around, "__path__", None)) or present_spec(own)
        if spec is None or spec.loader is None:
            raise ModuleNotFoundError(f"spec not found for the module {name!r}", name=name)
        _SYSTEM._init_module_attrs(spec, own, override=True)  # noqa: SLF001 - as `importlib.reload` does
        if not is_loaded_once(spec):
            vars(own)["__builtins__"] = self._builtins
        source = sources.read(spec)
        spec.loader.exec_module(own)
        sources.note(own, source)  # only on success: otherwise it is what it was
        return own

    def _find(self, name: str) -> types.ModuleType:
        parent, _, last = name.rpartition(".")
        path = None
        if parent:
            around = self.load(parent)
            if name in self.modules:  # its package has imported it
                return self.modules[name]
            path = getattr(around, "__path__", None)
            if path is None and name not in sys.modules:
                raise ModuleNotFoundError(f"No module named {name!r}; {parent!r} is not a package", name=name)
        spec = find_beside(self._finder, name, path)
        if spec is not None and not is_loaded_once(spec):
            return self._execute(spec, self.modules.get(parent), last)
        module = sys.modules.get(name) if spec is None else _SYSTEM._gcd_import(name)  # noqa: SLF001
        if is_standing(module) and module.__name__ != name:  # it is registered under another name, too
            module = self.load(module.__name__)
        if module is None or is_standing(module):  # and no module was put there by hand
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        self.modules[name] = module
        if parent:  # whoever loaded it has bound it in one worker's package only
            setattr(self.modules[parent], last, module)
        return module

    def _execute(self, spec: ModuleSpec, around: types.ModuleType | None, last: str) -> types.ModuleType:
        name = spec.name
        module = importlib.util.module_from_spec(spec)
        self.begin()  # include what was added since
        vars(module)["__builtins__"] = self._builtins
        standing = stand(spec)
        try:  # an interrupt may strike anywhere in it
            sources.note(module, sources.read(spec))
            settings = nullcontext() if self._running else kept()  # of the outermost one, with all it imports
            self._running.add(name)  # first, so that a thread that finds the module waits
            self.modules[name] = module
            if around is not None:  # before: modules that import each other find it there
                setattr(around, last, module)
            with settings:
                if spec.loader is not None:
                    spec.loader.exec_module(module)
        except BaseException as error:
            self.modules.pop(name, None)
            if around is not None and getattr(around, last, None) is module:
                delattr(around, last)
            stand_no_more(name)
            if OF_USER in self._names and is_executed_by_others(name, self):
                advise_sharing(error, name)
            raise
        finally:
            self._running.discard(name)
        with LOCK:
            chosen = sys.modules.get(name)
            if chosen is not None and not is_standing(chosen):  # the module has put that in its own place
                sys.modules[name] = standing
                self.modules[name] = chosen
                if around is not None:
                    setattr(around, last, chosen)
        return self.modules[name]

    def _load_if_there(self, name: str) -> None:
        try:
            self.load(name)
        except ModuleNotFoundError as missing:
            if missing.name != name:
                raise

    def _is_of_user(self, root: str) -> bool:
        """Whether there is a module of that name that is no library's."""
        present = sys.modules.get(root)
        return is_of_user(
            find_beside(self._finder, root, None) if present is None else getattr(present, "__spec__", None)
        )

    def __repr__(self) -> str:
        return f"<imports of {self._whose}>"
