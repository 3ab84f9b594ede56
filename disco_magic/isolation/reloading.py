"""``importlib.reload`` on several workers: a module that all share is executed once, as when it is imported.

Python's own function returns at once if another thread is reloading the module, to break cycles of modules
that reload each other. So when workers reloaded one in a cell, most continued with its old contents. Here the
caller waits for its turn. If another worker has reloaded the same file in the same command, its result is
used: executing the module for each worker would replace the classes that the first one has already used.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakKeyDictionary

from disco_magic.callers.current import calling_worker
from disco_magic.callers.module_classes import spec_of
from disco_magic.callers.replaced import in_place_of
from disco_magic.isolation import sources
from disco_magic.isolation.worker_mutex import WORKER_MUTEX

if TYPE_CHECKING:
    import types
    from collections.abc import Callable


class _Reloaded(NamedTuple):
    """The last reload of a module.

    Attributes:
        command: session and number of the command in which a worker reloaded it.
        source: what was in its file.
        executions: how often it was executed in that command.
        taken: worker's id -> how many of these executions it has had, its own and others'.
    """

    command: tuple[int, int]
    source: sources.Source | None
    executions: int
    taken: dict[int, int]


# Used only by the thread that has the mutex.
_reloaded: Final[WeakKeyDictionary[types.ModuleType, _Reloaded]] = WeakKeyDictionary()


@in_place_of("reload")
def fit_reload(
    below: Callable[[types.ModuleType], types.ModuleType], module: types.ModuleType
) -> types.ModuleType:
    """Let workers reload modules that they share once; in `importlib`."""
    if _is_importing():  # it holds an import lock, for which the thread that has the mutex may wait
        return below(module)
    with WORKER_MUTEX.taken("modules are reloaded"):
        return _reloaded_once(below, module)


def _is_importing() -> bool:
    """Whether the body of a module that is being imported calls: one thread executes that anyway."""
    frame: types.FrameType | None = sys._getframe(3)  # noqa: SLF001 - the caller of `reload`
    while frame is not None:
        code = frame.f_code
        if code.co_name == "_load_unlocked" and code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def _reloaded_once(
    below: Callable[[types.ModuleType], types.ModuleType], module: types.ModuleType
) -> types.ModuleType:
    me, spec = calling_worker(), spec_of(module)
    number = None if me is None else me.command
    if me is None or number is None or not isinstance(spec, ModuleSpec):
        return below(module)
    command, source = (me.session_id, number), sources.read(spec)
    last = _reloaded.get(module)
    if last is None or last.command != command:
        last = _Reloaded(command, None, 0, {})
    mine = last.taken.get(me.id, 0)
    if last.source == source and mine < last.executions:
        last.taken[me.id] = mine + 1
        return module
    made, executions = below(module), last.executions + 1
    _reloaded[made] = _Reloaded(command, source, executions, {**last.taken, me.id: executions})
    return made
