"""All workers' namespaces, and ``__disco__``, the one module that represents each of them.

Classes and functions made by cells have this module's name, on every worker and in every session: so what one
worker has pickled another one can load, and so can a later session, once its cells have defined the class.
The module has no names of its own. It looks names up in

1. on a worker, and in threads that it has started: that worker's namespace;
2. in other threads, if code of a cell is being executed: the namespace of the innermost such code;
3. else, as in the notebook: those of the current session, worker 0's first, then those of other sessions.

Pickle, dataclasses, `typing` and `inspect` reach it through ``sys.modules`` and need to know nothing of this.
Only cloudpickle, in whatever package, finds nothing here: what it writes is for other processes, which have
no cells, so it has to include the code of functions and classes, as it does for ``__main__``.
"""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from disco_magic.callers.current import calling_worker
from disco_magic.phrases import people

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CELL_MODULE: Final = "__disco__"
_NOTHING: Final = object()
# How many frames up to look for cloudpickle's caller: `_getattribute` may be in between.
_NEAR: Final = 2
# By session and worker. Read as a copy: sessions begin and end in any thread, and in finalizers.
_open: dict[tuple[int, int], dict[str, Any]] = {}
# Sessions that were made current, the latest first. Replaced as a whole, so that it needs no lock.
_chosen: tuple[int, ...] = ()


class _Reach(NamedTuple):
    """The namespaces in which the caller's names are looked up, in order, and a description of them."""

    namespaces: list[dict[str, Any]]
    words: str


class CellModule(types.ModuleType):
    """The module: its attributes come from a namespace."""

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        """The first namespace to be searched; an empty dictionary if no session runs."""
        namespaces = _reach().namespaces
        return namespaces[0] if namespaces else {}

    @property
    def __doc__(self) -> Any:  # type: ignore[override]
        """The first namespace's: `doctest` tests what a program says of itself."""
        return self.__dict__.get("__doc__")

    def __getattr__(self, name: str) -> Any:
        if _asks_for_other_processes(sys._getframe(1)):  # noqa: SLF001 - as in `_globals`
            raise AttributeError(f"{name!r} is not to be imported", name=name, obj=self)
        reach = _reach()
        for namespace in reach.namespaces:
            value = namespace.get(name, _NOTHING)
            if value is not _NOTHING:
                return value
        if _GIVEN is not None:
            return getattr(_GIVEN, name)
        raise AttributeError(f"{name!r} is not among {reach.words}", name=name, obj=self)

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__[name] = value

    def __delattr__(self, name: str) -> None:
        if self.__dict__.pop(name, _NOTHING) is _NOTHING:
            raise AttributeError(f"{name!r} is not among {_reach().words}", name=name, obj=self)

    def __repr__(self) -> str:
        # The only text of ours in pickle's error: "Can't get attribute 'Net' on ...".
        return f"<module {CELL_MODULE!r}: {_reach().words}; first run the cell that defines it>"


def add(session: int, worker: int) -> dict[str, Any]:
    """Make a worker's namespace; one of the same worker from before a restart is no longer found."""
    names = dict(vars(types.ModuleType(CELL_MODULE, f"Cells of worker {worker} of session {session}")))
    # Only `__main__` may have a spec of None: of other modules Python 3.15 warns as it writes a traceback, an
    # error where warnings are errors. Without the name it asks no further.
    del names["__spec__"]
    _open[session, worker] = names
    return names


def drop(session: int, worker: int, namespace: Mapping[str, Any]) -> None:
    """Forget this namespace, but not another one: a restarted session has others for the same workers."""
    if _open.get((session, worker)) is namespace:
        _open.pop((session, worker), None)


def prefer(session: int) -> None:
    """Let the notebook's own threads search this session's namespaces first."""
    global _chosen  # noqa: PLW0603 - as the current session is one for the process
    present = {number for number, _ in _open.copy()}
    _chosen = (session, *(each for each in _chosen if each != session and each in present))


