"""Levels, handlers and filters of loggers that a worker sets up are its own.

Programs set up loggers by rank: the first rank logs everything, the others errors only, each to a file. In
one process the last worker's level would apply to all workers, and every handler would get the records of
all. While any session runs, a worker finds loggers as the process has set them up, until it sets something of
one: from then on that is the worker's own, and ends with it. The process's settings stay as they were.

What the body of a library's module sets up, while a worker happens to import it, is the process's. Levels and
formats of handlers are shared: a worker that changes those of the process's handlers changes them for all. A
log call that makes a record takes 5 us longer in the notebook, 10 on a worker and 25 on one that has set
something; a call that makes none, 2, 2 and 7.
"""

from __future__ import annotations

import builtins
import logging
import sys
import traceback
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from disco_magic.callers.current import calling_worker, is_given_up
from disco_magic.callers.per_worker import PerProgram, PerWorker
from disco_magic.callers.replaced import Replaced, replace_all

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from types import FrameType, ModuleType

    from disco_magic.callers.current import CallingWorker

    Settings = dict[tuple[object, str], Any]  # (logger or manager, attribute) -> value

_OWN: Final[PerWorker[Settings]] = PerWorker(dict)
_LAST: Final = "disabled"  # of a new logger's attributes that are here this is set once only
_ASKED: Final = PerProgram()  # those of `_made` that a worker has asked for
_made: Final[WeakSet[logging.Logger]] = WeakSet()  # by workers, not by libraries
_MUTATORS: Final = (
    "append", "remove", "clear", "extend", "insert", "pop", "reverse", "sort",
    "__iadd__", "__imul__", "__setitem__", "__delitem__",
)  # fmt: skip


def _mine() -> Settings | None:
    """Return where the caller's settings go; None: to the process. Those of a given-up thread are dropped."""
    if _is_of_library():
        return None
    return {} if is_given_up() else _OWN.mine()


def _is_of_library() -> bool:
    """Whether the body of a module that all workers share is being executed."""
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 - the code that sets something
    while frame is not None:
        if frame.f_code.co_name == "<module>":
            return frame.f_builtins is vars(builtins)  # cells, and workers' own modules, have other builtins
        frame = frame.f_back
    return False


class _Attribute:
    """An attribute of a class's instances that each worker may set for itself."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, holder: Any, kind: type | None = None) -> Any:
        if holder is None:
            raise AttributeError(self._name)
        mine = _OWN.mine()
        if mine and (holder, self._name) in mine:
            return mine[holder, self._name]
        return self._of_process(holder)

    def __set__(self, holder: Any, value: Any) -> None:
        is_there = self._name in vars(holder)  # otherwise it is being made
        mine = _mine() if is_there or self._name == _LAST else None
        if mine is None or not is_there:
            vars(holder)[self._name] = value
            if mine is not None:
                _made.add(holder)
        else:
            mine[holder, self._name] = value

    def _of_process(self, holder: Any) -> Any:
        try:
            return vars(holder)[self._name]
        except KeyError:
            raise AttributeError(self._name) from None


class _List(_Attribute):
    """An attribute that is a list, which a worker makes its own by changing it."""

    def __get__(self, holder: Any, kind: type | None = None) -> Any:
        found = super().__get__(holder, kind)
        views = _VIEWS.mine() if found is vars(holder)[self._name] else None
        return found if views is None else self._seen(views, found, holder)

    def _seen(self, views: dict[tuple[object, str], _Seen], everyones: list[Any], holder: Any) -> _Seen:
        # The same list as long as the process's is the same: code that holds it sees additions and removals.
        seen = views.get((holder, self._name))
        if seen is None or seen._everyones is not everyones:  # noqa: SLF001
            seen = views[holder, self._name] = _Seen(everyones, holder, self._name)
        elif seen != everyones:
            list.__setitem__(seen, slice(None), everyones)
        return seen


class _Seen(list[Any]):
    """The process's list, as a worker finds it."""

    def __init__(self, everyones: list[Any], holder: Any, name: str) -> None:
        super().__init__(everyones)
        self._everyones, self._where = everyones, (holder, name)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return list, (list(self),)  # a copy belongs to no worker


