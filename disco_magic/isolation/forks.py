"""Processes that workers start at the same time, and what those must not take over from the other workers.

Processes that `multiprocessing` forks, of a `DataLoader` for instance, begin with all that the other workers
are in the middle of. In a process of its own each worker would have none of that.
"""

from __future__ import annotations

import gc
import os
import sys
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.current import calling_worker
from disco_magic.callers.replaced import in_place_of
from disco_magic.threads.locks import new_lock
from disco_magic.threads.stacks import forget_import, import_locks

if TYPE_CHECKING:
    from collections.abc import Callable

# Freed in the child, which is forked, and ends, within the call.
_LAUNCHING: Final = new_lock()
_MAKING: Final = new_lock()


@in_place_of("_launch", within="Popen")
def fit_launching(below: Callable[..., None], self: Any, process: Any) -> None:
    """Let one process at a time be forked; in ``multiprocessing.popen_fork``.

    A parent knows by a pipe that its child has ended. If another worker forks between the making of the pipe
    and its own fork, that child has the pipe, too: joins then wait for a stranger's process, DataLoaders end
    after five seconds each.
    """
    with _LAUNCHING:
        below(self, process)


@in_place_of("get_memmapping_executor", within="MemmappingExecutor")
def fit_joblib(below: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Let one worker at a time ask for joblib's processes, which all share; in ``joblib.executor``.

    Who asks second could get them before who made them has added the folder for their arrays.
    """
    with _MAKING:
        return below(*args, **options)


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
