"""Functions of `builtins` that a worker replaces: `print`, which programs silence on all ranks but the first.

::

    def setup_for_distributed(is_master):
        builtin_print = builtins.print
        def print(*values, force=False, **options):
            if is_master or force: builtin_print(*values, **options)
        builtins.print = print

In one process, the function of the worker that came last would be everybody's, the notebook's too. So what a
worker assigns to the name of a function of `builtins` is its own, until it puts the first one back or ends; a
program's ends with the program. Its cells find it behind their namespace. Modules that all have in common
look into the dictionary of `builtins`, where from then on is what asks who calls; but not for functions that
look at the frame that calls them, as `eval` does: such modules have the process's. All else that
is assigned there, classes and new names, is the process's.
"""

from __future__ import annotations

import builtins
import sys
import types
from contextvars import ContextVar
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from disco_magic.callers import namespaces
from disco_magic.callers.current import calling_worker, is_given_up
from disco_magic.callers.module_classes import ModuleOfWorkers, exchange, is_tester, put_back
from disco_magic.callers.per_worker import PerWorker
from disco_magic.isolation.own_modules import Importer
from disco_magic.isolation.standing_modules import IMPORTS
from disco_magic.locks import new_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from disco_magic.callers.current import CallingWorker

# They look at the frame that calls them, which must not be ours: modules that all share have the process's.
_OF_FRAMES: Final = frozenset({"breakpoint", "dir", "eval", "exec", "globals", "locals", "vars"})
_LAST: Final = "_"  # the last value that was shown; what doctest puts there ends IPython's own
_FUNCTIONS: Final = (types.BuiltinFunctionType, types.FunctionType, types.MethodType)


class _Own(NamedTuple):
    """What a worker has put there, and what its cells found before."""

    function: Any
    before: Any


_OWN: Final[PerWorker[dict[str, _Own]]] = PerWorker(dict)
_NOTHING: Final = object()
_LOCK: Final = new_lock()  # of what is put there and taken away
# Those that are being called: one may call what it found in the dictionary of `builtins`, an `_Asking`.
_inside: Final[ContextVar[tuple[str, ...]]] = ContextVar("disco_magic_builtins", default=())


class _Asking:
    """In the place of a function: calls that of the calling worker, or the process's.

    Args:
        name: of the function.
        first: the function itself.

    Attributes:
        process: the process's; another one if somebody who is no worker has assigned it.
        owners: workers that have one of their own.
    """

    def __init__(self, name: str, first: Callable[..., Any]) -> None:
        self._name = name
        self.first = self.process = first
        self.owners: set[CallingWorker] = set()
        update_wrapper(self, first)

    def __call__(self, *args: Any, **options: Any) -> Any:
        """What is asked for from inside of it is the one below.

        Nothing of `builtins` is called here but `isinstance`: it may be what this stands for.
        """
        mine = _own_of(calling_worker(), self._name)
        functions = (self.process, self.first) if mine is None else (mine.function, self.process, self.first)
        inside = _inside.get()
        level = inside.count(self._name)
        token = _inside.set((*inside, self._name))
        try:
            return functions[: level + 1][-1](*args, **options)
        finally:
            _inside.reset(token)

    def __repr__(self) -> str:
        return repr(self.process)

    def __reduce__(self) -> tuple[Any, ...]:
        return eval, (self._name,)  # pickled as what it stands for


_asking: Final[dict[str, _Asking]] = {}  # by name


class BuiltinsOfWorkers(ModuleOfWorkers):
    """The class of `builtins` as long as any session runs."""

    def __getattribute__(self, name: str) -> Any:
        asking = _asking.get(name)
        if asking is None:
            behind = _last_of_caller() if name == _LAST else {}
            if behind:
                return behind[name]
            found = types.ModuleType.__getattribute__(self, name)
            return found if name != "__dict__" else _dictionary(found, sys._getframe(1))  # noqa: SLF001 - who asks
        mine = _own_of(calling_worker(), name)
        return asking.process if mine is None else mine.function

    def __setattr__(self, name: str, value: Any) -> None:
        me = calling_worker()
        asking = _asking.get(name)
        if is_given_up():
            return  # nothing of that thread reaches its worker any more
        if me is not None and name == _LAST and not callable(value):  # else it is that of gettext
            behind_of(me)[name] = value
        elif me is not None and (asking is not None or _is_function(name)):
            _assign(me, name, value)
        elif asking is not None:
            _assign_to_process(asking, name, value.first if type(value) is _Asking else value)
        else:
            # What somebody took from the dictionary stands for a function, also when it is there no more.
            value = value.first if type(value) is _Asking else value
            before = vars(builtins).get(name, _NOTHING)
            types.ModuleType.__setattr__(self, name, value)
            _offer(name, before, value)
            for each in list(IMPORTS.values()):
                if isinstance(each, Importer):
                    each.offer({name: value})

    def __delattr__(self, name: str) -> None:
        me = calling_worker()
        if is_given_up():
            return
        if me is not None and _own_of(me, name) is not None:
            _assign(me, name, _asking[name].process)
        elif name == _LAST and (behind := _last_of_caller()):
            del behind[name]
        elif me is not None and (name in _asking or _is_function(name)):
            raise AttributeError(
                f"{name} is everybody's: a worker can replace it, not take it away", name=name
            )
        else:
            asking = _asking.get(name)
            if asking is not None:  # it is taken from those, too, that have one of their own
                for owner in list(asking.owners):
                    _assign(owner, name, asking.process)
            before = vars(builtins).get(name, _NOTHING)
            types.ModuleType.__delattr__(self, name)
            for behind in _of_cells():
                if behind.get(name) is before:
                    del behind[name]


