"""What `sys.modules` has in place of modules that workers import for themselves, and whose modules those are.

See `own_modules`. Pickle, dataclasses, `importlib.import_module`, code of other libraries and the notebook
look there, and get what is in the calling worker's module, or in the process's.
"""

from __future__ import annotations

import importlib
import sys
import types
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from disco_magic.callers.current import calling_worker
from disco_magic.callers.module_classes import dictionary_of
from disco_magic.threads.locks import new_rlock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disco_magic.callers.current import CallingWorker
    from disco_magic.isolation.own_modules import Importer

# Set by the import system on what it finds; assignments to a `Standing` are ignored.
_OF_IMPORTS: Final = frozenset(
    {"__cached__", "__file__", "__loader__", "__name__", "__package__", "__path__", "__spec__"}
)
LOCK: Final = new_rlock()  # guards `sys.modules` and `IMPORTS` where more than one step is needed
IMPORTS: Final[dict[CallingWorker, Importer]] = {}  # of all workers that import anything for themselves
_of_process: Final[list[Importer]] = []


def serve_process(imports: Importer) -> None:
    """Make `imports` the process's."""
    _of_process[:] = [imports]


class StandingSpec(ModuleSpec):
    """The spec of a `Standing`: importing it executes the calling worker's module.

    For a module in `sys.modules`, the import system asks whether another thread is importing it, and if so
    waits in `_lock_unlock_module`: the only point of an import at which it can be intercepted. An exception
    raised here would be lost; see `own_imports`.
    """

    def __init__(self, found: ModuleSpec) -> None:
        super().__init__(found.name, _StandingLoader(found), origin=found.origin)
        self.submodule_search_locations = found.submodule_search_locations
        self.has_location = found.has_location
        self.cached = found.cached

    @property
    def _initializing(self) -> bool:
        standing = isinstance(sys.modules.get(self.name), Standing)
        return standing and self.name not in imports_for(self.name).modules

    @_initializing.setter
    def _initializing(self, _: bool) -> None:
        """Ignore what the import system says of the modules that it loads."""


class _StandingLoader(Loader):
    """Creates a `Standing`, and executes the caller's module; otherwise acts as the modules' own loader."""

    def __init__(self, found: ModuleSpec) -> None:
        self._found = found
        self._is_import = False

    def create_module(self, _: ModuleSpec) -> types.ModuleType:
        """See `importlib.abc.Loader`."""
        self._is_import = True
        return stand(self._found)

    def exec_module(self, _: types.ModuleType) -> None:
        """See `importlib.abc.Loader`. Called by Python's `importlib.reload`, too, which autoreload keeps."""
        imports, name = imports_for(self._found.name), self._found.name
        if self._is_import:
            imports.load(name)
        elif name in imports.modules:
            imports.reload(name)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_found").loader, name)


