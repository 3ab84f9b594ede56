"""How a worker starts processes, and what these find: its program, and its rank.

A newly started process (``spawn``, ``forkserver``) imports the main program under another name and looks
there for the functions that it is to call. A worker's functions come from ``__disco__``, which that process
does not have. So it learns, before anything else, what ``__disco__`` is:

* for a worker of a program, that program is the main one, as under torchrun, and ``__disco__`` refers to it;
* for cells, calling what they have defined raises an error that says to put it into a module. The same holds
  for what a program defines only under ``if __name__ == "__main__"``. Otherwise the process would fail while
  it reads its task, be started again, and fail again, while its parent waits.

`multiprocessing.set_start_method` is each worker's own: each program sets it once, and a second call is an
error. A worker that has set nothing uses what the process has.

Processes that `multiprocessing` forks, of a `DataLoader` for instance, begin with all that the other workers
are in the middle of. In a process of its own each worker would have none of that: it must not be taken over.
"""

from __future__ import annotations

import gc
import importlib
import inspect
import os
import sys
from functools import partial
from itertools import chain
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.current import calling_worker
from disco_magic.callers.namespaces import CELL_MODULE
from disco_magic.callers.per_worker import PerProgram
from disco_magic.callers.replaced import in_place_of
from disco_magic.isolation import own_environment, programs
from disco_magic.isolation.main_module import fit_main
from disco_magic.threads.locks import new_lock
from disco_magic.threads.stacks import forget_import, import_locks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

_BEFORE_ENV: Final = 10  # how many parameters of `Popen` precede `env`
_ALIAS: Final = "__mp_main__"  # name of the main program in such processes, and in the one that starts them
# Executed in the new process, where nothing of ours is imported.
_PROLOGUE: Final = '''
import os, sys, types

def absent(name):
    def tell(*_):
        raise RuntimeError(f"{name} {why}")
    def further(_, attribute):
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return absent(f"{name}.{attribute}")
    told = dict.fromkeys(("__call__", "__repr__", "__iter__", "__len__", "__bool__", "__getitem__"), tell)
    # What a pickle does with instances of classes that come from built-in ones, as it is read.
    reads = ("__setitem__", "__setstate__", "append", "extend", "add", "update")
    inert = dict.fromkeys(reads, lambda *_: None) | {"__new__": lambda cls, *_, **__: object.__new__(cls)}
    return Absent(name, (), {"__module__": "__disco__", "__getattr__": further, **told, **inert})

class Absent(type):
    """The class of what is not here: it can be read from a pickle, and no more."""

    def __call__(cls, *args, **options):
        if sys._getframe(1).f_globals.get("__name__") in readers:
            return object.__new__(cls)
        raise RuntimeError(f"{cls.__name__} {why}")

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return absent(f"{cls.__name__}.{name}")

class Cells(types.ModuleType):
    def __getattr__(self, name):
        if main and hasattr(sys.modules.get("__mp_main__"), name):
            return getattr(sys.modules["__mp_main__"], name)
        if name.startswith("__"):
            raise AttributeError(name)
        return self.__dict__.setdefault(name, absent(name))

sys.modules["__disco__"] = Cells("__disco__")
os.environ.update(ranks)
for name in gone:
    os.environ.pop(name, None)
'''


_OF_CELL: Final = "is defined in a cell, and other processes do not have your cells: put it into a module"
_OF_PROGRAM: Final = (
    "is not defined when other processes import the program: define it outside of"
    " `if __name__ == '__main__'`, or in a module"
)
# Modules that read what such a process is to do.
_READERS: Final = tuple(
    f"multiprocessing.{name}" for name in ("connection", "forkserver", "queues", "reduction", "spawn")
)


class _Prologue:
    """When pickled, executes `_PROLOGUE` in the process that unpickles it; otherwise does nothing."""

    def __init__(self, main: str, ranks: dict[str, str], gone: list[str]) -> None:
        why = _OF_PROGRAM if main else _OF_CELL
        self._names = {"main": main, "ranks": ranks, "gone": gone, "why": why, "readers": _READERS}

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (_PROLOGUE, self._names)


@in_place_of("get_preparation_data")
def fit_spawn(below: Callable[..., dict[str, Any]], name: str) -> dict[str, Any]:
    """Tell processes that workers start their program and rank; in ``multiprocessing.spawn``."""
    data, me = below(name), calling_worker()
    if me is None:
        return data
    execution = programs.execution_of(me)
    main, ranks, gone = "", dict[str, str](), list[str]()
    if execution is not None:
        program = execution.program
        ranks, gone = execution.environment.copy(), own_environment.removed_from(execution.environment)
        way, main = ("name", program.module) if program.module else ("path", program.path)
        for each in ("name", "path"):
            data.pop(f"init_main_from_{each}", None)
        data[f"init_main_from_{way}"] = main
    # Unpickled first: the rest, which says what is to be called, needs it.
    return {"disco_magic": _Prologue(main, ranks, gone), **data}


