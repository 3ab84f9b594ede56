"""Modules that all workers share, imported or reloaded by several workers at once.

``transformers`` replaces itself while it is imported: its body puts another object into `sys.modules`. A
thread that finds the first object there, still being executed, waits until that is over and then continues
with what it has found, an empty shell: ``cannot import name 'GPT2Config'``. Python works like that, and
programs with one thread never see it; but all workers begin with the same imports. So such a shell passes
attribute lookups on to the module that took its place. If the import has failed, a thread that has waited
imports it again, and fails as well. All imports pass through here, so the contents of their files are noted
here, too; see `sources`.

``importlib.reload`` executes such a module once, as an import does. Python's own function returns at once if
another thread is reloading the module, to break cycles of modules that reload each other. So when workers
reloaded one in a cell, most continued with its old contents. Here the caller waits for its turn. If another
worker has reloaded the same file in the same command, its result is used: executing the module for each
worker would replace the classes that the first one has already used.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

from disco_magic.callers.current import calling_worker
from disco_magic.callers.module_classes import spec_of
from disco_magic.callers.replaced import in_place_of, replace_all, replacing
from disco_magic.isolation import sources
from disco_magic.isolation.worker_mutex import WORKER_MUTEX
from disco_magic.libraries import read_import_path

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


_ASKED: Final = "__getattr__"  # called by Python for an attribute that a module lacks


def fit_imports(module: types.ModuleType) -> Callable[[], None]:
    """Let several workers import such modules; `module` is ``importlib._bootstrap``.

    The functions replaced there are not on the stack while the body of a module is imported: otherwise frames
    of ours would be in each of its tracebacks.
    """
    begun: WeakValueDictionary[str, types.ModuleType] = WeakValueDictionary()

    @replacing(module, "module_from_spec")
    def module_from_spec(spec: ModuleSpec) -> types.ModuleType:
        made: types.ModuleType = module_from_spec.below(spec)
        with suppress(TypeError):  # what its loader makes may be no module, or allow no weak references
            begun[spec.name] = made
            sources.note(made, sources.read(spec))
        return made

    @replacing(module, "_exec")
    def execute(spec: ModuleSpec, reloaded: types.ModuleType) -> types.ModuleType:
        source = sources.read(spec)
        made: types.ModuleType = execute.below(spec, reloaded)
        sources.note(made, source)  # only on success: otherwise it is what it was
        return made

    @replacing(module, "_lock_unlock_module")
    def wait(name: str) -> None:
        wait.below(name)
        shell = begun.get(name)
        if shell is None:
            return
        present = sys.modules.get(name, shell)
        if name not in sys.modules:
            present = vars(module)["_gcd_import"](name)
        if present is not shell and present is not None:
            vars(shell).setdefault(_ASKED, lambda attribute: getattr(sys.modules[name], attribute))

    read_import_path()  # imports a module, through `sysconfig`: that must not happen inside of `note`
    return replace_all([module_from_spec, execute, wait])
