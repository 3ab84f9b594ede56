"""Things that every worker has its own of: random states, worlds of process groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from disco_magic.callers.current import calling_worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.callers.current import CallingWorker

_Thing = TypeVar("_Thing")


class PerWorker(Generic[_Thing]):
    """One thing per worker, which ends with the worker: a restarted session begins with new ones.

    A thread that replaces a given-up one keeps using it, but not a front end's things, see
    `notebook.libraries.homes`.

    Args:
        make: called when a worker first needs the thing; if two of its threads do so, one result is kept.
    """

    def __init__(self, make: Callable[[], _Thing]) -> None:
        self._make = make

    def mine(self) -> _Thing | None:
        """Return the calling worker's thing; None outside of workers. Costs 0.2 us."""
        me = calling_worker()
        return None if me is None else self.of(me)

    def of(self, worker: CallingWorker) -> _Thing:
        """Return a worker's thing."""
        thing: _Thing | None = worker.belongings.get(self)
        return worker.belongings.setdefault(self, self._make()) if thing is None else thing


class PerProgram(PerWorker[dict[Any, Any]]):
    """A worker's own settings; those that a program makes end with the program.

    Args:
        passing: whether code sets them for a while, in ``with`` blocks: a stopped cell restores these, too.
    """

    def __init__(self, *, passing: bool = False) -> None:
        super().__init__(dict)
        _of_programs.append(self)
        if passing:
            _passing.append(self)


_of_programs: Final[list[PerProgram]] = []
_passing: Final[list[PerProgram]] = []


def settings_now(worker: CallingWorker, *, passing: bool = False) -> dict[PerProgram, dict[Any, Any]]:
    """Return a copy of a worker's settings in every `PerProgram`; or only in those that are `passing`."""
    get = worker.belongings.get
    return {each: dict(get(each, ())) for each in (_passing if passing else _of_programs)}


def restore_settings(worker: CallingWorker, then: dict[PerProgram, dict[Any, Any]]) -> None:
    """Restore the settings that `settings_now` returned."""
    worker.belongings.update(then.items())