@in_place_of("__init__", within="Pool")
def fit_pool(below: Callable[..., None], self: Any, *args: Any, **options: Any) -> None:
    """Refuse pools whose processes cannot begin and would be started again for ever.

    In ``multiprocessing.pool``.
    """
    me, module = calling_worker(), sys.modules["multiprocessing.pool"]
    if me is not None and programs.execution_of(me) is None and not isinstance(self, module.ThreadPool):
        given = inspect.signature(below).bind(self, *args, **options).arguments
        called = given.get("initializer"), *given.get("initargs", ())
        of_cell = next(chain.from_iterable(map(_of_cells, called)), None)
        context = given.get("context") or sys.modules["multiprocessing"].get_context()
        if of_cell is not None and context.get_start_method() != "fork":
            self._state = module.INIT  # its finalizer reads that
            raise RuntimeError(f"{getattr(of_cell, '__name__', 'the initializer')} {_OF_CELL}")
    below(self, *args, **options)


def _of_cells(called: Any) -> Iterator[Any]:
    """Yield what cells have defined of a callable; of a `partial`, also of its arguments."""
    if isinstance(called, partial):
        yield from chain.from_iterable(map(_of_cells, (called.func, *called.args, *called.keywords.values())))
    elif callable(called) and getattr(called, "__module__", "") == CELL_MODULE:
        yield called


@in_place_of("__init__", within="Popen")
def fit_subprocess(below: Callable[..., None], self: Any, *args: Any, **options: Any) -> None:
    """Give processes that programs run their rank in the environment; in ``subprocess``."""
    is_given = len(args) > _BEFORE_ENV or options.get("env") is not None
    if not is_given and programs.is_executed():
        options["env"] = dict(os.environ)
    below(self, *args, **options)


@in_place_of("execv")
def fit_execv(below: Callable[..., None], path: Any, argv: Any, /) -> None:
    """Give what programs execute by `os.exec*` their rank in the environment; in ``os``.

    In a process that `os.fork` or `os.spawn*` has made, the worker is still known.
    """
    if not programs.is_executed():
        below(path, argv)
    os.execve(path, argv, dict(os.environ))  # noqa: S606 - what the user executes


@in_place_of("system")
def fit_system(below: Callable[..., int], command: Any) -> int:
    """Likewise what they execute by `os.system`: the C function would give it that of the process."""
    if not programs.is_executed():
        return below(command)
    code: int = importlib.import_module("subprocess").call(os.fspath(command), shell=True)  # noqa: S604 - as asked
    if os.name == "nt":
        return code
    return -code if code < 0 else code << 8  # as `os.wait` has it


def fit_alias(_: ModuleType) -> Callable[[], None] | None:
    """Treat the alias of the main program like ``__main__``; called once ``multiprocessing`` is imported."""
    alias = sys.modules.get(_ALIAS)
    return None if alias is None or alias is sys.modules.get("__main__") else fit_main(alias)


_OWN: Final = PerProgram()
_CHOSEN: Final = "_actual_context"
_FIRST: Final = "_default_context"


def _chosen(self: Any) -> Any:
    """The context that was set, or used first; None: not yet."""
    mine = _OWN.mine()
    return vars(self)[_CHOSEN] if mine is None else mine.get(_CHOSEN)


def _choose(self: Any, context: Any) -> None:
    mine = _OWN.mine()
    if mine is None:
        vars(self)[_CHOSEN] = context
    else:
        mine[_CHOSEN] = context


def _first(self: Any) -> Any:
    """The context that is used if none was set."""
    process = None if _OWN.mine() is None else vars(self)[_CHOSEN]
    # Since Python 3.14 it may be found only when it is asked for.
    return process or vars(self).get(_FIRST) or getattr(super(type(self), self), _FIRST)


def fit_start_methods(module: ModuleType) -> Callable[[], None]:
    """Let each worker set its own start method; `module` is ``multiprocessing.context``."""
    everybodys = vars(module)[_FIRST]
    kind = type(everybodys)
    vars(everybodys)[_CHOSEN], {**vars(kind), **vars(everybodys)}[_FIRST]
    own = {_CHOSEN: property(_chosen, _choose), _FIRST: property(_first)}
    everybodys.__class__ = type(kind.__name__, (kind,), {"__module__": kind.__module__, **own})

    def undo() -> None:
        everybodys.__class__ = kind

    return undo


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