def _assign_to_process(asking: _Asking, name: str, value: Any) -> None:
    """The notebook assigns what some workers have of their own: it is what all others have."""
    before, asking.process = asking.process, value
    _offer(name, before, value)
    for owner in list(asking.owners):
        own = _own_of(owner, name)
        if own is not None and own.before is before:  # what that worker has again when its own is gone
            owner.belongings[_OWN][name] = own._replace(before=value)
    if name in _OF_FRAMES:
        vars(builtins)[name] = value


def _offer(name: str, before: Any, value: Any) -> None:
    """Let cells find it that have found what was there before; others have one of ours, or their worker's."""
    for behind in _of_cells():
        if behind.get(name, _NOTHING) is before:
            behind[name] = value


def _of_cells() -> Iterator[dict[str, Any]]:
    """What lies behind all namespaces of cells: a copy of the dictionary of `builtins`, and more."""
    for namespace in namespaces.of_everybody():
        behind = namespace.get("__builtins__")
        if isinstance(behind, dict):  # a cell may have bound it
            yield behind


def _dictionary(found: dict[str, Any], frame: types.FrameType) -> dict[str, Any]:
    """What ``mock.patch`` takes to be what it is to put back: the functions that the caller has."""
    if not is_tester(frame):
        return found
    me = calling_worker()
    return found | of_process() | ({} if me is None else now(me))


def _last_of_caller() -> dict[str, Any]:
    """Where the calling worker has the last value that was shown; empty if it has none."""
    me = calling_worker()
    behind = {} if me is None else behind_of(me)
    return behind if _LAST in behind else {}


def of_process() -> dict[str, Any]:
    """The process's functions, by name, of those in whose place something else asks who calls."""
    return {name: asking.process for name, asking in list(_asking.items())}


def _is_function(name: str) -> bool:
    is_special = name.startswith("__") or name == "isinstance"  # what statements call, and who asks, below
    return not is_special and isinstance(vars(builtins).get(name), _FUNCTIONS)


def _own_of(worker: CallingWorker | None, name: str) -> _Own | None:
    mine: dict[str, _Own] | None = None if worker is None else worker.belongings.get(_OWN)
    return None if mine is None else mine.get(name)


def _assign(worker: CallingWorker, name: str, value: Any) -> None:
    with _LOCK:
        asking = _asking.get(name)
        if asking is None:
            asking = _asking[name] = _Asking(name, vars(builtins)[name])
            if name not in _OF_FRAMES:
                vars(builtins)[name] = asking
        imports = IMPORTS.get(worker)
        if isinstance(imports, Importer):
            imports.begin()  # its modules have builtins of their own
        mine, behind = _OWN.of(worker), behind_of(worker)
        before = mine[name].before if name in mine else behind.get(name)
        if type(value) is _Asking and value is not asking:  # of before; it was taken away since
            value = value.first
        if value is asking or value is asking.process or value is before:
            behind[name] = before
            mine.pop(name, None)
            asking.owners.discard(worker)
            _take_away(name, asking)
        else:
            mine[name] = _Own(value, before)  # first: what strikes here leaves nothing that nobody knows of
            behind[name] = value
            asking.owners.add(worker)


def _take_away(name: str, asking: _Asking) -> None:
    """Put the process's function back, if nobody has another one any more: calls of it take longer."""
    if not asking.owners:
        if vars(builtins).get(name) is asking:
            vars(builtins)[name] = asking.process
        _asking.pop(name, None)


def behind_of(worker: CallingWorker) -> dict[str, Any]:
    """What lies behind the namespace of a worker's cells."""
    behind = worker.namespace.get("__builtins__")
    return behind if isinstance(behind, dict) else {}  # a cell may have bound it


def now(worker: CallingWorker) -> dict[str, Any]:
    """What a worker has of its own now, by name."""
    return {name: own.function for name, own in worker.belongings.get(_OWN, {}).items()}


def restore(worker: CallingWorker, then: Mapping[str, Any]) -> None:
    """Let it be what it was at another time: `now` of then."""
    for name in {*now(worker), *then}:
        _assign(worker, name, then[name] if name in then else worker.belongings[_OWN][name].before)


def leave(worker: CallingWorker) -> None:
    """A worker has ended, and what it has of its own with it."""
    with _LOCK:
        for name, asking in list(_asking.items()):
            asking.owners.discard(worker)
            _take_away(name, asking)


def begin() -> None:
    """From now on it is so. Idempotent."""
    exchange(builtins, BuiltinsOfWorkers)


def end() -> None:
    """No more. Idempotent."""
    put_back(builtins, BuiltinsOfWorkers)
