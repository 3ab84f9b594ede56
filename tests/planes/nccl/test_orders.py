"""Calls of the double of NCCL fail as a test has ordered, and nothing of them is left."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tests.doubles import nccl
from tests.doubles.nccl_ranks import (
    INT64,
    communicators,
    each,
    end,
    fails,
    sum_of,
)


def test_the_call_that_was_ordered_fails_and_no_other(double):
    double.fail("AllReduce", nccl.INTERNAL_ERROR, rank=1, after=1)
    comms, values = communicators(2), np.ones(2, int)

    def program(rank):
        statuses = []
        for _ in range(3):
            try:
                sum_of(comms[rank], values[rank : rank + 1])
            except RuntimeError as error:
                statuses.append(error.status)
                sum_of(comms[rank], values[rank : rank + 1])
            else:
                statuses.append(0)
        return statuses

    assert each(2, program) == [[0, 0, 0], [0, nccl.INTERNAL_ERROR, 0]]
    assert values.tolist() == [8, 8]
    assert double.calls("AllReduce") == 7
    end(comms)


@pytest.mark.parametrize(
    ("function", "call"),
    [
        ("GetVersion", lambda module, comm: module.get_version()),
        ("GetUniqueId", lambda module, comm: module.get_unique_id()),
        ("CommInitAll", lambda module, comm: module.NcclCommunicator.initAll(1)),
        ("CommSplit", lambda module, comm: comm.commSplit(0, 0)),
        ("CommCount", lambda module, comm: comm.size()),
        ("CommUserRank", lambda module, comm: comm.rank_id()),
        ("CommCuDevice", lambda module, comm: comm.device_id()),
        ("CommGetAsyncError", lambda module, comm: comm.check_async_error()),
        ("GroupStart", lambda module, comm: module.groupStart()),
        ("Reduce", lambda module, comm: comm.reduce(0, 0, 0, 0, 0, 0, 0)),
        ("Broadcast", lambda module, comm: comm.broadcast(0, 0, 0, 0, 0, 0)),
        ("Bcast", lambda module, comm: comm.bcast(0, 0, 0, 0, 0)),
        ("AllGather", lambda module, comm: comm.allGather(0, 0, 0, 0, 0)),
        ("ReduceScatter", lambda module, comm: comm.reduceScatter(0, 0, 0, 0, 0, 0)),
        ("Send", lambda module, comm: comm.send(0, 0, 0, 0, 0)),
        ("Recv", lambda module, comm: comm.recv(0, 0, 0, 0, 0)),
    ],
)
def test_every_function_can_be_ordered_to_fail(double, function, call):
    from cupy.cuda import nccl as cupy_nccl

    (comm,) = communicators(1)
    comm.size()  # from now on this thread is rank 0
    double.fail(function, nccl.UNHANDLED_CUDA_ERROR, rank=0)
    with fails(nccl.UNHANDLED_CUDA_ERROR):
        call(cupy_nccl, comm)
    assert double.calls(function) >= 1
    comm.destroy()


def test_a_rank_that_fails_to_join_leaves_the_others_waiting(double, background):
    from cupy.cuda.nccl import NcclCommunicator, get_unique_id

    unique_id = get_unique_id()
    double.fail("CommInitRankConfig", nccl.INTERNAL_ERROR, rank=1)
    other = background(NcclCommunicator, 2, unique_id, 0)
    with fails(nccl.INTERNAL_ERROR):
        NcclCommunicator(2, unique_id, 1)
    double.until_waiting(1)
    made = NcclCommunicator(2, unique_id, 1)
    end([made, other()])


def test_a_destroy_that_fails_leaves_the_communicator(double):
    (comm,) = communicators(1)
    handle = comm.comm
    double.fail("CommDestroy", nccl.INTERNAL_ERROR)
    comm.destroy()  # cupy does not look at the status
    assert double.alive == 1
    assert ctypes.CDLL(nccl.SONAME).ncclCommDestroy(ctypes.c_void_p(handle)) == 0


@pytest.mark.parametrize("failing", ["AllReduce", "GroupEnd"])
def test_nothing_of_a_group_in_which_a_call_fails_is_launched(double, failing):
    from cupy.cuda.nccl import NcclError, groupEnd, groupStart

    (comm,), values = communicators(1), np.array([3, 4])
    double.fail(failing, nccl.INTERNAL_ERROR, rank=0)
    groupStart()
    comm.allGather(values.ctypes.data, values.ctypes.data + 8, 1, INT64, 0)
    try:
        sum_of(comm, values)
    except NcclError:
        assert failing == "AllReduce"
    with fails(nccl.INTERNAL_ERROR):
        groupEnd()
    assert (values.tolist(), double.in_flight) == ([3, 4], 0)
    sum_of(comm, values)  # the next call is in no group
    comm.destroy()


def test_a_stream_that_takes_no_work_fails_the_call(double, stream):
    (comm,) = communicators(1)
    stream.refuses = True
    with fails(nccl.UNHANDLED_CUDA_ERROR):
        sum_of(comm, np.ones(1, int), stream.ptr)
    assert double.in_flight == 0
    comm.destroy()
