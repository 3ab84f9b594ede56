"""A session under test, the model of what it must hold, and what may explain its errors."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import disco_magic as disco
from benchmarks.chaos_faults import Array, Fault, mark_of, number_in
from disco_magic.core.ledger import is_consequence
from disco_magic.errors import PlaneAborted, UnknownName, WorkerInterrupt

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable

    from benchmarks.chaos_watch import Tally
    from disco_magic import DRef
    from disco_magic.errors import Failure

POOL = 60


@dataclass
class Held:
    """A reference and what it must hold.

    Attributes:
        life: the session's life that it belongs to.
        expected: row w is worker w's array.
        failed: workers that must have no value.
    """

    ref: DRef
    life: int
    expected: Array
    failed: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Seen:
    """An error that was raised, to be explained after the episode, when all reasons are known."""

    what: str
    failures: dict[int, Failure]
    lives: range


@dataclass
class Target:
    """One session and its model; safe from several threads.

    Attributes:
        session: the current one.
        life: even while the session is open, odd while it is being restarted or replaced.
        pool: references of this life.
        faults: by number; those that may explain errors.
    """

    workers: int
    groups: int
    max_outstanding: int
    tally: Tally
    life: int = 0
    pool: list[Held] = field(default_factory=list)
    faults: dict[int, Fault] = field(default_factory=dict)
    _seen: list[Seen] = field(default_factory=list)
    _armed: dict[int, int] = field(default_factory=dict)  # number of a fault -> life
    _stopped: dict[int, list[float]] = field(
        default_factory=dict
    )  # life -> for each worker, the last command that may have been interrupted
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _turning: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.session = self._new()

    def _new(self) -> disco.ThreadedSession:
        return disco.ThreadedSession(
            self.workers,
            self.groups,
            max_outstanding=self.max_outstanding,
            extras=lambda _: {"faults": self.faults},
        )

    @property
    def name(self) -> str:
        """``session 3 (4 workers in 2 groups)``."""
        groups = f" in {self.groups} groups" if self.groups > 1 else ""
        return f"session {self.session.id} ({self.workers} workers{groups})"

    def size(self, *, in_group: bool) -> int:
        """Return how many workers a collective has."""
        return self.workers // self.groups if in_group else self.workers

    def beside(self, workers: Iterable[int], *, in_group: bool) -> frozenset[int]:
        """Return all workers that need one of `workers` in a collective."""
        size = self.size(in_group=in_group)
        return frozenset(w // size * size + rank for w in workers for rank in range(size))

    def whereabouts(self) -> str:
        """Return what the session says its workers are doing."""
        try:
            return f"{self.session!r}\n{self.session.doctor()}"
        except disco.SessionClosed as closed:
            return str(closed)

    # --- references ------------------------------------------------------------------------------------

    def keep(self, held: Held) -> None:
        """Add a reference to the pool, unless the session was restarted meanwhile."""
        with self._lock:
            if held.life == self.life:
                self.pool.append(held)

    def pick(self, dice: random.Random) -> Held | None:
        """Return a random reference of the pool, if there is one."""
        with self._lock:
            return dice.choice(self.pool) if self.pool else None

    def drop(self, dice: random.Random, held: Held | None = None) -> Held | None:
        """Take a reference out of the pool, a random one if none is named."""
        with self._lock:
            if held is not None:
                self.pool[:] = [each for each in self.pool if each is not held]
                return held
            return self.pool.pop(dice.randrange(len(self.pool))) if self.pool else None

    # --- lives -----------------------------------------------------------------------------------------

    def turn(self, session: disco.ThreadedSession, act: Callable[[], object]) -> bool:
        """End this life of `session` with `act` and begin another; False if another thread was faster."""
        if not self._turning.acquire(blocking=False):
            return False
        try:
            if session is not self.session:
                return False
            with self._lock:
                self.stopped(self.life, range(self.workers), math.inf)
                self.life += 1
                self.pool = []
            act()
            with self._lock:
                self.life += 1
        finally:
            self._turning.release()
        return True

    def replace(self, timeout: float) -> None:
        """Shut the session down, busy or not, and start another one."""
        self.session.shutdown(timeout)
        self.session = self._new()

    def has_turned_since(self, life: int) -> bool:
        """Whether it was closed at any time since `life` was read."""
        return life % 2 == 1 or life != self.life

    # --- errors ----------------------------------------------------------------------------------------

    def arm(self, fault: Fault, life: int) -> Fault:
        """Make a fault available to cells, and as an explanation of errors."""
        self._armed[fault.number] = life
        self.faults[fault.number] = fault
        return fault

    def stopped(self, life: int, workers: Iterable[int], through: float) -> None:
        """Note that commands to `workers` up to `through`, since `life`, may have been interrupted."""
        for each in range(life, self.life + 1):
            marks = self._stopped.setdefault(each, [0.0] * self.workers)
            for worker in workers:
                marks[worker] = max(marks[worker], through)

    def note(self, what: str, error: disco.WorkerError, life: int) -> None:
        """Record an error of an operation that began in `life`."""
        began = life - life % 2  # during a restart, errors of the ending life are still raised
        self._seen.append(Seen(what, error.failures, range(began, self.life + 1)))

    def judge(self) -> None:
        """Explain all errors of an episode by its faults; called while no other thread uses the session."""
        seen, self._seen = self._seen, []
        for each in seen:
            consequences = [is_consequence(failure) for failure in each.failures.values()]
            if consequences != sorted(consequences):
                self.tally.note_wrong(
                    f"{each.what}: a consequence is named before an origin: {each.failures}"
                )
            for worker, failure in each.failures.items():
                if worker == failure.worker and self.explains(failure, each.lives):
                    self.tally.errors[type(failure.exception).__name__] += 1
                else:
                    self.tally.note_wrong(self._unexplained(each, worker, failure))
        for old in [life for life in self._stopped if life != self.life]:
            del self._stopped[old]
        for number in [number for number, life in self._armed.items() if life != self.life]:
            del self._armed[number], self.faults[number]

    def explains(self, failure: Failure, lives: range) -> bool:
        """Whether a provoked fault accounts for a failure: its class, its worker, its command."""
        error, worker = failure.exception, failure.worker
        mark = mark_of(error)
        if mark is not None:
            return mark[0] in self.faults and mark[1] in (worker, -1)
        if isinstance(error, WorkerInterrupt):
            return any(failure.seq <= self._through(life)[worker] for life in lives)
        fault = self.faults.get(number_in(failure.command) or 0)
        if fault is not None and isinstance(error, fault.allowed.get(worker, ())):
            return True
        if isinstance(error, PlaneAborted):
            origin = error.failure
            if origin is not None:
                return origin.seq <= failure.seq and self.explains(origin, lives)
            return len(lives) > 1 or "without receiving" in str(error)
        # A name bound to a reference without a value stays unbound; only an interrupt can cause that.
        harmed = any(through for life in lives for through in self._through(life))
        return isinstance(error, UnknownName) and failure.command.startswith("read register") and harmed

    def _through(self, life: int) -> list[float]:
        return self._stopped.get(life, [0.0] * self.workers)

    def _unexplained(self, seen: Seen, worker: int, failure: Failure) -> str:
        marks = {life: self._through(life)[worker] for life in seen.lives}
        return (
            f"{seen.what} on {self.name}: nothing explains {failure.summary}\n"
            f"  worker {worker} (it says {failure.worker}), command {failure.seq} {failure.command!r}, "
            f"interrupted through (by life) {marks}, origin {getattr(failure.exception, 'failure', None)}\n"
            f"{failure.traceback_text}"
        )