_VIEWS: Final[PerWorker[dict[tuple[object, str], _Seen]]] = PerWorker(dict)


def _changing(name: str) -> Callable[..., Any]:
    change = getattr(list, name)

    def changing(self: _Seen, *args: Any, **options: Any) -> Any:
        mine = _mine()
        if mine is None:
            return change(self._everyones, *args, **options)
        mine.setdefault(self._where, self)
        return change(self, *args, **options)

    return changing


for _name in _MUTATORS:
    setattr(_Seen, _name, _changing(_name))


class _Cache(_Attribute):
    """The cache of enabled levels of a logger, used by callers that have no settings of their own."""

    def __get__(self, holder: Any, kind: type | None = None) -> Any:
        return {} if _OWN.mine() else super().__get__(holder, kind)

    def __set__(self, holder: Any, value: Any) -> None:
        vars(holder)[self._name] = value


_ATTRIBUTES: Final[dict[type, tuple[_Attribute, ...]]] = {
    logging.Logger: (
        *map(_Attribute, ("level", "disabled", "propagate")),
        *map(_List, ("handlers", "filters")),
        _Cache("_cache"),
    ),
    logging.Manager: (_Attribute("_disable"),),
}


def fit_loggers(module: Any) -> Callable[[], None]:
    """Let each worker set up loggers for itself; `module` is ``logging``."""
    for kind, holder in ((module.Logger, module.root), (module.Manager, module.root.manager)):
        for attribute in _ATTRIBUTES[kind]:
            attribute._of_process(holder)  # noqa: SLF001 - raises if there is none
    for kind, attributes in _ATTRIBUTES.items():
        for attribute in attributes:
            setattr(kind, attribute._name, attribute)  # noqa: SLF001

    def get(self: logging.Manager, name: str) -> logging.Logger:
        found: logging.Logger = asked.below(self, name)
        if found in _made and (me := calling_worker()) is not None:
            _ASKED.of(me)[found] = name
        return found

    asked = Replaced(module.Manager, "getLogger", get)
    asked.put()

    def undo() -> None:
        asked.take()
        for kind, attributes in _ATTRIBUTES.items():
            for attribute in attributes:
                delattr(kind, attribute._name)  # noqa: SLF001

    return undo


def fit_configuring(module: ModuleType) -> Callable[[], None]:
    """Let a worker that configures logging see its own loggers and handlers only.

    It would disable the loggers that other workers, or former programs, have made: those that it asks for
    later are new ones in a process of its own. `module` is ``logging.config``.
    """

    def clear() -> None:
        mine = _OWN.mine()
        if mine is None:
            cleared.below()
        else:
            _close(mine)

    def handle(existing: Iterable[str], children: Collection[str], disable: bool) -> None:  # noqa: FBT001 - as there
        me = calling_worker()
        if me is not None:
            there, known = logging.root.manager.loggerDict, _ASKED.of(me)
            others = {name for name in existing if there[name] in _made and there[name] not in known}
            existing = [name for name in existing if name in children or name not in others]
        handled.below(existing, children, disable)

    cleared = Replaced(module, "_clearExistingHandlers", clear)
    handled = Replaced(module, "_handle_existing_loggers", handle)
    return replace_all([cleared, handled])


def end(worker: CallingWorker) -> None:
    """Close the own handlers of a worker that has ended, as a process that ends does."""
    mine = worker.belongings.get(_OWN)
    if mine:
        _close(mine)


def _close(mine: Settings) -> None:
    """Close the handlers in these settings that are not the process's."""
    for (logger, name), handlers in mine.copy().items():
        if name == "handlers":
            for handler in handlers:
                if handler not in vars(logger)["handlers"]:
                    _close_one(handler)


def _close_one(handler: Any) -> None:
    lock = getattr(handler, "lock", None)
    if lock is not None and not lock.acquire(blocking=False):
        return  # a thread that was given up may hold it for ever
    try:
        handler.flush()
        handler.close()
    except (OSError, ValueError):
        pass  # its stream is closed already: `logging.shutdown` ignores that, too
    except Exception:  # noqa: BLE001 - reported as handlers report their errors; the others have to be closed
        if logging.raiseExceptions:
            traceback.print_exc()
    finally:
        if lock is not None:
            lock.release()
