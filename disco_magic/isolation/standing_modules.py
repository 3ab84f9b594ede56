"""In the place of modules that workers import for themselves: what `sys.modules` has, and whose that is.

See `own_modules`. Pickle, dataclasses, `importlib.import_module`, code of other libraries and the notebook
look there, and get what is in the module of the worker that asks, or in the process's.
"""

from __future__ import annotations

import importlib
import sys
import types
from abc import ABC, abstractmethod
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from disco_magic.callers.current import calling_worker
from disco_magic.callers.module_classes import dictionary_of
from disco_magic.locks import new_rlock

if TYPE_CHECKING:
    from disco_magic.callers.current import CallingWorker

# The import system sets them, of what it has found; here they are what they are.
_OF_IMPORTS: Final = frozenset(
    {"__cached__", "__file__", "__loader__", "__name__", "__package__", "__path__", "__spec__"}
)
LOCK: Final = new_rlock()
"""Of `sys.modules` and `IMPORTS`, where more than one step is needed."""


class Imports(ABC):
    """The own modules of a worker, or of the process.

    Attributes:
        modules: by name, those that are executed or are just being that.
    """

    def __init__(self) -> None:
        self.modules: dict[str, types.ModuleType] = {}

    def forget(self, name: str) -> None:
        """Let the next import of that module execute it."""
        self.modules.pop(name, None)

    @abstractmethod
    def owns(self, name: str) -> bool:
        """Whether that module is one of these."""

    @abstractmethod
    def load(self, name: str) -> types.ModuleType:
        """That module, which is executed if it was not before."""

    @abstractmethod
    def reload(self, name: str) -> types.ModuleType:
        """The same, but it is executed again if it was, as `importlib.reload` does it."""


IMPORTS: Final[dict[CallingWorker, Imports]] = {}
"""Of all workers that import anything for themselves."""
_of_process: Final[list[Imports]] = []


def serve_process(imports: Imports) -> None:
    """Let those be the process's."""
    _of_process[:] = [imports]


class StandingSpec(ModuleSpec):
    """That of a `Standing`: whoever imports it has their module executed.

    The import system asks whether a module that is in `sys.modules` is just being imported by another thread,
    and then waits for it by `_lock_unlock_module`: the one moment of an import at which anybody is asked.
    What is raised here would be lost; see `own_imports`.

    Args:
        found: how the modules are found in whose place it is.
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
        """The import system says so of what it loads."""


class _StandingLoader(Loader):
    """Puts a `Standing` there, and has the caller's module executed; for the rest the modules' own loader."""

    def __init__(self, found: ModuleSpec) -> None:
        self._found = found
        self._is_import = False

    def create_module(self, _: ModuleSpec) -> types.ModuleType:
        """See `importlib.abc.Loader`."""
        self._is_import = True
        return stand(self._found)

    def exec_module(self, _: types.ModuleType) -> None:
        """See there. Python's own `importlib.reload`, which autoreload has from before ours, comes here."""
        imports, name = imports_for(self._found.name), self._found.name
        if self._is_import:
            imports.load(name)
        elif name in imports.modules:
            imports.reload(name)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_found").loader, name)


class Standing(types.ModuleType):
    """What is in `sys.modules`; all but what follows is the caller's module's.

    What it is does not depend on its dictionary: who reloads modules clears that.

    Args:
        spec: how that was found.
    """

    __slots__ = ("__disco_spec__",)
    __disco_spec__: StandingSpec

    # That of modules asks, before it says that something is missing, whether the module is being imported.
    __getattribute__ = object.__getattribute__

    def __init__(self, spec: ModuleSpec) -> None:
        super().__init__(spec.name)
        object.__setattr__(self, "__disco_spec__", StandingSpec(spec))
        dictionary_of(self).update(_facts(self.__disco_spec__))  # where Python itself looks, for its errors

    @property
    def __name__(self) -> str:  # type: ignore[override]
        return self.__disco_spec__.name

    @property
    def __spec__(self) -> StandingSpec:  # type: ignore[override]
        return self.__disco_spec__

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        """That of the caller's module if it has been executed: who goes through all modules executes none.

        Else a new one, with which nothing is lost, and in which code that is executed there finds nothing.
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
            # What can be there only once is bound in the package of who has loaded it.
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
    """What is known of a module before it is executed."""
    known = {"__name__": spec.name, "__package__": spec.parent, "__loader__": spec.loader, "__spec__": spec}
    return {**known, "__doc__": None, **({"__file__": spec.origin} if spec.has_location else {})}


def _refuse_if_not_here(standing: Standing, name: str) -> None:
    """Whoever mends all modules of the process, as autoreload does, executes none that only workers have."""
    own = standing.__name__
    is_workers = IMPORTS and imports_of(own) is None and own not in _of_process[0].modules
    if is_workers and sys.modules.get(own) is standing:
        raise AttributeError(
            f"module {own!r} has been imported by workers only: import it here, too", name=name, obj=standing
        )


def _module_of(standing: Standing) -> types.ModuleType:
    """The module of the worker that calls, or the process's; after the last session that which there is."""
    name = standing.__name__
    if IMPORTS:
        return imports_for(name).load(name)
    kept = _of_process[0].modules.get(name)
    return importlib.import_module(name) if kept is None else kept


def imports_of(name: str) -> Imports | None:
    """Those of the worker that calls, if the module is its own."""
    me = calling_worker()
    mine = None if me is None else IMPORTS.get(me)
    return mine if mine is not None and mine.owns(name) else None


def imports_for(name: str) -> Imports:
    """As `imports_of`, or the process's."""
    return imports_of(name) or _of_process[0]


def imports_of_process() -> Imports:
    """Those of the notebook, and of whoever is no worker."""
    return _of_process[0]


def stand(spec: ModuleSpec) -> Standing:
    """What stands in `sys.modules` for that module, from now on."""
    with LOCK:
        present = sys.modules.get(spec.name)
        if is_standing(present):
            return present
        if present is not None:
            _of_process[0].modules[spec.name] = present
        standing = sys.modules[spec.name] = Standing(spec)
        return standing


def stand_no_more(name: str) -> None:
    """Take it out of `sys.modules` if nobody has that module: who imports it next is to hear why."""
    with LOCK:
        everybody = [*_of_process, *IMPORTS.values()]
        if isinstance(sys.modules.get(name), Standing) and not any(
            name in each.modules for each in everybody
        ):
            del sys.modules[name]


def is_standing(thing: object) -> TypeGuard[Standing]:
    """Whether what is in `sys.modules` is a `Standing`; a lazy module is not executed by this."""
    return issubclass(type(thing), Standing)


def is_executed_by_others(name: str, mine: Imports) -> bool:
    """Whether another worker, or the process, has that module of its own."""
    return any(name in each.modules for each in [*_of_process, *list(IMPORTS.values())] if each is not mine)


def leave_all() -> None:
    """Let `sys.modules` have the process's modules again; who has a `Standing` goes on with these."""
    with LOCK:
        process = _of_process[0].modules
        left = set()
        for name, module in list(sys.modules.items()):
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
    """Let the next import of that module read its file; who has the old one keeps it."""
    for each in [*_of_process, *list(IMPORTS.values())]:
        each.forget(name)
