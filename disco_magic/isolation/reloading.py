"""``importlib.reload`` on several workers: a module that all share is executed once, as when it is imported.

Python's own returns at once if another thread reloads the module, to end circles of modules that reload each
other: so of workers that reload it in a cell most went on with what was there before. Who reloads waits for
its turn. What another worker has made of the same file in the same command is then taken as it is: executed
for each of them, the classes that the first one has already used would be others.
"""

from __future__ import annotations

import importlib
from functools import wraps
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakKeyDictionary

from disco_magic.callers.current import calling_worker
from disco_magic.callers.module_classes import spec_of
from disco_magic.callers.replaced import Replaced, replace_all
from disco_magic.isolation import sources
from disco_magic.isolation.turns import TURNS

if TYPE_CHECKING:
    import types
    from collections.abc import Callable


class _Reloaded(NamedTuple):
    """How a module was reloaded last.

    Attributes:
        command: session and number of the command in which a worker has done it.
        source: what was in its file.
        taken: ids of the workers that have it so.
    """

    command: tuple[int, int]
    source: sources.Source | None
    taken: set[int]


# Whoever has the turn uses it.
_reloaded: Final[WeakKeyDictionary[types.ModuleType, _Reloaded]] = WeakKeyDictionary()


def fit_reload(module: types.ModuleType) -> Callable[[], None]:
    """Let workers reload modules that they share once; `module` is `importlib`."""

    @wraps(importlib.reload)
    def reload(module: types.ModuleType) -> types.ModuleType:
        with TURNS.taken("modules are reloaded"):
            return _in_turn(replaced.below, module)

    replaced = Replaced(module, "reload", reload)
    return replace_all([replaced])


def _in_turn(
    below: Callable[[types.ModuleType], types.ModuleType], module: types.ModuleType
) -> types.ModuleType:
    me, spec = calling_worker(), spec_of(module)
    number = None if me is None else me.command
    if me is None or number is None or not isinstance(spec, ModuleSpec):
        return below(module)
    command, source = (me.session_id, number), sources.read(spec)
    last = _reloaded.get(module)
    if last is not None and (last.command, last.source) == (command, source) and me.id not in last.taken:
        last.taken.add(me.id)
        return module
    made = below(module)
    _reloaded[made] = _Reloaded(command, source, {me.id})
    return made
