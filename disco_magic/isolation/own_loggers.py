"""Levels, handlers and filters of loggers that a worker sets up are its own.

Programs set up loggers by rank: the first rank logs everything, the others errors only, each to a file. In
one process the last worker's level would apply to all workers, and every handler would get the records of
all. While any session runs, a worker finds loggers as the process has set them up, until it sets something of
one: from then on that is the worker's own, and ends with it; what a program sets ends with the program. The
process's settings stay as they were.

What the body of a library's module sets up, while a worker happens to import it, is the process's. What the
body of a worker's own module sets up stays after the program, as the module does: the next run would not
execute it again. Levels and formats of handlers are shared: a worker that changes those of the process's
handlers changes them for all. A log call that makes a record takes 5 us longer in the notebook, 10 on a
worker and 25 on one that has set something; a call that makes none, 2, 2 and 7.
"""

from __future__ import annotations

import builtins
import logging
import sys
import traceback
from itertools import filterfalse
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from weakref import WeakSet

from disco_magic.callers.current import calling_worker, is_given_up
from disco_magic.callers.namespaces import CELL_MODULE
from disco_magic.callers.per_worker import PerProgram, PerWorker
from disco_magic.callers.replaced import in_place_of, replacing

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from types import FrameType

    from disco_magic.callers.current import CallingWorker

    Settings = dict[tuple[object, str], Any]  # (logger or manager, attribute) -> value

_OWN: Final[PerWorker[Settings]] = PerWorker(dict)
_LASTING: Final[PerWorker[Settings]] = PerWorker(dict)  # set by bodies of its own modules in this run
_LAST: Final = "disabled"  # of a new logger's attributes that are here this is set once only
_ASKED: Final = PerProgram()  # those of `_made` that a worker has asked for
_made: Final[WeakSet[logging.Logger]] = WeakSet()  # by workers, not by libraries
_MUTATORS: Final = (
    "append", "remove", "clear", "extend", "insert", "pop", "reverse", "sort",
    "__iadd__", "__imul__", "__setitem__", "__delitem__",
)  # fmt: skip


def _mine() -> Settings | None:
    """Return where the caller's settings go; None: to the process. Those of a given-up thread are dropped."""
    body = _body()
    if body is not None and body.f_builtins is vars(builtins):
        return None  # of a module that all share: cells, and workers' own modules, have other builtins
    return {} if is_given_up() else _OWN.mine()


def _body() -> FrameType | None:
    """The body of a module, a program or a cell whose execution sets something; None: a thread's function."""
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 - the code that sets something
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    return frame


def _note(where: tuple[object, str], value: Any) -> None:
    """Note what the body of a worker's own module sets: of a list, what it adds."""
    body, lasting = _body(), _LASTING.mine()
    if body is None or lasting is None or is_given_up() or body.f_globals.get("__name__") == CELL_MODULE:
        return
    lasting[where] = [*lasting.get(where, ()), *value] if isinstance(value, list) else value


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
            before = self.__get__(holder)
            mine[holder, self._name] = value
            added = [each for each in value if each not in before] if isinstance(value, list) else value
            _note((holder, self._name), added)

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
        before = list(self)
        try:
            return change(self, *args, **options)
        finally:
            _note(self._where, [*filterfalse(before.__contains__, self)])

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

    @replacing(module.Manager, "getLogger")
    def get(self: logging.Manager, name: str) -> logging.Logger:
        found: logging.Logger = get.below(self, name)
        if found in _made and (me := calling_worker()) is not None:
            _ASKED.of(me)[found] = name
        return found

    get.put()

    def undo() -> None:
        get.take()
        for kind, attributes in _ATTRIBUTES.items():
            for attribute in attributes:
                delattr(kind, attribute._name)  # noqa: SLF001

    return undo


@in_place_of("_clearExistingHandlers")
def fit_clearing(below: Callable[[], None]) -> None:
    """Let a worker that configures logging close its own handlers only; in ``logging.config``."""
    mine = _OWN.mine()
    if mine is None:
        below()
    else:
        close_all(_own_handlers(mine))


@in_place_of("_handle_existing_loggers")
def fit_configuring(below: Any, existing: Iterable[str], children: Collection[str], *disable: bool) -> None:
    """Let such a worker see its own loggers only; in ``logging.config``.

    It would disable the loggers that other workers, or former programs, have made: those that it asks for
    later are new ones in a process of its own.
    """
    me = calling_worker()
    if me is not None:
        there, known = logging.root.manager.loggerDict, _ASKED.of(me)
        others = {name for name in existing if there[name] in _made and there[name] not in known}
        existing = [name for name in existing if name in children or name not in others]
    below(existing, children, *disable)


class LoggersThen(NamedTuple):
    """A worker's settings as a program of it begins."""

    settings: Settings
    lists: dict[tuple[object, str], list[Any]]  # what was in those that are lists


def loggers_now(worker: CallingWorker) -> LoggersThen:
    """Return a worker's settings as a program of it begins."""
    worker.belongings.pop(_LASTING, None)  # of former runs: that is in its settings, or was changed since
    settings = worker.belongings.get(_OWN, {}).copy()
    lists = {where: list(value) for where, value in settings.items() if isinstance(value, list)}
    return LoggersThen(settings, lists)


def restore_loggers(worker: CallingWorker, then: LoggersThen) -> list[logging.Handler]:
    """Restore `loggers_now` of before a program, and return the handlers that have ended with it."""
    mine, lasting = worker.belongings.get(_OWN, {}), worker.belongings.get(_LASTING, {})
    ended, settings = list(_own_handlers(mine)), then.settings.copy()
    for where, value in lasting.items():
        if where in mine:
            settings[where] = settings.get(where, mine[where]) if isinstance(value, list) else value
    for where, value in settings.items():
        if isinstance(value, list):
            logger, name = where
            before = then.lists.get(where, vars(logger)[name])
            added = [each for each in lasting.get(where, ()) if each in value and each not in before]
            list.__setitem__(value, slice(None), [*before, *added])
    worker.belongings[_OWN] = settings
    kept = list(_own_handlers(settings))
    return [each for each in ended if each not in kept]


def end(worker: CallingWorker) -> None:
    """Close the own handlers of a worker that has ended, as a process that ends does."""
    close_all(_own_handlers(worker.belongings.get(_OWN, {})))


def _own_handlers(mine: Settings) -> Iterator[logging.Handler]:
    """The handlers in these settings that are not the process's."""
    for (logger, name), handlers in mine.copy().items():
        if name == "handlers":
            yield from (each for each in list(handlers) if each not in vars(logger)["handlers"])


def close_all(handlers: Iterable[logging.Handler]) -> None:
    """Close handlers of a worker, as the end of a process does."""
    for each in handlers:
        _close_one(each)


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
