"""Ranks for the double of NCCL: threads, streams that are threads, and dtypes by their codes.

A test file that imports this is skipped where the double cannot be used.
"""

from __future__ import annotations

import ctypes
import queue
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import ml_dtypes
import numpy as np
import pytest

from tests.conftest import DEADLINE_S, stacks
from tests.doubles import nccl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

if (_reason := nccl.available()) is not None:
    pytest.skip(_reason, allow_module_level=True)

SUM, PROD, MAX, MIN, AVG = range(5)
INT8, UINT8, INT32, INT64, FLOAT16, FLOAT32, FLOAT64, E4M3, E5M2 = 0, 1, 2, 4, 6, 7, 8, 10, 11
DTYPES: Final = [
    *map(np.dtype, ["i1", "u1", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]),
    *map(np.dtype, [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]),
]

_WORK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_ENQUEUE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


@contextmanager
def empty_double() -> Iterator[nccl.Double]:
    """The double without orders and mistakes, in which nothing may be left at the end."""
    if (reason := nccl.available()) is not None:
        pytest.skip(reason)
    double = nccl.load()
    double.reset()
    double.set_gpus(None)  # ranks here have no GPUs
    yield double
    left, in_flight, waiting = double.alive, double.in_flight, double.waiting
    double.reset()  # whoever waits in a failed test goes on
    assert (left, in_flight, waiting) == (0, 0, 0), "communicators, operations or waiting threads were left"


class _DiscoStream(ctypes.Structure):
    _fields_ = (("enqueue", _ENQUEUE), ("device", ctypes.c_int))


class Stream:
    """What stands for a CUDA stream: a thread that does its work in order.

    Attributes:
        ptr: its address, which cupy passes on as an integer.
        refuses: whether it takes no more work of NCCL's.
        device: that of its GPU; -1: it stands for one of any.
    """

    def __init__(self) -> None:
        self.refuses = False
        self._works: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._struct = _DiscoStream(_ENQUEUE(self._enqueue), -1)
        self.ptr = ctypes.addressof(self._struct)
        self._thread = threading.Thread(target=self._run, name="stream", daemon=True)
        self._thread.start()

    def _enqueue(self, _: int, work: int, argument: int) -> int:
        if not self.refuses:
            self._works.put(lambda: _WORK(work)(argument))
        return int(self.refuses)

    def _run(self) -> None:
        for work in iter(self._works.get, None):
            work()

    @property
    def device(self) -> int:
        return int(self._struct.device)

    @device.setter
    def device(self, device: int) -> None:
        self._struct.device = device

    def put(self, work: Callable[[], object]) -> None:
        """Queue a call of `work`."""
        self._works.put(work)

    def synchronize(self) -> None:
        """Return when all that was queued is done."""
        done = threading.Event()
        self._works.put(done.set)
        assert done.wait(DEADLINE_S), f"the stream hangs:\n{stacks([self._thread])}"

    def close(self) -> None:
        """End the thread after its work."""
        self._works.put(None)
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive(), f"the stream hangs:\n{stacks([self._thread])}"


def each(size: int, program: Callable[[int], Any]) -> list[Any]:
    """Call ``program(rank)`` in `size` threads; returns what they returned.

    If one raises, everything in the double is aborted, so that the others do not wait for it.
    """
    outcomes: list[Any] = [None] * size
    errors: list[BaseException] = []

    def work(rank: int) -> None:
        try:
            outcomes[rank] = program(rank)
        except BaseException as error:  # noqa: BLE001 - raised again in the test's thread
            errors.append(error)
            nccl.load().abort_all()

    threads = [threading.Thread(target=work, args=(rank,), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    stuck = [thread for thread in threads if thread.is_alive()]
    text = stacks(stuck)
    if stuck:
        nccl.load().abort_all()
    assert not stuck, f"{len(stuck)} of {size} ranks hang, {nccl.load().mistakes}:\n{text}"
    if errors:
        raise errors[0]
    return outcomes


def at(array: np.ndarray[Any, Any], index: int = 0) -> int:
    """The address of an element of a flat array; it may be the one past the last."""
    return array.ctypes.data + index * array.itemsize


def sum_of(comm: Any, values: np.ndarray[Any, Any], ptr: int = 0) -> None:
    """Add the ranks' `values` up, int64, in place."""
    comm.allReduce(at(values), at(values), values.size, INT64, SUM, ptr)


def communicators(size: int) -> list[Any]:
    """One of cupy's communicators per rank, made by one thread each."""
    from cupy.cuda.nccl import NcclCommunicator, get_unique_id

    unique_id = get_unique_id()
    return each(size, lambda rank: NcclCommunicator(size, unique_id, rank))


def end(comms: list[Any]) -> None:
    """Abort `comms`."""
    for comm in comms:
        comm.abort()


@contextmanager
def fails(status: int) -> Iterator[None]:
    """``with fails(nccl.INVALID_USAGE):`` the call in it fails with that status."""
    from cupy.cuda.nccl import NcclError

    with pytest.raises(NcclError) as error:
        yield
    assert error.value.status == status


def run_world(size: int, program: Callable[[Any, int, int], Any], *, streams: bool) -> list[Any]:
    """Call ``program(comm, rank, stream pointer)`` in `size` threads, with a stream for each or with none.

    Returns:
        What they returned, when the streams are done: arrays in it have their results.
    """
    comms = communicators(size)
    made = [Stream() if streams else None for _ in comms]

    def work(rank: int) -> Any:
        stream = made[rank]
        try:
            return program(comms[rank], rank, stream.ptr if stream else 0)
        finally:
            if stream:
                stream.synchronize()
            comms[rank].destroy()

    try:
        return each(size, work)
    finally:
        for stream in filter(None, made):
            stream.close()
