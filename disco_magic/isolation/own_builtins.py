"""Functions of `builtins` that a worker replaces are its own: programs silence `print` on all ranks but one.

::

    def setup_for_distributed(is_master):
        builtin_print = builtins.print
        def print(*values, force=False, **options):
            if is_master or force: builtin_print(*values, **options)
        builtins.print = print

In one process, the function of the worker that came last would apply to all, the notebook too. So what a
worker assigns to the name of a function of `builtins` is its own, until it restores the first one or ends;
what a program assigns ends with the program. Its cells find it in the `__builtins__` of their namespace.
Modules that all workers share look into the dictionary of `builtins`, where a proxy then calls the caller's
function. There is no proxy for functions that look at their caller's frame, as `eval` does: shared modules
have the process's. Anything else that is assigned there, classes and new names, is the process's.
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
from disco_magic.callers.module_classes import ModuleOfWorkers, dictionary_of, exchange, is_tester
from disco_magic.callers.per_worker import PerWorker
from disco_magic.isolation.standing_modules import IMPORTS
from disco_magic.threads.locks import new_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from disco_magic.callers.current import CallingWorker

# They look at their caller's frame, which must not be a proxy's: shared modules have the process's.
_OF_FRAMES: Final = frozenset({"breakpoint", "dir", "eval", "exec", "globals", "locals", "vars"})
_LAST: Final = "_"  # the last value that was shown; if doctest sets it, IPython sets its own no more
_FUNCTIONS: Final = (types.BuiltinFunctionType, types.FunctionType, types.MethodType)


class _Own(NamedTuple):
    """What a worker has assigned, and what its cells found before."""

    function: Any
    before: Any


_OWN: Final[PerWorker[dict[str, _Own]]] = PerWorker(dict)
_NOTHING: Final = object()
_LOCK: Final = new_lock()  # guards what is assigned and removed
# Names of the proxies being called: a function may call what it found in `builtins`, an `_Asking`.
_inside: Final[ContextVar[tuple[str, ...]]] = ContextVar("disco_magic_builtins", default=())


class _Asking:
    """Proxy installed in place of a builtin: calls the calling worker's own function, or the process's.

    Attributes:
        process: the process's function; not `first` if code outside of workers has assigned another one.
        owners: workers that have one of their own.
    """

    def __init__(self, name: str, first: Callable[..., Any]) -> None:
        self._name = name
        self.first = self.process = first
        self.owners: set[CallingWorker] = set()
        update_wrapper(self, first)

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call the caller's function; a call from inside of it goes to the one below.

        No function of `builtins` is called here except `isinstance`: it may be what this replaces.
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
        return eval, (self._name,)  # pickled as what it replaces


_asking: Final[dict[str, _Asking]] = {}  # by name


def _read_last(module: types.ModuleType) -> Any:
    """The value that the calling worker has shown last, or what the process has there."""
    behind = _last_of_caller() or dictionary_of(module)
    if _LAST in behind:
        return behind[_LAST]
    raise AttributeError(_LAST)


def _set_last(module: types.ModuleType, value: Any) -> None:
    dictionary_of(module)[_LAST] = value


def _delete_last(module: types.ModuleType) -> None:
    if dictionary_of(module).pop(_LAST, _NOTHING) is _NOTHING:
        raise AttributeError(_LAST)


def _read(module: types.ModuleType, name: str) -> Any:
    """Return what the caller has under a name; for ``mock.patch``, which restores it, in ``__dict__``."""
    asking, me = _asking.get(name), calling_worker()
    if asking is not None:
        mine = _own_of(me, name)
        return asking.process if mine is None else mine.function
    found = types.ModuleType.__getattribute__(module, name)
    if name != "__dict__" or not is_tester(sys._getframe(1)):  # noqa: SLF001 - who asks
        return found
    return found | of_process() | ({} if me is None else now(me))


class BuiltinsOfWorkers(ModuleOfWorkers):
    """The class of `builtins` while any session runs. While there are proxies, it reads by `_read`."""

    _ = property(_read_last, _set_last, _delete_last)

    def __setattr__(self, name: str, value: Any) -> None:
        me = calling_worker()
        asking = _asking.get(name)
        if me is not None and is_given_up():
            return  # nothing that a given-up thread does reaches its worker
        if me is not None and name == _LAST and not callable(value):  # a callable is gettext's
            behind_of(me)[name] = value
        elif me is not None and (asking is not None or _is_function(name)):
            _assign(me, name, value)
        elif asking is not None:
            _assign_to_process(asking, name, value.first if type(value) is _Asking else value)
        else:
            # A proxy that somebody took from the dictionary means its function, also after its removal.
            value = value.first if type(value) is _Asking else value
            before = dictionary_of(self).get(name, _NOTHING)
            types.ModuleType.__setattr__(self, name, value)
            _offer(name, before, value)
            if IMPORTS:
                for each in list(IMPORTS.values()):
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
                f"{name} is shared by all workers: a worker can replace it for itself, but not delete it",
                name=name,
            )
        else:
            asking = _asking.get(name)
            if asking is not None:  # workers that have one of their own lose it, too
                for owner in list(asking.owners):
                    _assign(owner, name, asking.process)
            before = dictionary_of(self).get(name, _NOTHING)
            types.ModuleType.__delattr__(self, name)
            for behind in _of_cells():
                if behind.get(name) is before:
                    del behind[name]


def _assign_to_process(asking: _Asking, name: str, value: Any) -> None:
    """Assign the process's function while some workers have their own: all others get it."""
    before, asking.process = asking.process, value
    _offer(name, before, value)
    for owner in list(asking.owners):
        own = _own_of(owner, name)
        if own is not None and own.before is before:  # what that worker gets back when its own is removed
            owner.belongings[_OWN][name] = own._replace(before=value)
    if name in _OF_FRAMES:
        vars(builtins)[name] = value


