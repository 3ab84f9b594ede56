"""In the place of modules that workers import for themselves: what `sys.modules` has, who is answered what.

See `own_modules`. Pickle, dataclasses, `importlib.import_module` and code of other libraries look there.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
import types
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final

from disco_magic.functions.namespaces import CELL_MODULE, worker_calling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from importlib.machinery import ModuleSpec

    from disco_magic.functions.context import WorkerContext

# Each module's own, as the import system sets them.
_OF_IMPORTS: Final = (
    "__cached__",
    "__file__",
    "__loader__",
    "__name__",
    "__package__",
    "__path__",
    "__spec__",
)
_plain: Final[Callable[[types.ModuleType], dict[str, Any]]] = vars(types.ModuleType)["__dict__"].__get__
LOCK: Final = threading.RLock()
"""Of `sys.modules` and `IMPORTS`, where more than one step is needed."""


class Imports:
    """What one worker has imported for itself.

    Attributes:
        modules: by name.
    """

    def __init__(self) -> None:
        self.modules: dict[str, types.ModuleType] = {}

    def owns(self, name: str) -> bool:
        """Whether it imports that module for itself."""
        raise NotImplementedError

    def load(self, name: str) -> types.ModuleType:
        """That module, which is executed if it was not before."""
        raise NotImplementedError


IMPORTS: Final[dict[WorkerContext, Imports]] = {}
"""Of all workers that import anything for themselves."""


class Standing(types.ModuleType):
    """In `sys.modules` in the place of a module that workers import for themselves; it has what theirs have.

    Args:
        spec: how it was found.
        everyones: the process's module; None: it is imported when somebody uses it who has no own one.
    """

    def __init__(self, spec: ModuleSpec, everyones: types.ModuleType | None) -> None:
        super().__init__(spec.name)
        # What the import system reads, and who goes through all modules: nothing is executed for that.
        facts: dict[str, Any] = {"__spec__": spec, "__loader__": spec.loader, "__package__": spec.parent}
        if spec.has_location:
            facts["__file__"] = spec.origin
        if spec.submodule_search_locations is not None:
            facts["__path__"] = spec.submodule_search_locations
        _plain(self).update(facts)
        _plain(self).update(_spec=spec, _everyones=everyones, _lock=threading.RLock())

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        """That of the caller's module if it has been executed."""
        mine = imports_of(self.__name__)
        everything = _plain(self)
        module = everything["_everyones"] if mine is None else mine.modules.get(self.__name__)
        return everything if module is None else vars(module)

    def __getattr__(self, name: str) -> Any:
        if _is_special(name):
            executed = self.__dict__
            if executed is not _plain(self) and name in executed:
                return executed[name]
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name, obj=self)
        module = self.module()
        try:
            return getattr(module, name)
        except AttributeError:
            # Who imports what is in `sys.modules` already has it bound nowhere.
            within = sys.modules.get(f"{self.__name__}.{name}")
            if isinstance(within, Standing) and imports_of(self.__name__) is None:
                return within
            raise

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OF_IMPORTS:
            super().__setattr__(name, value)
        else:
            setattr(self.module(), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.module(), name)

    def __dir__(self) -> list[str]:
        return dir(self.module())

    def __repr__(self) -> str:
        return f"<module {self.__name__!r}, which workers import for themselves>"

    def module(self) -> types.ModuleType:
        """The module of the worker that calls, or the process's."""
        mine = imports_of(self.__name__)
        return self._everyones_module() if mine is None else mine.load(self.__name__)

    def _everyones_module(self) -> types.ModuleType:
        mine = _plain(self)
        with mine["_lock"]:
            module: types.ModuleType | None = mine["_everyones"]
            if module is None:
                spec: ModuleSpec = mine["_spec"]
                module = mine["_everyones"] = importlib.util.module_from_spec(spec)
                try:
                    if spec.loader is not None:
                        spec.loader.exec_module(module)
                except BaseException:
                    mine["_everyones"] = None
                    raise
        return module


def imports_of(name: str) -> Imports | None:
    """That of the worker that calls, if the module is its own."""
    me = worker_calling()
    mine = None if me is None else IMPORTS.get(me)
    return mine if mine is not None and mine.owns(name) else None


def stand(spec: ModuleSpec) -> Standing:
    """What stands in `sys.modules` for that module, from now on."""
    with LOCK:
        present = sys.modules.get(spec.name)
        if isinstance(present, Standing):
            return present
        standing = sys.modules[spec.name] = Standing(spec, present)
        return standing


def stand_no_more(standing: Standing) -> None:
    """Take it out of `sys.modules` if nobody has that module: who imports it next is to hear why."""
    name = standing.__name__
    with LOCK:
        has_one = _plain(standing)["_everyones"] is not None
        if not has_one and not any(name in each.modules for each in list(IMPORTS.values())):
            sys.modules.pop(name, None)


def leave(name: str, standing: Standing) -> None:
    """Let `sys.modules` have the process's module again, or none."""
    everyones = _plain(standing)["_everyones"]
    if everyones is None:
        del sys.modules[name]
    else:
        sys.modules[name] = everyones


def forget_module(name: str) -> None:
    """Let the next import of that module read its file; who has the old one keeps it."""
    for each in list(IMPORTS.values()):
        each.modules.pop(name, None)


def is_of_workers(module: object) -> bool:
    """Whether what comes from the module of that name is each worker's own: a cell's, or of such a module."""
    if not IMPORTS or type(module) is not str:
        return module == CELL_MODULE
    return module == CELL_MODULE or isinstance(sys.modules.get(module), Standing)


def homes_of(name: str, namespaces: Iterable[Mapping[str, Any]] | None) -> list[Mapping[str, Any]]:
    """What is in the own modules of that name of the workers whose cells have these namespaces.

    None: in the process's, which is imported for that, as pickle would have it; none if it cannot be.
    """
    found: list[types.ModuleType | None]
    if namespaces is None:
        found = [_everyones(name)]
    else:
        behind = [each.get("__builtins__") for each in namespaces]
        imports = [each.get("__import__") for each in behind if isinstance(each, dict)]
        found = [each.modules.get(name) for each in imports if isinstance(each, Imports)]
    return [vars(each) for each in found if each is not None]


def _everyones(name: str) -> types.ModuleType | None:
    standing = sys.modules.get(name)
    if not isinstance(standing, Standing):
        return standing
    try:
        return Context().run(standing.module)  # in which nobody is a worker
    except Exception:  # noqa: BLE001 - whatever it raises when it is executed: who asks does without
        return None


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")
