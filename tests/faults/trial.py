"""One case tried: who got which error, whether anything else was disturbed, and how long the error took."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from disco_magic.errors import PlaneAborted, WorkerError
from tests.faults.kinds import KINDS
from tests.faults.matrix import MEETING, SHUTDOWN, TWO
from tests.faults.moments import MOMENTS
from tests.faults.scene import NUM_THREADS, DisagreementError, Outcome, Scene, agree, alone, outcome_of
from tests.faults.stages import DEADLINE_S, Finalizer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disco_magic.errors import Failure
    from disco_magic.session.session import Session
    from tests.faults.matrix import Case, Expected


class Trials:
    """Tries cases, one after the other in the same sessions: a case that harms the next one has failed."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, int], Session] = {}
        self._pool = _pool()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for session in self._sessions.values():
            session.shutdown(0.0)
        self._pool.shutdown()

    def try_case(self, case: Case) -> float:
        """Let it fail.

        Returns:
            Seconds from the first failure to the error, or to the end of the wait if nobody gets one.

        Raises:
            DisagreementError, TimeoutError: what was expected did not come. The next case gets a new session.
        """
        key = (case.kind, case.where.num_workers)
        session = self._sessions.pop(key, None) or KINDS[case.kind].start(case.where.num_workers)
        try:
            seconds = self._try(case, session)
        except BaseException:
            session.shutdown(0.0)
            self._pool.shutdown(wait=False)  # a thread of it may still wait
            self._pool = _pool()
            raise
        self._sessions[key] = session
        return seconds

    def _try(self, case: Case, session: Session) -> float:
        scene = Scene(case, session, self._pool, meets=case.moment == MEETING)
        with _unraisable() as ignored:
            try:
                scene.stage.prepare(session)
                MOMENTS[case.moment](scene)
            finally:
                scene.close()
            seconds = _verdict(scene, case.expected)
            _registers(scene, case.expected)
            scene.forget()
            _aftermath(session)
        # Python tells of what a finalizer raises by itself, and nobody else does.
        finalized = scene.case.where.failing if case.what is Finalizer else ()
        agree("errors that Python ignored", ignored, [type(scene.stage.error)] * len(finalized))
        return seconds


def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(NUM_THREADS, "faults")


@contextmanager
def _unraisable() -> Iterator[list[type[BaseException]]]:
    seen: list[Any] = []
    before = sys.unraisablehook
    sys.unraisablehook = lambda told: seen.append(told.exc_type)
    try:
        yield seen
    finally:
        sys.unraisablehook = before


def _verdict(scene: Scene, expected: Expected) -> float:
    times = scene.failures()
    agree("how often it failed", len(times), len(scene.case.where.failing))
    wrong = [outcome for outcome in scene.outcomes if outcome.error is not None]
    if expected.error is None:
        agree("errors that somebody got", [outcome.error for outcome in wrong], [])
        return scene.outcomes[0].ended - min(times)
    told = wrong[0] if wrong and scene.case.moment == TWO else scene.outcomes[0]
    if [told] != wrong:
        raise DisagreementError(f"one error, once: expected {expected}, got {scene.outcomes}")
    _error(scene, told, expected)
    return told.ended - min(times)


def _error(scene: Scene, told: Outcome, expected: Expected) -> None:
    error, stage, kind = told.error, scene.stage, KINDS[scene.case.kind]
    agree("class of the error", type(error), expected.error)
    if not isinstance(error, WorkerError):
        agree("the error tells what failed", stage.is_told(error, kind.is_error), True)  # type: ignore[arg-type]
        return
    failures = list(error.failures.values())
    origins, others = failures[: len(expected.failed)], failures[len(expected.failed) :]
    agree("workers that failed", sorted(f.worker for f in origins), list(expected.failed))
    agree("workers that were released", sorted(f.worker for f in others), list(expected.released))
    for failure in origins:
        agree(
            f"{failure.summary} on worker {failure.worker} tells what failed",
            stage.is_told(failure.exception, kind.is_error),
            True,
        )
    for failure in others:
        agree(f"{failure.summary} names an origin", _released_by(failure) in expected.failed, True)
    agree("the text begins with the origin", f"failed on worker {origins[0].worker}" in str(error), True)


def _released_by(failure: Failure) -> int | None:
    error = failure.exception
    why = error.failure if isinstance(error, PlaneAborted) else None
    return None if why is None else why.worker


def _registers(scene: Scene, expected: Expected) -> None:
    """The register of a call has no value where it failed, and its value everywhere else."""
    ref, case = scene.stage.ref, scene.case
    if ref is None or scene.stage.has_handle or case.moment == SHUTDOWN or expected.error is None:
        return
    for worker in range(case.where.num_workers):
        outcome = outcome_of(partial(ref.get, worker, DEADLINE_S))
        poisoned = worker in expected.failed or worker in expected.released
        agree(f"its register on worker {worker} is poisoned", type(outcome.error) is WorkerError, poisoned)


def _aftermath(session: Session) -> None:
    """Nothing is told twice, no register is kept, and all workers work, alone and together."""
    everybody = list(range(session.num_workers))
    session.sync_all(DEADLINE_S)
    agree("registers that are kept", session.ledger.live_registers, 0)
    agree("calls afterwards", session.call_packed(alone).get_all(DEADLINE_S), everybody)
    total = len(everybody)
    agree("cells afterwards", session.run("allreduce(1)", timeout=DEADLINE_S).values, [total] * total)
