"""Who is woken by whom, when several wait for the same."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from disco_magic.core.seat import Seat, hopes
from disco_magic.planes import deadlocks
from disco_magic.planes.board import Board
from disco_magic.planes.calls import Call
from disco_magic.planes.mail import Probe, Receive
from disco_magic.planes.meeting import Meeting
from disco_magic.planes.memory import HOST
from disco_magic.planes.reductions import reduction
from disco_magic.planes.rendezvous import ALONE_NBYTES, Rendezvous
from disco_magic.planes.small import plan_of

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


def test_who_wakes_wakes_the_next_one_while_another_thread_is_at_the_board(board, parked):
    board.wake(parked)
    with ThreadPoolExecutor(1) as other, board.lock:
        other.submit(board.pass_on, parked).result(timeout=10)
    assert len(woken(parked)) == 2


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


@pytest.mark.parametrize("waiting", [(0,), (0, 1), (0, 1, 2)], ids=len)
def test_who_comes_in_between_takes_no_gate_away_from_the_one_who_wakes(board, parked, waiting):
    class Watched(Meeting):
        """A helper that was woken before comes as soon as there is somebody to wake."""

        @property
        def to_wake(self):
            return self.__dict__["to_wake"]

        @to_wake.setter
        def to_wake(self, gates):
            self.__dict__["to_wake"] = gates
            if gates:
                board.pass_on(self)

    meeting = Watched(MEMBERS, 1)
    meeting.calls = {worker: parked.calls[worker] for worker in waiting}
    board.waiting = dict.fromkeys(waiting, meeting)
    board.wake(meeting)
    assert len(woken(meeting)) == min(2, len(waiting))  # by the one, and by the one who came


def test_a_replaced_thread_is_not_woken_for_the_work_of_the_one_that_was_given_up(board):
    rendezvous = Rendezvous(board, len(MEMBERS), plan_of)
    x = np.ones(ALONE_NBYTES // 8)
    rule = reduction("allreduce", "sum", x.dtype)
    calls = [
        Call("allreduce", Seat(worker, MEMBERS, 1), None, HOST, array=x, op="sum", rule=rule)
        for worker in MEMBERS
    ]
    meetings = [rendezvous._arrive(call)[0] for call in calls]
    recv = Receive(Call("recv", Seat(0, MEMBERS, 2), None, HOST), 1)
    board.park(0, recv)  # the thread of worker 0 was given up, its successor waits in the next command
    rendezvous._settle(meetings[-1], calls[-1])
    assert board.waiting[0] is recv
    assert recv.call.gate.locked()
    assert [call.gate.locked() for call in calls[:3]].count(False) >= 1  # helpers
    rendezvous._help(meetings[-1], calls[-1])
    board.pass_on(meetings[-1])
    assert [call.gate.locked() for call in calls[:3]] == [False] * 3
    assert board.waiting == {0: recv}


def test_a_probe_is_not_followed_further_than_to_somebody_who_computes(board, monkeypatch):
    looks = []
    monkeypatch.setattr(deadlocks, "hopes", lambda *of: looks.append(of) or hopes(*of))
    for worker in (1, 2, 3):
        others = tuple(each for each in MEMBERS if each != worker)
        board.park(worker, Probe(Call("probe", Seat(worker, MEMBERS, 1), None, HOST), others, {}))
    assert looks == []
    board.leave(0, 1, None)  # now they wait for each other
    assert looks
    assert board.waiting == {}