def in_use() -> set[tuple[int, int]]:
    """Session and worker of every namespace."""
    return set(_open.copy())


def of_everybody() -> list[dict[str, Any]]:
    """All namespaces."""
    return list(_open.copy().values())


def of_worker(session: int, worker: int) -> list[dict[str, Any]]:
    """A worker's namespace in a list; empty if it has ended."""
    names = _open.get((session, worker))
    return [] if names is None else [names]


def beside(namespace: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """The namespaces of all workers of the session that has this one, by worker; empty if none has it."""
    everything = _open.copy()
    mine = [session for (session, _), names in everything.items() if names is namespace]
    return {worker: everything[session, worker] for session, worker in sorted(everything) if session in mine}


def session_of(namespace: Mapping[str, Any]) -> int | None:
    """The session that has this namespace; None if none has it."""
    return next((session for (session, _), names in _open.copy().items() if names is namespace), None)


def of_caller() -> list[dict[str, Any]]:
    """The calling worker's namespace in a list; empty outside of workers."""
    me = calling_worker()
    return [] if me is None else [me.namespace]


def of_session_of_caller() -> list[dict[str, Any]]:
    """All namespaces of the caller's session, worker 0's first."""
    return [names for mine in of_caller() for names in beside(mine).values()]


def found_in(namespace: Mapping[str, Any], qualname: str) -> Any:
    """The value of a qualified name, ``Net.Layer``, in a namespace; None if there is none."""
    first, *rest = qualname.split(".")
    value = namespace.get(first)
    for name in rest:
        value = getattr(value, name, None)
    return value


def is_defined(thing: Any) -> bool:
    """Whether a class or function is what its qualified name refers to on a worker now."""
    return any(found_in(names, thing.__qualname__) is thing for names in of_everybody())


def _reach() -> _Reach:
    everything = _open.copy()
    if not everything:
        return _Reach([], "what cells have defined: no session is running")
    me = calling_worker()
    if me is not None:
        # The same words on all workers, so that equal errors are shown once.
        return _Reach([me.namespace], "what cells have defined on the calling worker")
    owners = {id(names): key for key, names in everything.items()}
    code = next((key for names in _globals() if (key := owners.get(id(names)))), None)
    if code is not None:
        return _Reach([everything[code]], _words(code[0], [code[1]]))
    order = sorted(everything, key=_place)
    session = order[0][0]
    return _Reach([everything[key] for key in order], _words(session, [w for s, w in order if s == session]))


def _asks_for_other_processes(frame: types.FrameType | None) -> bool:
    """Whether cloudpickle is asking whether a function or class can be imported by its name."""
    for _ in range(_NEAR):
        if frame is None:
            return False
        home = frame.f_globals.get("__name__")
        if type(home) is str and home.endswith("cloudpickle.cloudpickle"):
            return frame.f_code.co_name in ("_lookup_module_and_qualname", "_getattribute")
        frame = frame.f_back
    return False


def _globals() -> Iterator[dict[str, Any]]:
    """Yield the globals of all frames of the calling thread, the innermost first."""
    frame: types.FrameType | None = sys._getframe(1)  # noqa: SLF001 - inspect.currentframe is the same call
    while frame is not None:
        yield frame.f_globals
        frame = frame.f_back


def _place(key: tuple[int, int]) -> tuple[int, int, int]:
    session, worker = key
    return (_chosen.index(session) if session in _chosen else len(_chosen), -session, worker)


def _words(session: int, workers: list[int]) -> str:
    return f"what cells have defined on {people(workers)} of session {session}"


# In a process that a worker has started it exists already, see `child_processes`.
_GIVEN: Final = sys.modules.get(CELL_MODULE)
sys.modules[CELL_MODULE] = CellModule(CELL_MODULE, "What cells have defined on the worker that asks.")
