"""Loops that the stop button ends between two steps.

An interrupt ends each worker wherever it is. Objects with counters, an optimizer or DDP, are then in the
midst of something, and workers may be a step apart. In a loop of steps each worker counts its own; to end it,
all are asked, at one moment, to stop before the first step that none has begun. No worker waits for that.

::

    worker 0   step 7 .......... step 8 ....... 9?  interrupted
    worker 1   step 7 ... step 8 .............. 9?  interrupted
                         ask: 8 is the last one that any worker has begun
"""

from __future__ import annotations

from operator import attrgetter, length_hint
from typing import TYPE_CHECKING, Final, Generic, TypeVar
from weakref import WeakValueDictionary

from disco_magic.errors import Interrupted, UsageMistake, WorkerInterrupt, is_told
from disco_magic.functions.calling import Calling, command_of
from disco_magic.threads.locks import new_rlock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


__tracebackhide__ = is_told

Item = TypeVar("Item")

_LOCK: Final = new_rlock()  # reentrant: a finalizer may leave a loop meanwhile


class _Count:
    """The steps that a worker has begun in the command that it executes.

    Attributes:
        command: its number.
        begun: how many steps.
        loops: how many loops of steps the worker is in.
        last: the last step to be done; None: as many as there are.
    """

    __slots__ = ("begun", "command", "last", "loops")

    def __init__(self, command: int) -> None:
        self.command, self.begun, self.loops = command, 0, 0
        self.last: int | None = None

    def begin(self) -> None:
        """Begin a step.

        Raises:
            WorkerInterrupt: it is not to be done.
        """
        with _LOCK:
            if self.last is not None and self.begun >= self.last:
                raise WorkerInterrupt.at(Interrupted.BETWEEN_STEPS, f"{self.begun:,}")
            self.begun += 1

    def take_back(self) -> None:
        """Undo `begin`: there was no such step."""
        with _LOCK:
            self.begun -= 1

    def enter(self, loops: int) -> None:
        """Note that it has entered so many loops; -1: it has left one."""
        with _LOCK:
            self.loops += loops


class _Counted:
    """What a worker counts: the steps of the last command that had any."""

    __slots__ = ("__weakref__", "count")

    def __init__(self) -> None:
        self.count: _Count | None = None


# By session and worker: after a restart the new worker's, whose commands have the same numbers again.
_PRESENT: Final[WeakValueDictionary[tuple[int, int], _Counted]] = WeakValueDictionary()


class Steps(Generic[Item]):
    """Iterates over the items, and counts; see `Stepping.steps`."""

    _is_entered = False

    def __init__(self, items: Iterable[Item], counted: Callable[[], _Count]) -> None:
        self._items, self._counted = iter(items), counted
        self._count = counted()
        self._length = length_hint(items, -1)

    def __iter__(self) -> Iterator[Item]:
        self._leave()
        self._count = self._counted()  # a later cell may go on with it
        return self

    def __next__(self) -> Item:
        if not self._is_entered:
            self._is_entered = True
            self._count.enter(1)
        self._count.begin()  # first, so that no item taken from `items` is lost
        try:
            return next(self._items)
        except StopIteration:
            self._count.take_back()
            self._leave()
            raise

    def _leave(self) -> None:
        if self._is_entered:
            self._is_entered = False
            self._count.enter(-1)

    def __del__(self) -> None:
        self._leave()  # left by `break`

    def __len__(self) -> int:
        if self._length < 0:
            raise TypeError("these items have no length")
        return self._length


class Stepping(Calling):
    """Loops in steps; mixed into `WorkerContext`."""

    session_id: int
    _steps: _Counted

    def _be_asked(self) -> None:
        """Let `ask` find this worker by its session and number, instead of one from before a restart."""
        self._steps = _PRESENT[self.session_id, self.id] = _Counted()

    def steps(self, items: Iterable[Item]) -> Steps[Item]:
        """Iterate over `items` in a loop that the stop button ends between two steps.

        ``for batch in worker.steps(batches):`` ends on all workers after the same step, if all are in such
        loops when the button, or Ctrl-C, is pressed. Models and optimizers are then in a state between two
        steps, and the next cell can go on with them. Pressed again, it stops the cell at once, as without
        such loops.

        In files it is ``disco_magic.worker.steps``, which outside of a worker returns `items` as they are.
        Each step is meant to be the same one on all workers; loops may follow and contain each other.

        Args:
            items: any iterable: ``range(100)``, a ``DataLoader``, a bar of tqdm.

        Returns:
            Steps: an iterator, with the length of `items` if that has one.

        Raises:
            UsageMistake: called in a thread that the worker has started.
            TypeError: `items` is not iterable.

        Cost: 1 us per step; no worker waits for another.

        Example:
            >>> session.run("for step in worker.steps(range(3)): total = allreduce(step)").errors
            {}
        """
        return Steps(items, self._counted)

    def _counted(self) -> _Count:
        """The count of the command that is executed."""
        try:
            command = command_of(self)
        except UsageMistake:
            raise UsageMistake(
                f"worker.steps was called in a thread that worker {self.id} has started: steps are counted in"
                " the worker's own thread only"
            ) from None
        count = self._steps.count
        if count is None or count.command != command:
            count = self._steps.count = _Count(command)
        return count


def _counts(session_id: int, workers: Sequence[int], command: int) -> dict[int, _Count]:
    """The counts of these workers, as far as they are known to execute this command."""
    there = {worker: _PRESENT.get((session_id, worker)) for worker in workers}
    counts = {worker: each.count for worker, each in there.items() if each is not None}
    return {worker: each for worker, each in counts.items() if each is not None and each.command == command}


def done(session_id: int, workers: Sequence[int], command: int) -> dict[int, int]:
    """How many steps of a command each of these workers has begun, as far as that is known."""
    return {worker: each.begun for worker, each in _counts(session_id, workers, command).items()}


def _has_asked(counts: Sequence[_Count]) -> bool:
    return any(each.last is not None for each in counts)


def ask(session_id: int, workers: Sequence[int], command: int) -> int | None:
    """Let these workers end their loops after the same step, and return which one that will be.

    None: some are not in a loop of steps of that command now, or were asked before.
    """
    with _LOCK:
        there = [*filter(attrgetter("loops"), _counts(session_id, workers, command).values())]
        if len(there) < len(workers) or _has_asked(there):
            return None
        last = max(each.begun for each in there)
        for each in there:
            each.last = last
        return last
