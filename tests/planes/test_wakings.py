"""Who is woken by whom, when several wait for the same."""

from __future__ import annotations

import pytest

from disco_magic.core.interfaces import Seat
from disco_magic.planes.board import Board
from disco_magic.planes.calls import Call
from disco_magic.planes.meeting import Meeting
from disco_magic.planes.memory import HOST

MEMBERS = (0, 1, 2, 3)


@pytest.fixture
def board():
    return Board(len(MEMBERS))


@pytest.fixture
def parked(board):
    """A barrier of four workers that three sleep in."""
    meeting = Meeting(MEMBERS, 1)
    for worker in MEMBERS[:3]:
        meeting.calls[worker] = Call("barrier", Seat(worker, MEMBERS, 1), None, HOST)
        board.park(worker, meeting)
    return meeting


def woken(meeting):
    return [worker for worker, gate in meeting.gates() if not gate.locked()]


def test_one_is_woken_and_the_others_by_each_other(board, parked):
    board.wake(parked)
    assert board.waiting == {}
    for count in (1, 2, 3):
        assert len(woken(parked)) == count
        board.pass_on(parked)
    board.pass_on(parked)
    assert len(woken(parked)) == 3


def test_those_who_rest_are_woken_like_the_others(board, parked):
    helper = Call("barrier", Seat(3, MEMBERS, 1), None, HOST)
    board.wake(parked, [helper.gate])
    for _ in range(3):
        board.pass_on(parked)
    assert woken(parked) == [0, 1, 2]
    assert not helper.gate.locked()


def test_who_is_struck_as_it_wakes_has_woken_the_next_one(board, parked):
    class Struck:
        def acquire(self):
            raise KeyboardInterrupt

    board.wake(parked)
    [first] = woken(parked)
    parked.calls[first].gate = Struck()
    with pytest.raises(KeyboardInterrupt):
        board.sleep(parked.calls[first], parked)
    del parked.calls[first]
    assert len(woken(parked)) == 1
    assert not board.asleep[first].is_running
