"""A finalizer that calls the plane may strike within one of the plane's own steps.

It waited for the lock that its own thread held, for ever, and the other workers with it.
"""

from __future__ import annotations

import gc
import sys

import pytest

import disco_magic as disco
from disco_magic.core.seat import Seat
from disco_magic.errors import UsageMistake
from disco_magic.planes.threads import ThreadPlane

CALLS = {
    "iprobe": lambda plane, seat: plane.iprobe(seat, None),
    "barrier": lambda plane, seat: plane.barrier(seat),
    "leave": lambda plane, seat: plane.leave(seat.worker, seat.scope),
    "abort": lambda plane, seat: plane.abort(seat.scope, "told to"),
    "statistics": lambda plane, _: plane.statistics(),
}

GHOSTS = """
import gc

class Ghost:
    def __init__(self):
        self.me = self

    def __del__(self):
        if haunting:
            Ghost()
            iprobe()

haunting = True
gc.set_threshold(1)
try:
    Ghost()
    for number in range(20):
        barrier()
        if worker_id == 0:
            send(number, 1)
        else:
            assert recv(0) == number
finally:
    haunting = False
    gc.collect()
"""


@pytest.mark.parametrize("name", CALLS)
def test_a_call_from_within_the_lock_of_the_plane_is_refused(name):
    plane = ThreadPlane(1)
    seat = Seat(0, (0,), 1)
    with plane._board.lock, pytest.raises(UsageMistake, match="finalizer or a signal handler"):
        CALLS[name](plane, seat)
    plane.barrier(seat)
    assert plane.statistics() == {"waiting": 0, "meetings": 0, "messages": 0, "failures": 0}


def test_finalizers_that_call_the_plane_all_the_time_stop_no_worker(monkeypatch):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraised: told.append(str(unraised.exc_value)))
    before = gc.get_threshold()  # not in the cell: one worker could find what the other one has set
    try:
        with disco.ThreadedSession(num_workers=2) as session:
            session.run(GHOSTS, timeout=60)
            assert list(session.run("allreduce(worker_id)")) == [1, 1]
    finally:
        gc.set_threshold(*before)
    assert any("a finalizer or a signal handler called" in each for each in told)
