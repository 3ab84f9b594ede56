"""What a trial has at hand: a session, what will fail, gates, and further threads of the controller."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import disco_magic as disco
from disco_magic.session import pump
from disco_magic.threads.stacks import frame_of
from tests.faults.kinds import KINDS
from tests.faults.stages import AT_ONCE, DEADLINE_S, here
from tests.faults.ways import error_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future, ThreadPoolExecutor

    from disco_magic.session.session import Session
    from tests.faults.matrix import Case

# The most that a moment needs: one that shuts the session down or waits too, and one that opens the gate.
NUM_THREADS = 2


class DisagreementError(AssertionError):
    """A session did not do what the matrix expects of it."""


def agree(what: str, seen: object, expected: object) -> None:
    """Raise if they differ; no `assert`, which only pytest would explain."""
    if seen != expected:
        raise DisagreementError(f"{what}: expected {expected!r}, got {seen!r}")


@dataclass(frozen=True)
class Outcome:
    """How a wait ended, and when, on the monotonic clock."""

    error: BaseException | None
    ended: float


def outcome_of(wait: Callable[[], object]) -> Outcome:
    """Call `wait`; whatever it raises is part of the outcome."""
    try:
        wait()
    except BaseException as error:  # noqa: BLE001 - which one it is, is what a trial asks
        # Without its traceback, whose frames hold references, and so registers. A frozen one refuses the
        # assignment.
        return Outcome(BaseException.with_traceback(error, None), time.monotonic())
    return Outcome(None, time.monotonic())


def until(condition: Callable[[], bool], what: str) -> None:
    """Return when `condition` holds; some other thread is about to bring it about."""
    pause = threading.Event()
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"it did not come within {DEADLINE_S:g} s: {what}")
        pause.wait(0.0002)


class Second:
    """A second thread of the controller that waits."""

    def __init__(self, pool: ThreadPoolExecutor, wait: Callable[[], object]) -> None:
        self._thread: SimpleQueue[int] = SimpleQueue()
        self._outcome: Future[Outcome] = pool.submit(self._work, wait)

    def _work(self, wait: Callable[[], object]) -> Outcome:
        self._thread.put(threading.get_ident())
        return outcome_of(wait)

    @property
    def thread(self) -> int:
        """Its identity; waits until it has begun. To be asked once."""
        return self._thread.get(timeout=DEADLINE_S)

    def outcome(self) -> Outcome:
        """How it ended; waits for it."""
        return self._outcome.result(DEADLINE_S)


class Scene:
    """One trial's belongings.

    Attributes:
        case, session: what is tried with what.
        stage: what fails.
        gate: where it stops before it fails.
        hold: keeps workers busy meanwhile.
        main: identity of the thread that made this.
        outcomes: how the controller's waits ended; if the stage has a handle of its own, that one is first.
    """

    def __init__(
        self, case: Case, session: Session, pool: ThreadPoolExecutor, *, meets: bool = False
    ) -> None:
        self.case = case
        self.session = session
        self.gate = KINDS[case.kind].gate()
        self.hold = KINDS[case.kind].gate()
        self.stage = case.what(error_of(case.way), case.where.failing, self.gate, meets=meets)
        if self.stage.begins == AT_ONCE:
            self.gate.open()  # nobody else could
        self.outcomes: list[Outcome] = []
        self.main = threading.get_ident()
        self._pool = pool

    def close(self) -> None:
        """Let everybody go who stands at a gate. Idempotent."""
        self.gate.open()
        self.hold.open()

    def forget(self) -> None:
        """Let go of whatever keeps a register."""
        self.outcomes.clear()
        self.stage.ref = None
        BaseException.with_traceback(self.stage.error, None)

    def later(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        """Call it in another thread of the controller."""
        return self._pool.submit(function, *args)

    def second(self, wait: Callable[[], object]) -> Second:
        """Wait in another thread of the controller."""
        return Second(self._pool, wait)

    def listen(self, wait: Callable[[], object]) -> None:
        """Wait, and note how that ends."""
        self.outcomes.append(outcome_of(wait))

    def sync(self) -> None:
        """Wait for all workers."""
        self.session.sync_all(DEADLINE_S)

    # --- forcing an order ------------------------------------------------------------------------------

    def until_failing(self) -> None:
        """Return when all that will fail are about to."""
        self.gate.arrived(len(self.case.where.failing))

    def until_failed(self) -> None:
        """Return when all that will fail have."""
        wanted = len(self.case.where.failing)
        until(lambda: self.stage.fired.qsize() == wanted, "everything fails that should")

    def until_meeting(self, workers: int) -> None:
        """Return when so many workers wait in a collective."""
        until(lambda: KINDS[self.case.kind].meeting(self.session) == workers, "workers wait in a collective")

    def until_waiting(self, *threads: int) -> None:
        """Return when these threads wait in the session."""
        for thread in threads:
            until(lambda thread=thread: _waits(thread), "the controller waits")  # type: ignore[misc]

    def failures(self) -> list[float]:
        """When it failed on each worker, on the monotonic clock."""
        times = []
        try:
            while True:
                times.append(self.stage.fired.get_nowait())
        except Empty:
            return times


def _waits(thread: int) -> bool:
    frame = frame_of(thread)
    return frame is not None and frame.f_code is pump.take.__code__


def together() -> int:
    """What a worker does with all others."""
    return int(disco.worker().allreduce(1))


def alone() -> int | None:
    """What every worker can do at any time."""
    return here()