def _offer(name: str, before: Any, value: Any) -> None:
    """Give `value` to cells that have found `before`; others have a proxy, or their worker's function."""
    for names in namespaces.of_everybody():
        behind = names.get("__builtins__")
        if isinstance(behind, dict) and behind.get(name, _NOTHING) is before:
            behind[name] = value


def _of_cells() -> list[dict[str, Any]]:
    """The `__builtins__` of every cell namespace: a copy of the dictionary of `builtins`, and more."""
    everybody = namespaces.of_everybody()
    # A cell may have bound that name.
    return [each for names in everybody if isinstance(each := names.get("__builtins__"), dict)]


def _last_of_caller() -> dict[str, Any]:
    """The dictionary with the last value that the calling worker has shown; empty if there is none."""
    me = calling_worker()
    behind = {} if me is None else behind_of(me)
    return behind if _LAST in behind else {}


def of_process() -> dict[str, Any]:
    """Name -> the process's function, for those that have a proxy."""
    return {name: asking.process for name, asking in _asking.copy().items()}


def _is_function(name: str) -> bool:
    is_special = name.startswith("__") or name == "isinstance"  # called by statements, or by a proxy
    # Or a proxy, if another worker has got one of its own since the caller has looked.
    return not is_special and isinstance(vars(builtins).get(name), (*_FUNCTIONS, _Asking))


def _own_of(worker: CallingWorker | None, name: str) -> _Own | None:
    mine: dict[str, _Own] | None = None if worker is None else worker.belongings.get(_OWN)
    return None if mine is None else mine.get(name)


def _assign(worker: CallingWorker, name: str, value: Any) -> None:
    with _LOCK:
        asking = _asking.get(name)
        if asking is None:
            asking = _asking[name] = _Asking(name, vars(builtins)[name])
            BuiltinsOfWorkers.__getattribute__ = _read  # type: ignore[method-assign,assignment]
            if name not in _OF_FRAMES:
                vars(builtins)[name] = asking
        imports = IMPORTS.get(worker)
        if imports is not None:
            imports.begin()  # the builtins of its own modules
        mine, behind = _OWN.of(worker), behind_of(worker)
        before = mine[name].before if name in mine else behind.get(name)
        if type(value) is _Asking and value is not asking:  # an earlier proxy, which has been removed
            value = value.first
        if value is asking or value is asking.process or value is before:
            behind[name] = before
            mine.pop(name, None)
            asking.owners.discard(worker)
            _take_away(name, asking)
        else:
            mine[name] = _Own(value, before)  # first: an interrupt leaves nothing untracked
            behind[name] = value
            asking.owners.add(worker)


def _take_away(name: str, asking: _Asking) -> None:
    """Restore the process's function if no worker has its own any more: calls of a proxy take longer."""
    if not asking.owners:
        if vars(builtins).get(name) is asking:
            vars(builtins)[name] = asking.process
        if _asking.pop(name, None) is not None and not _asking:
            del BuiltinsOfWorkers.__getattribute__


def behind_of(worker: CallingWorker) -> dict[str, Any]:
    """The `__builtins__` dictionary of a worker's cell namespace."""
    behind = worker.namespace.get("__builtins__")
    return behind if isinstance(behind, dict) else {}  # a cell may have bound that name


def now(worker: CallingWorker) -> dict[str, Any]:
    """Name -> the function that a worker has of its own."""
    return {name: own.function for name, own in worker.belongings.get(_OWN, {}).items()}


def restore(worker: CallingWorker, then: Mapping[str, Any]) -> None:
    """Restore the functions that a worker had: `now` of then."""
    for name in {*now(worker), *then}:
        _assign(worker, name, then[name] if name in then else worker.belongings[_OWN][name].before)


def leave(worker: CallingWorker) -> None:
    """Drop the functions of a worker that has ended."""
    with _LOCK:
        for name, asking in _asking.copy().items():
            asking.owners.discard(worker)
            _take_away(name, asking)


def fit_builtins(module: types.ModuleType) -> Callable[[], None]:
    """Let workers replace functions for themselves; `module` is `builtins`."""
    return exchange(module, BuiltinsOfWorkers)
