"""Workers that clean up after an interrupt of what they wait for on their GPUs: nothing ends that."""

from __future__ import annotations

import builtins
import sys
import threading
from types import SimpleNamespace

import pytest

from disco_magic.errors import CellError, PlaneError
from disco_magic.planes.nccl import NcclPlane
from disco_magic.workers import fragile, striking
from tests.conftest import until
from tests.doubles import nccl as doubles
from tests.session.gpus.nccl.conftest import stalled, until_waiting_in, works

reason = doubles.available()
if reason:
    pytest.skip(reason, allow_module_level=True)

CLEANS_UP = """
left = allreduce(xp.ones(3))
try:
    {wait}
finally:
    builtins.clean_up(worker_id)
"""


@pytest.fixture
def cleaned(monkeypatch):
    """The workers whose clean-up has reached its end; ``cleaned.act(worker)`` is what it does before."""
    done = SimpleNamespace(workers=[], act=int)

    def clean_up(worker):
        done.act(worker)
        done.workers.append(worker)

    monkeypatch.setattr(builtins, "clean_up", clean_up, raising=False)
    return done


def assert_cancelling_lets_all_clean_up(gpus, pending, cleaned):
    pending.cancel()
    with pytest.raises(CellError):
        pending.wait()
    assert sorted(cleaned.workers) == [0, 1, 2, 3]
    gpus.double.release(1)
    assert works(pending.session)


def test_who_comes_out_of_a_wait_before_it_is_struck_cleans_up_in_peace(gpus, crew, monkeypatch, cleaned):
    """It was in code that nothing strikes. The wait raised the interrupt, and then it was struck as well."""
    waiting, strike = set(range(4)), striking.strike
    lanes = [each.lane for each in crew._launcher.workers]
    threads = {lane.thread_id: worker for worker, lane in enumerate(lanes)}

    def act(worker):
        waiting.discard(worker)
        until(lambda: lanes[worker].pursued is None)  # struck, if it is going to be

    def strikes(thread):
        return threads[thread] not in waiting and strike(thread)

    cleaned.act = act
    assert works(crew)
    monkeypatch.setattr(fragile, "strike_all", lambda threads: [])
    monkeypatch.setattr(striking, "strike", strikes)
    pending = stalled(gpus, crew, "import builtins" + CLEANS_UP.format(wait="worker.place.finish()"))
    until_waiting_in(pending)
    assert_cancelling_lets_all_clean_up(gpus, pending, cleaned)


def test_who_cleans_up_after_an_await_that_was_cancelled_waits_for_its_gpu_in_peace(gpus, crew, cleaned):
    """Such a cell is cancelled, not struck; its wait for what was given up with it raised the interrupt."""
    assert works(crew)
    workers = crew._launcher.workers
    cleaned.act = lambda worker: workers[worker].context.place.finish()
    code = "import asyncio, builtins" + CLEANS_UP.format(wait="await asyncio.sleep(60)")
    pending = stalled(gpus, crew, code)
    until(
        lambda: all(
            each.cells.awaits and str(each.cells.awaits.site()).endswith("line 4") for each in workers
        )
    )
    assert_cancelling_lets_all_clean_up(gpus, pending, cleaned)


def test_workers_that_are_interrupted_together_are_ended_by_their_own_interrupts(
    gpus, crew, monkeypatch, cleaned
):
    """The departure of the first released it with PlaneAborted, and then it was struck as it cleaned up."""
    assert works(crew)
    leave, waited = NcclPlane.leave, threading.Event()

    def leaves(plane, worker, scope, failure=None):
        leave(plane, worker, scope, failure)
        if worker == 0 and not waited.is_set():  # the others are struck when they have seen what it gave up
            waited.set()
            until(lambda: len(errors) >= 3)

    errors = []
    cleaned.act = lambda _worker: errors.append(isinstance(sys.exception(), PlaneError))
    monkeypatch.setattr(NcclPlane, "leave", leaves)
    monkeypatch.setattr(fragile, "strike_all", lambda threads: [])
    monkeypatch.setattr(striking, "strike", lambda thread: False)
    pending = stalled(gpus, crew, "import builtins" + CLEANS_UP.format(wait="worker.place.finish()"))
    until_waiting_in(pending)
    assert_cancelling_lets_all_clean_up(gpus, pending, cleaned)
    assert errors == [False] * 4