class Standing(types.ModuleType):
    """The object in `sys.modules`; every attribute not defined here is the caller's module's.

    Its identity does not depend on its dictionary: code that reloads modules clears that.
    """

    __slots__ = ("__disco_spec__",)
    __disco_spec__: StandingSpec

    # A module's own method asks whether the module is being imported before it says that a name is missing.
    __getattribute__ = object.__getattribute__

    def __init__(self, spec: ModuleSpec) -> None:
        super().__init__(spec.name)
        object.__setattr__(self, "__disco_spec__", StandingSpec(spec))
        dictionary_of(self).update(_facts(self.__disco_spec__))  # read by Python itself, for its errors

    @property
    def __name__(self) -> str:  # type: ignore[override]
        return self.__disco_spec__.name

    @property
    def __spec__(self) -> StandingSpec:  # type: ignore[override]
        return self.__disco_spec__

    @property
    def __file__(self) -> Any:  # type: ignore[override]
        """The caller's module's: workers may have imported others of that name."""
        if "__file__" in self.__dict__:
            return self.__dict__["__file__"]
        raise AttributeError(f"module {self.__name__!r} has no attribute '__file__'", name="__file__")

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        """The caller's module's, if that was executed: code that iterates over all modules executes none.

        Otherwise a new dictionary: changes to it affect nothing, and code that is executed in it finds
        nothing.
        """
        executed = imports_for(self.__name__).modules.get(self.__name__)
        if executed is None:
            return {**_facts(self.__disco_spec__), "__builtins__": {}}
        return getattr(executed, "__dict__", {})

    def __getattr__(self, name: str) -> Any:
        executed = imports_for(self.__name__).modules.get(self.__name__)
        if executed is None and name.startswith("__") and name.endswith("__"):
            own = self.__disco_spec__
            known = {**_facts(own), "__path__": own.submodule_search_locations}.get(name)
            if known is not None:
                return known
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name, obj=self)
        module = _module_of(self)
        child = sys.modules.get(f"{self.__name__}.{name}")
        if child is not None and not is_standing(child) and name not in vars(module):
            # A module that exists only once is bound in the package of the worker that loaded it.
            setattr(module, name, child)
        return getattr(module, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _OF_IMPORTS:
            _refuse_if_not_here(self, name)
            setattr(_module_of(self), name, value)

    def __delattr__(self, name: str) -> None:
        _refuse_if_not_here(self, name)
        delattr(_module_of(self), name)

    def __dir__(self) -> list[str]:
        return dir(_module_of(self))

    def __repr__(self) -> str:
        return f"<module {self.__name__!r}, which workers import for themselves>"


def _facts(spec: StandingSpec) -> dict[str, Any]:
    """Return the attributes of a module that are known before it is executed."""
    known = {"__name__": spec.name, "__package__": spec.parent, "__loader__": spec.loader, "__spec__": spec}
    return {**known, "__doc__": None, **({"__file__": spec.origin} if spec.has_location else {})}


def _refuse_if_not_here(standing: Standing, name: str) -> None:
    """Raise if only workers have it: code that patches all modules, like autoreload, must not execute it."""
    own = standing.__name__
    is_workers = IMPORTS and imports_of(own) is None and own not in _of_process[0].modules
    if is_workers and sys.modules.get(own) is standing:
        raise AttributeError(
            f"module {own!r} was imported only on workers: import it in the notebook, too",
            name=name,
            obj=standing,
        )


def _module_of(standing: Standing) -> types.ModuleType:
    """Return the calling worker's module, or the process's; after the last session, the one that there is."""
    name = standing.__name__
    if IMPORTS:
        return imports_for(name).load(name)
    kept = _of_process[0].modules.get(name)
    return importlib.import_module(name) if kept is None else kept


def imports_of(name: str) -> Importer | None:
    """The modules of the calling worker, if that module is its own; else None."""
    me = calling_worker()
    mine = None if me is None else IMPORTS.get(me)
    if mine is None:
        return None
    mine.look_again(name)
    return mine if mine.owns(name) else None


def imports_for(name: str) -> Importer:
    """The modules of the calling worker, if that module is its own; else the process's."""
    return imports_of(name) or _of_process[0]


def imports_of_process() -> Importer:
    """The modules of the notebook, and of all code that is no worker's."""
    return _of_process[0]


def stand(spec: ModuleSpec) -> Standing:
    """Put a `Standing` for that module into `sys.modules`, and return it; the present one if there is one."""
    with LOCK:
        present = sys.modules.get(spec.name)
        if is_standing(present):
            return present
        if present is not None:
            _of_process[0].modules[spec.name] = present
        standing = sys.modules[spec.name] = Standing(spec)
        return standing


def stand_no_more(name: str) -> None:
    """Remove it from `sys.modules` if nobody has that module, so that the next import gives the reason."""
    with LOCK:
        if isinstance(sys.modules.get(name), Standing) and not _is_had(name):
            del sys.modules[name]


def _is_had(name: str) -> bool:
    return any(name in each.modules for each in [*_of_process, *IMPORTS.values()])


def is_standing(thing: object) -> TypeGuard[Standing]:
    """Whether an entry of `sys.modules` is a `Standing`; does not execute a lazy module."""
    return issubclass(type(thing), Standing)


def is_executed_by_others(name: str, mine: Importer) -> bool:
    """Whether another worker, or the process, has a module of that name of its own."""
    return any(name in each.modules for each in [*_of_process, *list(IMPORTS.values())] if each is not mine)


def leave_all() -> None:
    """Put the process's modules back into `sys.modules`; code that holds a `Standing` then uses these."""
    with LOCK:
        _put_back(_of_process[0].modules)


def _put_back(process: Mapping[str, types.ModuleType]) -> None:
    left = set()
    for name, module in sys.modules.copy().items():
        if is_standing(module):
            left.add(name)
            if name in process:
                sys.modules[name] = process[name]
            else:
                del sys.modules[name]
    for name in list(sys.modules):
        around = name.rpartition(".")[0]
        if around in left and around not in sys.modules:  # it is bound again with its package
            del sys.modules[name]


def forget_module(name: str) -> None:
    """Have the next import of that module read its file; code that holds the old module keeps it."""
    for each in [*_of_process, *list(IMPORTS.values())]:
        each.forget(name)


def plain_modules() -> dict[str, Any]:
    """All that are no `Standing`; no lazy module is executed. Takes 0.1 us for each of thousands."""
    kind = types.ModuleType
    return {
        name: module
        for name, module in sys.modules.copy().items()
        if type(module) is kind or not is_standing(module)
    }
