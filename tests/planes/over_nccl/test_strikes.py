"""Interrupts that strike a thread in the middle of what it does about a flight."""

from __future__ import annotations

import pytest

from disco_magic.errors import WorkerInterrupt
from tests.locks import StrikesWhoTakes
from tests.planes.over_nccl.conftest import good


def queued(plane, seat, xp):
    return plane.allreduce(seat, xp.ones(2), "sum", None)


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
