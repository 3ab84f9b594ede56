"""A crew of threads for plane tests: started together, joined with a deadline, never left hanging."""

from __future__ import annotations

import threading

import pytest

from disco_magic.core.seat import Seat
from disco_magic.errors import Failure
from disco_magic.planes.threads import ThreadPlane
from disco_magic.testing.gpu.kernels import _compiled
from tests.conftest import DEADLINE_S, stacks


def seat(worker, scope=1, count=3, present=None):
    """The seat of one of `count` workers, all of whom take part."""
    return Seat(worker, tuple(range(count)), scope, present)


def run(plane, program, scope, workers=None):
    """`disco_magic.testing.stage.Run` with one thread per worker."""
    count = len(plane.left)
    outcomes = [None] * count

    def work(worker):
        failure = None
        try:
            outcomes[worker] = program(plane, Seat(worker, tuple(range(count)), scope))
        except BaseException as error:  # noqa: BLE001 - every outcome is the test's to judge
            outcomes[worker] = error
            failure = Failure(worker, scope, f"scope {scope}", error, "")
        plane.leave(worker, scope, failure)

    threads = [
        threading.Thread(target=work, args=(w,), name=f"worker {w}", daemon=True)
        for w in (range(count) if workers is None else workers)
    ]
    for thread in threads:
        thread.start()
    finish(plane, threads)
    return outcomes


def finish(plane, threads):
    """Join `threads`, or fail with their stacks after releasing them.

    The deadline begins anew while they compile kernels of a simulated GPU: all reductions are 143, each a run
    of a compiler, and a busy machine takes minutes for them.
    """
    before, made = -1, _compiled.cache_info().misses
    while made > before:
        for thread in threads:
            thread.join(DEADLINE_S)
        before, made = made, _compiled.cache_info().misses
    stuck = [thread for thread in threads if thread.is_alive()]
    if stuck:
        text = stacks(stuck)
        plane.close()
        pytest.fail(f"{[thread.name for thread in stuck]} hang:\n{text}")


def until_parked(plane, count):
    """Return when `count` workers are parked."""
    pause = threading.Event()
    for _ in range(20_000):
        if len(plane.waiting) >= count:
            return
        pause.wait(0.001)
    pytest.fail(f"expected {count} parked workers, got {plane.waiting}")


@pytest.fixture(name="run")
def _run():
    return run


@pytest.fixture(name="until_parked")
def _until_parked():
    return until_parked


@pytest.fixture
def make():
    """Makes planes that are closed and must be empty of waiting workers when the test ends."""
    made = []

    def new(count, **options):
        made.append(ThreadPlane(count, **options))
        return made[-1]

    yield new
    for plane in made:
        waiting = dict(plane.waiting)
        plane.close()
        assert not waiting
