"""Interrupts that strike a thread in the middle of what it does about a flight, or too late."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from disco_magic.core.messages import Sync
from disco_magic.errors import Failure, PlaneAborted, WorkerInterrupt
from disco_magic.functions import bridges
from disco_magic.workers.lane import Lane
from tests.locks import StrikesWhoTakes
from tests.planes.over_nccl.conftest import good


def queued(plane, seat, xp):
    return plane.allreduce(seat, xp.ones(2), "sum", None)


def interrupted(worker, scope):
    return Failure(worker, scope, "Cell In[2]", WorkerInterrupt(), "")


def test_who_is_struck_as_it_takes_the_lock_to_look_at_nccl_gives_it_back(crew, double, monkeypatch):
    """It kept it for ever: between the call that took the lock and the ``try`` the interrupt was raised.

    Then no worker could start another collective, nor be interrupted while it waited for that.
    """
    plane, _ = crew(good)
    double.stall(1)
    crew(queued, scope=2, plane=plane)
    lock, flights = StrikesWhoTakes(), plane._flights

    def look():
        flights._look(0)
        pytest.fail("it was not struck")

    with monkeypatch.context() as patch:
        patch.setattr(plane._communicators, "launching", lock)
        with pytest.raises(WorkerInterrupt):
            look()
    assert lock.released == 1
    double.release(1)
    assert crew(good, scope=3, plane=plane)[1] == [[4, 4]] * 4


def test_a_thread_that_was_given_up_and_is_struck_late_costs_no_later_flight(crew, double):
    """What it had waited for was kept, and the next interrupt gave up all flights from that one on."""
    plane, _ = crew(good)
    flights = plane._flights

    def late():
        raise WorkerInterrupt

    def struck(plane, seat, xp):
        queued(plane, seat, xp)
        if seat.worker == 0:
            with pytest.raises(WorkerInterrupt):
                flights.wait(0, late)

    assert crew(struck, scope=2, plane=plane)[1] == [None] * 4
    crew(good, scope=3, plane=plane)  # all of them see that it is done
    double.stall(1)
    crew(queued, scope=4, plane=plane)
    plane.leave(0, 5, interrupted(0, 5))
    double.release(1)
    assert crew(good, scope=6, plane=plane)[1] == [[4, 4]] * 4


@pytest.fixture
def given_up(crew, double, until_parked):
    """``given_up(act, background)``: what becomes of ``act(wait)`` when worker 0 is interrupted meanwhile."""
    plane, _ = crew(good)

    def start(act, background):
        double.stall(1)

        def program(plane, seat, xp):
            queued(plane, seat, xp)
            return act(plane._places[seat.worker].finish)

        pending = background(crew, program, scope=2, plane=plane)
        until_parked(plane, 4)
        plane.leave(0, 2, interrupted(0, 2))
        outcomes = pending()[1]
        double.release(1)
        assert crew(good, scope=3, plane=plane)[1] == [[4, 4]] * 4
        return outcomes

    return start


def test_an_interrupted_worker_that_was_not_struck_yet_does_not_compute_with_what_was_given_up(
    given_up, background
):
    """Its thread may be in code that nothing strikes. The wait ended without an error, as if it were done."""
    own, *others = given_up(lambda finish: finish(), background)
    assert type(own) is WorkerInterrupt
    assert [type(outcome) for outcome in others] == [PlaneAborted] * 3


def test_a_worker_that_cleans_up_after_its_interrupt_waits_in_peace(given_up, background):
    def struck():
        raise WorkerInterrupt

    def act(finish):
        try:
            struck()
        except WorkerInterrupt:
            finish()
        return "cleaned up"

    assert given_up(act, background)[0] == "cleaned up"


@pytest.fixture
def left_behind(crew, double, until_parked, background):
    """``left_behind(act, *, failed)``: what becomes of ``act(wait)`` in the command after that of a call.

    `failed`: whether worker 0 fails in the command of the call. In the second one it is interrupted, and
    claimed before it can be released, as workers are that are interrupted together. Returns its outcome, and
    that of a wait in its next command.
    """
    plane, _ = crew(good)

    def start(act, *, failed):
        double.stall(1)
        assert crew(queued, scope=2, plane=plane)[1]
        if failed:
            plane.leave(0, 2, Failure(0, 2, "Cell In[2]", ZeroDivisionError(), ""))
        lane = Lane()

        def program(plane, seat, xp):
            if seat.worker == 0:
                bridges.serve(lane, nullcontext())
            return act(plane._places[seat.worker].finish)

        pending = background(crew, program, scope=3, plane=plane)
        until_parked(plane, 4)
        lane.interrupted = Sync(3, 0)
        plane.leave(0, 3, interrupted(0, 3))
        own = pending()[1][0]
        double.release(1)
        plane._flights.incomplete(0)  # as its command ends
        nexts = crew(lambda plane, seat, xp: plane._places[seat.worker].finish(), scope=4, plane=plane)[1]
        assert crew(good, scope=5, plane=plane)[1] == [[4, 4]] * 4
        return own, nexts[0]

    return start


def test_an_interrupt_ends_the_wait_for_what_a_failed_command_has_left(left_behind):
    """Such a collective is told to nobody, so the wait ended without an error, as if it were done."""
    own, after = left_behind(lambda finish: finish(), failed=True)
    assert (type(own), after) == (WorkerInterrupt, None)


def test_an_interrupted_worker_is_told_in_its_next_command_what_was_given_up_of_an_earlier_one(left_behind):
    """The wait raised PlaneAborted, and the interrupt struck in the clean-up behind that."""
    own, after = left_behind(lambda finish: finish(), failed=False)
    assert (type(own), type(after)) == (WorkerInterrupt, PlaneAborted)


def test_nothing_of_an_earlier_command_is_told_to_who_cleans_up_after_an_interrupt(left_behind):
    def act(finish):
        try:
            finish()
        except WorkerInterrupt:
            finish()
        return "cleaned up"

    own, after = left_behind(act, failed=False)
    assert (own, type(after)) == ("cleaned up", PlaneAborted)
