"""The double of NCCL refuses, and writes down, what no correct program does."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.doubles import nccl
from tests.doubles.nccl_ranks import (
    FLOAT32,
    INT8,
    INT64,
    MAX,
    SUM,
    Stream,
    communicators,
    end,
    fails,
    sum_of,
)


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (lambda c, at: c.allReduce(at, at, 1, INT64, SUM, 0), "rank 1 AllReduce(1 x int64, sum)"),
        (lambda c, at: c.allReduce(at, at, 2, FLOAT32, SUM, 0), "rank 1 AllReduce(2 x float32, sum)"),
        (lambda c, at: c.allReduce(at, at, 2, INT64, MAX, 0), "rank 1 AllReduce(2 x int64, max)"),
        (lambda c, at: c.reduce(at, at, 2, INT64, SUM, 0, 0), "rank 1 Reduce(2 x int64, sum, root 0)"),
        (lambda c, at: c.bcast(at, 2, INT64, 1, 0), "rank 1 Broadcast(2 x int64, root 1)"),
        (lambda c, at: c.commSplit(0, 0), "rank 1 CommSplit"),
    ],
)
def test_calls_that_do_not_fit_move_nothing_and_wait_for_their_abort(double, background, other, text):
    comms, values = communicators(2), np.array([[1, 2], [3, 4]])
    first = background(sum_of, comms[0], values[0])
    double.until_waiting(1)
    second = background(other, comms[1], values[1].ctypes.data)
    double.until_waiting(2)
    assert values.tolist() == [[1, 2], [3, 4]]
    assert double.mistakes == [f"operation 1 does not fit: rank 0 AllReduce(2 x int64, sum), {text}"]
    for comm in comms:
        with fails(nccl.INVALID_USAGE):
            comm.check_async_error()
    end(comms)
    first()
    if "CommSplit" in text:
        with fails(nccl.REMOTE_ERROR):
            second()
    else:
        second()


def test_roots_and_the_two_ends_of_a_pair_have_to_agree(double, background):
    comms, values = communicators(3), np.zeros(6, int)
    calls = [background(comms[rank].bcast, values.ctypes.data, 2, INT64, rank, 0) for rank in range(2)]
    double.until_waiting(2)
    end(comms[:2])
    for call in calls:
        call()
    end(comms[2:])
    assert "root 0" in double.mistakes[0]
    assert "root 1" in double.mistakes[0]
    comms = communicators(2)
    call = background(comms[0].send, values.ctypes.data, 2, INT64, 1, 0)
    double.until_waiting(1)
    other = background(comms[1].recv, values.ctypes.data, 2, INT8, 0, 0)
    double.until_waiting(2)
    end(comms)
    call()
    other()
    assert double.mistakes[1:] == [
        "operation 1 does not fit: rank 0 Send(2 x int64, peer 1), rank 1 Recv(2 x int8, peer 0)"
    ]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((0, 16, 2, INT64, SUM), "a buffer is NULL"),
        ((16, 24, 2, INT64, SUM), "the buffers overlap, but not as they do in place"),
        ((20, 20, 1, INT64, SUM), "a buffer is not aligned to its elements"),
        ((16, 16, 2, 12, SUM), "no such dtype"),
        ((16, 16, 2, INT64, 5), "no such reduction"),
        ((16, 16, 2**61, INT64, SUM), "the count is too large"),
    ],
)
def test_bad_arguments_are_refused_at_once(double, arguments, text):
    (comm,) = communicators(1)
    with fails(nccl.INVALID_ARGUMENT):
        comm.allReduce(*arguments, 0)
    assert double.mistakes == [f"rank 0 AllReduce: {text}"]
    with fails(nccl.INVALID_ARGUMENT):
        comm.bcast(16, 1, INT64, 1, 0)
    with fails(nccl.INVALID_ARGUMENT):
        comm.send(16, 1, INT64, -1, 0)
    assert double.mistakes[1:] == ["rank 0 Bcast: the root is no rank", "rank 0 Send: the peer is no rank"]
    comm.destroy()


def test_a_unique_id_makes_one_world_with_each_rank_once_on_a_device_of_its_own(double, background):
    from cupy.cuda.nccl import NcclCommunicator, get_unique_id

    unique_id = get_unique_id()
    first = background(NcclCommunicator, 2, unique_id, 0)
    double.until_waiting(1)
    for size, rank, status in [(2, 0, 5), (3, 1, 5), (2, 2, 4), (2, -1, 4), (257, 1, 4)]:
        with fails(status):
            NcclCommunicator(size, unique_id, rank)
    second = NcclCommunicator(2, unique_id, 1)
    for used in (unique_id, bytes(128)):
        with fails(nccl.INVALID_ARGUMENT):
            NcclCommunicator(2, used, 0)
    end([first(), second])
    double.set_device(0, 3)
    double.set_device(2, 3)
    with fails(nccl.INVALID_USAGE):
        communicators(3)
    assert double.mistakes[-1] == "ranks 0 and 2 are both on device 3"
    assert len(double.mistakes) == 8


def test_a_communicator_works_on_streams_of_its_own_gpu_only(double):
    from cupy.cuda.nccl import NcclCommunicator, get_unique_id

    double.set_device(0, 3)
    comm, stream, value = NcclCommunicator(1, get_unique_id(), 0), Stream(), np.array([5])
    assert comm.device_id() == 3
    at = value.ctypes.data
    comm.allReduce(at, at, 1, INT64, SUM, stream.ptr)
    stream.device = 2
    with fails(nccl.UNHANDLED_CUDA_ERROR):
        comm.allReduce(at, at, 1, INT64, SUM, stream.ptr)
    assert double.mistakes == ["rank 0 AllReduce: a stream of device 2, and a communicator of device 3"]
    stream.synchronize()
    stream.close()
    comm.destroy()


def test_a_communicator_that_is_gone_is_noticed(double):
    library, (comm,) = ctypes.CDLL(nccl.SONAME), communicators(1)
    handle = ctypes.c_void_p(comm.comm)
    comm.abort()
    with fails(nccl.INVALID_ARGUMENT):
        comm.size()
    assert library.ncclCommDestroy(handle) == nccl.INVALID_ARGUMENT
    assert double.mistakes == [
        f"{name} was called on a communicator that is gone" for name in ("CommCount", "CommDestroy")
    ]
    library.ncclGetLastError.restype = ctypes.c_char_p
    assert library.ncclGetLastError(None).decode() == double.mistakes[-1]


def test_what_a_reset_took_back_may_be_destroyed_later(double):
    (comm,), (other,) = communicators(1), communicators(1)
    double.stall(0)
    double.fail("CommCount", nccl.INTERNAL_ERROR)
    assert double.reset() == 2
    comm.destroy()
    del other
    assert (double.alive, double.mistakes, double.calls("CommInitRankConfig")) == (0, [], 0)
    (comm,) = communicators(1)
    assert comm.size() == 1
    comm.destroy()


def test_functions_that_cupy_does_not_call_are_there_too(double):
    """A supplement over the same library may call them, and may pass them cupy's handles."""
    library, (comm,) = ctypes.CDLL(nccl.SONAME), communicators(1)
    assert library.ncclCommFinalize(ctypes.c_void_p(comm.comm)) == 0
    comm.destroy()
    assert library.ncclGroupEnd() == nccl.INVALID_USAGE
    library.ncclGetErrorString.restype = ctypes.c_char_p
    assert library.ncclGetErrorString(nccl.TIMEOUT) == b"timed out"
    assert library.ncclGetErrorString(9) == b"no such status"


def test_ranks_that_the_double_does_not_have_are_refused(double):
    for order in (double.stall, double.release, lambda rank: double.set_device(rank, 0)):
        with pytest.raises(ValueError, match="0 to 255"):
            order(256)


def test_the_double_does_not_come_after_another_nccl(tmp_path):
    library = nccl.compile_into(tmp_path)
    program = (
        "import ctypes\nfrom tests.doubles import nccl\nassert nccl.available() is None\n"
        f"ctypes.CDLL({str(library)!r})\nprint(nccl.available())\n"
        "try:\n    nccl.load()\nexcept RuntimeError as error:\n    print(error)"
    )
    root = Path(__file__).parents[3]
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)  # noqa: S603 - our own
    assert done.stdout.splitlines() == [
        "cupy.cuda.nccl or another libnccl.so.2 is loaded in this process, and stays",
        "cupy.cuda.nccl or another libnccl.so.2 is loaded: load the double first",
    ]


def test_sources_that_do_not_compile_are_shown_with_what_the_compiler_said(tmp_path):
    with pytest.raises(RuntimeError, match=r"does not compile:\n.*no-such-option"):
        nccl.compile_into(tmp_path, "-fno-such-option")
