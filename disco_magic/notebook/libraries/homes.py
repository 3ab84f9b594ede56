"""State of a front end that every worker has for itself: its figures, its plot settings.

It outlives cells, and ends with the worker. Code of a worker finds it from the calling thread, as
`callers.current.calling_worker` finds the worker. A thread that was given up keeps its state, so that it
cannot change its successor's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary

from disco_magic.callers.current import calling_worker
from disco_magic.callers.replaced import replace_all
from disco_magic.notebook.output.streams import current_sink
from disco_magic.threads.locks import new_rlock

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.callers.current import CallingWorker
    from disco_magic.callers.replaced import Replaced

_Thing = TypeVar("_Thing")


@dataclass(eq=False, slots=True)
class Home:
    """The state of one worker.

    Attributes:
        things: `OfWorkers` -> the worker's object; filled by the worker's own threads.
        is_lost: whether the thread that uses it was given up; its successor gets a new one.
    """

    things: dict[object, Any] = field(default_factory=dict)
    is_lost: bool = False


_homes: Final[WeakKeyDictionary[CallingWorker, Home]] = WeakKeyDictionary()
# An RLock, because making a home runs Python code, and so finalizers, which may ask for a home too.
_lock: Final = new_rlock()


def home() -> Home | None:
    """The home of the calling worker; None outside of workers."""
    sink = current_sink.get()
    if sink is not None and sink.home is not None:
        return sink.home
    if sink is not None and sink.is_given_up:
        sink.home = Home()  # it had none yet, and the existing one may be its successor's
        return sink.home
    me = calling_worker()
    if me is None:
        return None
    with _lock:
        found = _homes.get(me)
        if found is not None and found.is_lost:
            _homes.pop(me, None)
            found = None
        if found is None:
            found = _homes.setdefault(me, Home())  # a finalizer may have made one since `get`
    if sink is not None and not sink.is_finished:
        sink.home = found
    return found


def replace_for_workers(replaced: list[Replaced], kept: OfWorkers[Any]) -> Callable[[], None]:
    """`replace_all`; what restores the former ones also forgets what workers have `kept` of their own."""
    take = replace_all(replaced)

    def undo() -> None:
        take()
        kept.forget()

    return undo


def of_mine(name: str) -> Any:
    """A method that is that of the calling worker's own object, which `_mine` returns."""

    def method(self: Any, *given: Any) -> Any:
        return getattr(self._mine(), name)(*given)

    method.__name__, method.__doc__ = name, f"As `{name}` of the worker's own object."
    return method


class OfWorkers(Generic[_Thing]):
    """An object per worker."""

    def __init__(self, make: Callable[[], _Thing]) -> None:
        self._make = make

    def mine(self) -> _Thing | None:
        """The calling worker's object; None outside of workers. Takes 0.3 us in a cell."""
        mine = home()
        if mine is None:
            return None
        try:
            thing: _Thing = mine.things[self]
        except KeyError:
            thing = mine.things.setdefault(self, self._make())
        return thing

    def forget(self) -> None:
        """Drop the objects of all workers."""
        with _lock:
            homes = list(_homes.values())
        for each in homes:
            each.things.pop(self, None)
