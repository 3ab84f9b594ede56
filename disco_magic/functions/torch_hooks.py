"""Hooks of PyTorch for the modules of all: one that a worker sets is for what that worker calls.

``register_module_forward_hook`` and its like put a hook into a table of the process. What counts FLOPs or
tells of communication does so, and counted what other workers did meanwhile.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from disco_magic.functions.context import calling_worker
from disco_magic.functions.replaced import Replaced, replace_all

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from disco_magic.functions.context import WorkerContext

_TABLES: Final = (
    "_global_backward_hooks",
    "_global_backward_pre_hooks",
    "_global_buffer_registration_hooks",
    "_global_forward_hooks",
    "_global_forward_pre_hooks",
    "_global_module_registration_hooks",
    "_global_parameter_registration_hooks",
)


class _Hook:
    """A worker's hook, which does nothing for others; does not keep the worker."""

    __slots__ = ("_hook", "_worker")

    def __init__(self, worker: WorkerContext, hook: Callable[..., Any]) -> None:
        self._worker, self._hook = ref(worker), hook

    def __call__(self, *args: Any, **options: Any) -> Any:
        me = calling_worker()
        return self._hook(*args, **options) if me is not None and me is self._worker() else None


class _Hooks(OrderedDict[int, Any]):
    """A table of hooks; only what is put in costs more than in any other."""

    def __setitem__(self, number: int, hook: Any) -> None:
        me = calling_worker()
        super().__setitem__(number, hook if me is None else _Hook(me, hook))

    def leave(self) -> bool:
        """Forget those of workers; whether there are no others."""
        for number in [number for number, hook in self.items() if type(hook) is _Hook]:
            del self[number]
        return not self


def fit_hooks(module: ModuleType) -> Callable[[], None]:
    """Let workers have hooks of their own; `module` is ``torch.nn.modules.module``.

    Who has put a hook into a table before takes it out of that one: such a table stays as it is. So does one
    of ours, at the end, in which the process has hooks.
    """
    tables = {name: _Hooks() for name in _TABLES if not vars(module)[name]}
    replaced = {name: Replaced(module, name, table) for name, table in tables.items()}
    replace_all(list(replaced.values()))

    def undo() -> None:
        for name, table in tables.items():
            if table.leave():
                replaced[name].take()

    return undo
