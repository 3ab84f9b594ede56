"""Things of which every worker has its own: random states, worlds of process groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from disco_magic.callers.current import calling_worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.callers.current import CallingWorker

_Thing = TypeVar("_Thing")


class PerWorker(Generic[_Thing]):
    """One thing per worker, which ends with it: a restarted session begins with new ones.

    A thread that takes the place of one which was given up goes on with it. What a front end has for a worker
    it does not, see `notebook.libraries.homes`.

    Args:
        make: makes it when a worker first needs it; two of its threads may do that, and one's is kept.
    """

    def __init__(self, make: Callable[[], _Thing]) -> None:
        self._make = make

    def mine(self) -> _Thing | None:
        """That of the worker whose code is calling; None outside of workers. Costs 0.2 us."""
        me = calling_worker()
        return None if me is None else self.of(me)

    def of(self, worker: CallingWorker) -> _Thing:
        """That of one worker."""
        thing: _Thing | None = worker.belongings.get(self)
        return worker.belongings.setdefault(self, self._make()) if thing is None else thing


class PerProgram(PerWorker[dict[Any, Any]]):
    """A worker's own settings, of which those that a program makes end with it."""

    def __init__(self) -> None:
        super().__init__(dict)
        _of_programs.append(self)


_of_programs: Final[list[PerProgram]] = []


def settings_now(worker: CallingWorker) -> dict[PerProgram, dict[Any, Any]]:
    """What a worker has of all `PerProgram` now."""
    return {each: dict(worker.belongings.get(each, {})) for each in _of_programs}


def restore_settings(worker: CallingWorker, then: dict[PerProgram, dict[Any, Any]]) -> None:
    """Let them be what they were: `settings_now` of then."""
    worker.belongings.update(then.items())
