"""Who waits in the double of NCCL, and what ends it: peers, aborts, releases, errors."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tests.conftest import DEADLINE_S
from tests.doubles import nccl
from tests.doubles.nccl_ranks import (
    INT64,
    MAX,
    communicators,
    each,
    end,
    fails,
    sum_of,
)


def test_an_abort_releases_a_lone_collective_and_no_other_rank(double, background):
    comms, values = communicators(3), np.arange(12).reshape(3, 4)
    calls = [background(sum_of, comms[rank], values[rank]) for rank in (0, 1)]
    double.until_waiting(2)
    comms[0].abort()
    calls[0]()
    assert (double.waiting, double.in_flight, double.alive) == (1, 1, 2)
    third = background(sum_of, comms[2], values[2])
    double.until_waiting(2)
    end(comms[1:])
    calls[1]()
    third()


def test_an_aborted_collective_leaves_data_that_nobody_takes_for_a_result(double, background):
    comms, values = communicators(2), np.ones(4, int)
    call = background(sum_of, comms[0], values)
    double.until_waiting(1)
    comms[0].abort()
    call()
    assert values[:2].tolist() == [int.from_bytes(b"\xdb" * 8, "little", signed=True)] * 2
    end(comms[1:])


def test_a_stream_goes_on_after_an_aborted_collective(double, stream):
    comms, values = communicators(2), np.ones(4, int)
    sum_of(comms[0], values, stream.ptr)
    double.until_waiting(1)
    end(comms)
    stream.synchronize()
    assert double.in_flight == 0


def test_work_that_had_not_begun_touches_nothing_after_an_abort(double, stream):
    comms, values, held = communicators(1), np.arange(4), threading.Event()
    stream.put(lambda: held.wait(DEADLINE_S))
    comms[0].allReduce(values.ctypes.data, values.ctypes.data + 16, 2, INT64, MAX, stream.ptr)
    comms[0].abort()
    assert double.in_flight == 1
    held.set()
    stream.synchronize()
    assert values.tolist() == [0, 1, 2, 3]


def test_an_abort_does_not_wait_for_an_ordered_delay(double, background):
    double.delay(2**31, seed=1)
    (comm,) = communicators(1)
    call = background(sum_of, comm, np.ones(1, int))
    double.until_in_flight(1)
    comm.abort()
    call()


def test_a_split_ends_with_an_error_when_its_communicator_is_aborted(double, background):
    comms = communicators(2)
    call = background(comms[0].commSplit, 0, 0)
    double.until_waiting(1)
    end(comms)
    with fails(nccl.INTERNAL_ERROR):
        call()


def test_a_destroyed_communicator_leaves_its_peers_waiting(double, background):
    comms = communicators(2)
    call = background(sum_of, comms[0], np.ones(1, int))
    double.until_waiting(1)
    comms[1].destroy()
    assert double.waiting == 1
    comms[0].abort()
    call()
    assert double.mistakes == []


def test_a_destroy_waits_for_what_was_launched(double, background, stream):
    comms, values = communicators(2), np.array([1, 2])
    sum_of(comms[0], values[:1], stream.ptr)
    double.until_waiting(1)
    destroyed = background(comms[0].destroy)
    double.until_waiting(2)
    assert double.alive == 2
    sum_of(comms[1], values[1:])
    destroyed()
    comms[1].destroy()
    stream.synchronize()
    assert values.tolist() == [3, 3]


def test_a_stalled_rank_comes_when_it_is_released(double, background):
    comms, values = communicators(2), np.array([1, 2])
    double.stall(1)
    calls = [background(sum_of, comms[rank], values[rank : rank + 1]) for rank in range(2)]
    double.until_waiting(2)
    assert values.tolist() == [1, 2]
    double.release(1)
    for call in calls:
        call()
    assert values.tolist() == [3, 3]
    end(comms)


def test_a_stalled_rank_can_be_aborted_and_stalls_in_groups_under_another_rank(double, background):
    parts = communicators(3)
    comms = each(3, lambda rank: parts[rank].commSplit(int(rank > 0), 0))
    double.stall(2)
    alone = np.ones(1, int)
    sum_of(comms[0], alone)  # a group without the stalled rank
    calls = [background(sum_of, comms[rank], np.ones(1, int)) for rank in (1, 2)]
    double.until_waiting(2)
    end([*comms, *parts])
    for call in calls:
        call()


def test_a_stalled_rank_does_not_come_to_a_new_communicator(double, background):
    double.stall(1)
    made = background(communicators, 2)
    double.until_waiting(2)
    assert double.alive == 0
    double.release(1)
    end(made())


def test_who_waits_for_a_communicator_can_be_told_to_give_up(double, background):
    double.stall(1)
    made = background(communicators, 3)
    double.until_waiting(3)
    double.fail_forming(nccl.SYSTEM_ERROR)
    with fails(nccl.SYSTEM_ERROR):
        made()


def test_an_asynchronous_error_is_reported_on_its_rank_and_stops_its_work(double, background):
    comms, values = communicators(2), np.array([1, 2])
    with pytest.raises(LookupError, match="rank 7"):
        double.async_error(7, nccl.SYSTEM_ERROR)
    call = background(sum_of, comms[0], values[:1])
    double.until_waiting(1)
    double.async_error(0, nccl.SYSTEM_ERROR)
    other = background(sum_of, comms[1], values[1:])
    double.until_waiting(2)
    with fails(nccl.SYSTEM_ERROR):
        comms[0].check_async_error()
    with fails(nccl.SYSTEM_ERROR):
        sum_of(comms[0], values)
    comms[1].check_async_error()
    assert int(values[1]) == 2
    end(comms)
    call()
    other()


def test_orders_may_come_while_communicators_are_made_and_ended(double, background):
    """A clique that a split was still making was once freed by an order that had looked at all cliques."""
    ended = threading.Event()

    def order():
        while not ended.is_set():
            double.stall(255)
            double.release(255)

    ordering = background(order)
    try:
        for _ in range(30):
            comms = communicators(4)
            end(each(4, lambda rank, comms=comms: comms[rank].commSplit(rank % 2, 0)))
            end(comms)
    finally:
        ended.set()
    ordering()
