"""PyTorch's global hooks for modules and optimizers: a worker's is called only for what that worker calls.

``register_module_forward_hook`` and the like put a hook into a table of the process. FLOP counters and
loggers of communication do so, and counted what other workers did at the same time.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from disco_magic.callers.current import calling_worker
from disco_magic.callers.replaced import Replaced, replace_all

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from disco_magic.callers.current import CallingWorker

_TABLES: Final = (
    "_global_backward_hooks",
    "_global_backward_pre_hooks",
    "_global_buffer_registration_hooks",
    "_global_forward_hooks",
    "_global_forward_pre_hooks",
    "_global_module_registration_hooks",
    "_global_parameter_registration_hooks",
    "_global_optimizer_post_hooks",
    "_global_optimizer_pre_hooks",
)


_KIND: Final = "_global_is_full_backward_hook"
"""The kind of the registered backward hooks: PyTorch accepts one kind only."""


class _Hook:
    """A worker's hook, which does nothing for others; it refers to the worker weakly."""

    __slots__ = ("_worker", "hook")

    def __init__(self, worker: CallingWorker, hook: Callable[..., Any]) -> None:
        self._worker, self.hook = ref(worker), hook

    def is_of(self, worker: CallingWorker | None) -> bool:
        """Whether `worker` has registered it."""
        return worker is not None and self._worker() is worker

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self.hook(*args, **options) if self.is_of(calling_worker()) else None


class _Hooks(OrderedDict[int, Any]):
    """A table of hooks. PyTorch calls them in a loop over it, while other workers may add some."""

    def __setitem__(self, number: int, hook: Any) -> None:
        me = calling_worker()
        super().__setitem__(number, hook if me is None else _Hook(me, hook))

    def values(self) -> Any:
        """A list of the hooks."""
        return list(super().values())

    def items(self) -> Any:
        """A list of the hooks with their numbers."""
        return list(super().items())

    def leave(self, worker: CallingWorker | None) -> None:
        """Remove the hooks of a worker; None: of all workers."""
        for number, hook in self.items():
            if type(hook) is _Hook and (worker is None or hook.is_of(worker)):
                del self[number]


class _BackwardHooks(_Hooks):
    """A table from which a module takes its hooks when called; PyTorch may run them in its own threads."""

    def values(self) -> Any:
        """The hooks of the calling worker, and of the process."""
        me = calling_worker()
        return [
            hook.hook if type(hook) is _Hook else hook
            for hook in super().values()
            if type(hook) is not _Hook or hook.is_of(me)
        ]


_tables: Final[list[_Hooks]] = []


def fit_hooks(module: ModuleType) -> Callable[[], None]:
    """Let workers have hooks of their own; `module` is one that has such tables.

    Hooks are removed from the table to which they were added: a table that has some stays as it is. So does a
    table of ours, at the end, if the process has hooks in it.
    """
    empty = [name for name in _TABLES if name in vars(module) and not vars(module)[name]]
    tables = {name: _BackwardHooks() if "backward" in name else _Hooks() for name in empty}
    replaced = {name: Replaced(module, name, table) for name, table in tables.items()}
    replace_all(list(replaced.values()))
    kind = vars(module).get(_KIND)
    _tables.extend(tables.values())

    def undo() -> None:
        mine = {id(table) for table in tables.values()}
        _tables[:] = [table for table in _tables if id(table) not in mine]
        for name, table in tables.items():
            table.leave(None)
            if not table:
                replaced[name].take()
        if _KIND in vars(module) and not any("backward" in name and table for name, table in tables.items()):
            setattr(module, _KIND, kind)

    return undo


def leave_hooks(me: CallingWorker) -> None:
    """Remove the hooks of a worker that has ended."""
    for table in _tables:
        table.leave(me)
