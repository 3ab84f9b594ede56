"""Which worker has registers of which names, as far as the controller knows without asking."""

from __future__ import annotations

from dataclasses import dataclass
from operator import is_not
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from disco_magic.core.messages import CellDone, NotBound


@dataclass(frozen=True, slots=True)
class _Renamed:
    """A name bound or dropped by the controller while cells sent before it still run."""

    seq: int
    name: str
    workers: frozenset[int]
    bound: bool

    def applied(self, names: tuple[str, ...]) -> tuple[str, ...]:
        if not self.bound:
            return tuple(name for name in names if name != self.name)
        return names if self.name in names else (*names, self.name)


class KnownNames:
    """Named registers of all workers; a part of the `Ledger`.

    Args:
        num_workers: how many workers.
        outstanding: sequence numbers of commands whose ends are not known of all workers.

    Attributes:
        by_worker: worker id -> names of its registers, in the order they were bound.
        lost: names that restarts took, as long as nothing has bound them again.
    """

    def __init__(self, num_workers: int, outstanding: Callable[[], Sequence[int]]) -> None:
        self.by_worker: dict[int, tuple[str, ...]] = dict.fromkeys(range(num_workers), ())
        self.lost: frozenset[str] = frozenset()
        self._outstanding = outstanding
        self._known: tuple[list[tuple[str, ...]], dict[str, None]] = [], {}  # as last seen, their union
        self._renamed: list[_Renamed] = []
        # Worker -> name -> the last command that binds it there, since the last cell that has ended.
        self._bound: dict[int, dict[str, int]] = {worker: {} for worker in self.by_worker}
        self._last = -1  # of these commands

    def known(self) -> dict[str, None]:
        """Names that at least one worker has, in the order they were bound; not to be changed.

        Cached: a caller may ask for each of thousands of names.
        """
        held, (seen, known) = list(self.by_worker.values()), self._known
        if len(held) != len(seen) or any(map(is_not, held, seen)):
            known = dict.fromkeys(name for names in held for name in names)
            self._known = held, known  # in one step: any thread may call this
        return known

    def holders(self, name: str) -> list[int]:
        """The workers that have a register of this name."""
        return [worker for worker, names in self.by_worker.items() if name in names]

    def bind(self, seq: int, name: str, workers: Iterable[int]) -> None:
        """Record that the controller's command `seq` binds `name` on `workers`."""
        change = _Renamed(seq, name, frozenset(workers), bound=True)
        self._last = seq
        self.lost -= {name}
        for worker in change.workers:
            self._bound[worker][name] = seq
        self._rename(change)

    def not_bound(self, event: NotBound) -> None:
        """Take back that a command has bound a name on a worker, unless a later one does."""
        worker, seq, name = event
        if self._bound[worker].get(name) == seq:
            self.by_worker[worker] = tuple(each for each in self.by_worker[worker] if each != name)

    def drop(self, seq: int, name: str, workers: Iterable[int]) -> None:
        """Record that the controller's command `seq` drops `name` on `workers`."""
        self._rename(_Renamed(seq, name, frozenset(workers), bound=False))

    def cell_ended(self, done: CellDone) -> None:
        """Take the names from the end of a cell, and reapply what the controller changed after sending it."""
        names = done.names
        for change in self._renamed:
            if change.seq > done.seq and done.worker in change.workers:
                names = change.applied(names)
        self.by_worker[done.worker] = names
        if self.lost:  # seldom, and then not for long
            self.lost = self.lost.difference(names)
        if self._last < done.seq:
            self._bound[done.worker].clear()

    def settle(self) -> None:
        """Forget changes that all earlier cells know of; to be called as commands end."""
        if self._renamed:
            outstanding = self._outstanding()
            self._renamed = [c for c in self._renamed if outstanding and c.seq > min(outstanding)]

    def _rename(self, change: _Renamed) -> None:
        for worker in change.workers:
            self.by_worker[worker] = change.applied(self.by_worker[worker])
        if self._outstanding():
            self._renamed.append(change)
