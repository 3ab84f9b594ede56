"""``importlib.reload`` on several workers: a module that all share is executed once, as when it is imported.

Python's own returns at once if another thread reloads the module, to end circles of modules that reload each
other: so of workers that reload it in a cell most went on with what was there before. Who reloads waits for
its turn. What another worker has made of the same file in the same command is then taken as it is: executed
for each of them, the classes that the first one has already used would be others.
"""

from __future__ import annotations

import importlib
import sys
from functools import wraps
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakKeyDictionary

from disco_magic.callers.current import calling_worker
from disco_magic.callers.module_classes import spec_of
from disco_magic.callers.replaced import Replaced, replace_all
from disco_magic.isolation import sources
from disco_magic.isolation.worker_mutex import WORKER_MUTEX

if TYPE_CHECKING:
    import types
    from collections.abc import Callable


class _Reloaded(NamedTuple):
    """How a module was reloaded last.

    Attributes:
        command: session and number of the command in which a worker has done it.
        source: what was in its file.
        executions: how often it was executed in that command.
        taken: worker's id -> how many of these it has, its own and others'.
    """

    command: tuple[int, int]
    source: sources.Source | None
    executions: int
    taken: dict[int, int]


# Whoever has the mutex uses it.
_reloaded: Final[WeakKeyDictionary[types.ModuleType, _Reloaded]] = WeakKeyDictionary()


def fit_reload(module: types.ModuleType) -> Callable[[], None]:
    """Let workers reload modules that they share once; `module` is `importlib`."""

    @wraps(importlib.reload)
    def reload(module: types.ModuleType) -> types.ModuleType:
        if _is_importing():  # it holds an import's lock, for which who has the mutex may wait
            return replaced.below(module)  # type: ignore[no-any-return]
        with WORKER_MUTEX.taken("modules are reloaded"):
            return _reloaded_once(replaced.below, module)

    replaced = Replaced(module, "reload", reload)
    return replace_all([replaced])


def _is_importing() -> bool:
    """Whether the body of a module that is being imported calls: that is executed by one thread anyway."""
    frame: types.FrameType | None = sys._getframe(2)  # noqa: SLF001 - who reloads
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
