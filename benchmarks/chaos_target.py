"""A session under fire, the model of what it must hold, and the reasons an error of it may have."""

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
        life: of the session it belongs to.
        expected: row w is worker w's array.
        failed: workers that must have no value.
    """

    ref: DRef
    life: int
    expected: Array
    failed: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Seen:
    """An error that came, to be explained when the episode is over and all reasons are known."""

    what: str
    failures: dict[int, Failure]
    lives: range


@dataclass
class Target:
    """One session and its model; safe from several threads.

    Attributes:
        session: the one of now.
        life: even while the session is open, odd while it is restarted or replaced.
        pool: references of this life.
        faults: by number; what is on its way to explain errors.
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
    )  # life -> per worker, through which command
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
        """Members of a communicator."""
        return self.workers // self.groups if in_group else self.workers

    def beside(self, workers: Iterable[int], *, in_group: bool) -> frozenset[int]:
        """Everybody who needs one of `workers` in a collective."""
        size = self.size(in_group=in_group)
        return frozenset(w // size * size + rank for w in workers for rank in range(size))

    def whereabouts(self) -> str:
        """What the session says its workers are doing."""
        try:
            return f"{self.session!r}\n{self.session.doctor()}"
        except disco.SessionClosed as closed:
            return str(closed)

    # --- references ------------------------------------------------------------------------------------

    def keep(self, held: Held) -> None:
        """Into the pool, if the session was not restarted meanwhile."""
        with self._lock:
            if held.life == self.life:
                self.pool.append(held)

    def pick(self, dice: random.Random) -> Held | None:
        """One of the pool, if there is any."""
        with self._lock:
            return dice.choice(self.pool) if self.pool else None

    def drop(self, dice: random.Random, held: Held | None = None) -> Held | None:
        """Take one out of the pool, whichever if none is named."""
        with self._lock:
            if held is not None:
                self.pool[:] = [each for each in self.pool if each is not held]
                return held
            return self.pool.pop(dice.randrange(len(self.pool))) if self.pool else None

    # --- lives -----------------------------------------------------------------------------------------

    def turn(self, session: disco.ThreadedSession, act: Callable[[], object]) -> bool:
        """End this life of `session` with `act` and begin another; False if somebody else was faster."""
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
        """Whether it was closed at some moment since `life` was read."""
        return life % 2 == 1 or life != self.life

    # --- errors ----------------------------------------------------------------------------------------

    def arm(self, fault: Fault, life: int) -> Fault:
        """Let cells find a fault, and errors be explained by it."""
        self._armed[fault.number] = life
        self.faults[fault.number] = fault
        return fault

    def stopped(self, life: int, workers: Iterable[int], through: float) -> None:
        """What was sent to `workers` up to command `through` since `life` may have been interrupted."""
        for each in range(life, self.life + 1):
            marks = self._stopped.setdefault(each, [0.0] * self.workers)
            for worker in workers:
                marks[worker] = max(marks[worker], through)

    def note(self, what: str, error: disco.WorkerError, life: int) -> None:
        """An error came from an operation that began in `life`."""
        began = life - life % 2  # while it is turned, errors of the life that ends still come
        self._seen.append(Seen(what, error.failures, range(began, self.life + 1)))

    def judge(self) -> None:
        """Explain all errors of an episode, by what was provoked in it; nobody uses the session meanwhile."""
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
        """Whether something that was provoked accounts for a failure: its class, its worker, its command."""
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
        # A name that was bound to a reference without a value is not bound; nobody may have harmed it else.
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
