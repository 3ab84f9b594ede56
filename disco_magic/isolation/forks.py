"""Processes that workers start at the same time, and what those must not take over from the other workers.

Processes that `multiprocessing` forks, of a `DataLoader` for instance, begin with all that the other workers
are in the middle of. In a process of its own each worker would have none of that.
"""

from __future__ import annotations

import gc
import os
import sys
from threading import get_ident
from typing import TYPE_CHECKING, Any

from disco_magic.callers.current import calling_worker
from disco_magic.callers.replaced import Replaced, replace_all, replacing
from disco_magic.threads.locks import new_lock
from disco_magic.threads.stacks import forget_import, import_locks

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


def fit_launching(module: ModuleType) -> Callable[[], None]:
    """Let one process at a time be forked; `module` is ``multiprocessing.popen_fork``.

    A parent knows by a pipe that its child has ended. If another worker forks between the making of the pipe
    and its own fork, that child has the pipe, too: joins then wait for a stranger's process, DataLoaders end
    after five seconds each.
    """
    # Freed in the child, which is forked, and ends, within the call.
    launching = new_lock()

    @replacing(vars(module)["Popen"], "_launch")
    def _launch(self: Any, process: Any) -> None:
        with launching:
            _launch.below(self, process)

    return replace_all([_launch])


def fit_joblib(module: ModuleType) -> Callable[[], None]:
    """Let one worker at a time ask for joblib's processes, which all share; `module` is ``joblib.executor``.

    Who asks second could get them before who made them has added the folder for their arrays.
    """
    making = new_lock()

    @classmethod  # type: ignore[misc]
    def get_memmapping_executor(cls: type, *args: Any, **options: Any) -> Any:
        with making:
            return made.below.__get__(None, cls)(*args, **options)

    made = Replaced(vars(module)["MemmappingExecutor"], "get_memmapping_executor", get_memmapping_executor)
    return replace_all([made])


def _begin_alone() -> None:
    """Forget in a forked child what threads were doing that are not there."""
    me = get_ident()
    for lock in import_locks():
        if lock.owner not in (None, me):
            forget_import(lock)
            spec = getattr(sys.modules.get(lock.name), "__spec__", None)
            if getattr(spec, "_initializing", False):  # half of it is there: the child imports it anew
                sys.modules.pop(lock.name, None)
    if calling_worker() is not None:
        # Never collected: the other workers' iterators and pools would wait for processes of theirs.
        gc.freeze()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_alone)
