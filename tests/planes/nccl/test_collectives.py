"""The double of NCCL gives what NCCL gives, through cupy's own wheel."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tests.doubles.nccl_ranks import (
    FLOAT64,
    MAX,
    SUM,
    Stream,
    at,
    communicators,
)

pytestmark = pytest.mark.usefixtures("no_mistakes")


@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_each_collective_agrees_with_numpy(world, size):
    sources = np.random.default_rng(size).integers(-50, 50, (size, size * 5)).astype(np.float64)
    root = size - 1

    def program(comm, rank, stream):
        mine = sources[rank].copy()
        out = {name: np.full(size * 5, np.nan) for name in ("sum", "reduced", "sent", "bcast")}
        out["scattered"], out["gathered"] = np.full(5, np.nan), np.full(size * size * 5, np.nan)
        out["bcast"][:] = mine
        comm.allReduce(at(mine), at(out["sum"]), size * 5, FLOAT64, SUM, stream)
        comm.reduce(at(mine), at(out["reduced"]) if rank == root else 0, size * 5, FLOAT64, MAX, root, stream)
        comm.broadcast(at(mine), at(out["sent"]), size * 5, FLOAT64, root, stream)
        comm.bcast(at(out["bcast"]), size * 5, FLOAT64, root, stream)
        comm.reduceScatter(at(mine), at(out["scattered"]), 5, FLOAT64, SUM, stream)
        comm.allGather(at(mine), at(out["gathered"]), size * 5, FLOAT64, stream)
        return mine, out

    for rank, (mine, out) in enumerate(world(size, program)):
        np.testing.assert_array_equal(mine, sources[rank])
        np.testing.assert_array_equal(out["sum"], sources.sum(0))
        np.testing.assert_array_equal(
            out["reduced"], sources.max(0) if rank == root else np.full(size * 5, np.nan)
        )
        np.testing.assert_array_equal(out["sent"], sources[root])
        np.testing.assert_array_equal(out["bcast"], sources[root])
        np.testing.assert_array_equal(out["scattered"], sources.sum(0)[rank * 5 : rank * 5 + 5])
        np.testing.assert_array_equal(out["gathered"], sources.ravel())


def test_collectives_work_in_place(world):
    def program(comm, rank, stream):
        reduced, gathered, scattered = np.full(2, rank), np.full(6, rank), np.arange(6) + 10 * rank
        comm.allReduce(at(reduced), at(reduced), 2, 4, SUM, stream)
        comm.allGather(at(gathered, 2 * rank), at(gathered), 2, 4, stream)
        comm.reduceScatter(at(scattered), at(scattered, 2 * rank), 2, 4, SUM, stream)
        return reduced, gathered, scattered[2 * rank : 2 * rank + 2]

    for rank, results in enumerate(world(3, program)):
        expected = [[3, 3], [0, 0, 1, 1, 2, 2], [30 + 6 * rank, 33 + 6 * rank]]
        assert [result.tolist() for result in results] == expected


@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_group_of_sends_and_receives_to_all_peers_does_not_deadlock(world, size):
    from cupy.cuda.nccl import groupEnd, groupStart

    def program(comm, rank, stream):
        mine, got = np.arange(size) + 100 * rank, np.zeros(size, int)
        groupStart()
        for step in range(size):  # no two ranks in the same order, and their receives come last
            peer = (rank * 3 + step) % size
            comm.send(at(mine, peer), 1, 4, peer, stream)
        for peer in reversed(range(size)):
            comm.recv(at(got, peer), 1, 4, peer, stream)
        groupEnd()
        return mine, got

    for rank, (_, got) in enumerate(world(size, program)):
        assert got.tolist() == [100 * peer + rank for peer in range(size)]


def test_sends_of_a_pair_arrive_in_their_order(world):
    def program(comm, rank, stream):
        values = np.arange(4) if rank == 0 else np.zeros(4, int)
        for index in range(4):
            (comm.recv if rank else comm.send)(at(values, index), 1, 4, 1 - rank, stream)
        return values

    assert [values.tolist() for values in world(2, program)] == [[0, 1, 2, 3]] * 2


def test_nothing_of_a_group_is_launched_before_its_outermost_end(world, double):
    from cupy.cuda.nccl import groupEnd, groupStart

    def program(comm, rank, stream):
        values = np.ones(2, int)
        groupStart()
        groupStart()
        comm.allReduce(at(values, 0), at(values, 0), 1, 4, SUM, stream)
        groupEnd()
        comm.allReduce(at(values, 1), at(values, 1), 1, 4, SUM, stream)
        before = double.in_flight
        meeting.wait(60)
        groupEnd()
        return before, values

    meeting = threading.Barrier(2)
    results = world(2, program)
    assert [before for before, _ in results] == [0, 0]
    assert [values.tolist() for _, values in results] == [[2, 2]] * 2


def test_one_thread_drives_several_ranks_in_a_group(double):
    from cupy.cuda.nccl import groupEnd, groupStart

    comms, values = communicators(3), np.array([1, 2, 4])
    groupStart()
    for rank, comm in enumerate(comms):
        comm.allReduce(at(values, rank), at(values, rank), 1, 4, SUM, 0)
    groupEnd()
    assert values.tolist() == [7, 7, 7]
    for comm in comms:
        comm.destroy()


def test_a_call_on_a_stream_returns_at_once_and_its_work_keeps_the_streams_order(double):
    comms, streams = communicators(2), [Stream(), Stream()]
    held, values, seen = threading.Event(), np.array([0, 2]), []
    streams[0].put(lambda: held.wait(60))
    streams[0].put(lambda: values.__setitem__(0, 5))
    for rank in range(2):
        comms[rank].allReduce(at(values, rank), at(values, rank), 1, 4, SUM, streams[rank].ptr)
        streams[rank].put(lambda rank=rank: seen.append(int(values[rank])))
    assert double.in_flight == 2
    double.until_waiting(1)  # rank 1 is there
    held.set()
    for rank in range(2):
        streams[rank].synchronize()
        streams[rank].close()
        comms[rank].destroy()
    assert seen == [7, 7]


def test_a_communicator_says_who_it_is(double):
    double.set_version(21803)
    double.set_device(1, 6)
    comms = communicators(2)
    from cupy.cuda import nccl as cupy_nccl

    assert cupy_nccl.get_version() == 21803
    assert [(comm.size(), comm.rank_id(), comm.device_id()) for comm in comms] == [(2, 0, 0), (2, 1, 6)]
    assert double.alive == 2
    for comm in comms:
        comm.check_async_error()
        comm.destroy()


def test_a_split_orders_ranks_by_key_and_leaves_out_who_has_no_color(world):
    def program(comm, rank, stream):
        part = comm.commSplit(-1 if rank == 4 else rank % 2, -rank)
        if part is None:
            return None
        total = np.array([rank])
        part.allReduce(at(total), at(total), 1, 4, SUM, stream)
        own = part.commSplit(rank, 0)
        result = (part.size(), part.rank_id(), part.device_id(), own.size())
        for made in (part, own):
            made.destroy()
        return *result, total

    results = world(6, program)
    assert results.pop(4) is None
    assert [result[:4] for result in results] == [
        (2, 1, 0, 1),
        (3, 2, 1, 1),
        (2, 0, 2, 1),
        (3, 1, 3, 1),
        (3, 0, 5, 1),
    ]
    assert [int(result[4][0]) for result in results] == [2, 9, 2, 9, 9]
