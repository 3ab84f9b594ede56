"""Streams and events of the simulated GPU do what CUDA's do, and nothing in a more helpful order."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import threading

import numpy as np
import pytest

from disco_magic.testing.gpu import DiscoStream, SimulatedGpus
from tests.conftest import DEADLINE_S

# --- work is done later ------------------------------------------------------------------------------------


def test_shape_and_dtype_are_there_before_the_data_is(gpus, cupy):
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        x = cupy.full((2, 3), 5, np.float32)
        stream.synchronize()
        with gpus.hold(stream) as hold:
            y = (x + 1).astype(np.float64).sum(axis=0)
            assert (y.shape, y.dtype, stream.done) == ((3,), np.float64, False)
            assert y.raw.tobytes() != np.full(3, 12.0).tobytes()
            hold.release()
            assert y.get().tolist() == [12.0, 12.0, 12.0]
    assert stream.done


def test_a_held_stream_does_what_it_was_given_before_and_nothing_after(gpus, cupy):
    stream = cupy.cuda.Stream(non_blocking=True)
    order = []
    stream.launch_host_func(order.append, "before")
    with gpus.hold(stream.ptr) as hold:
        stream.launch_host_func(order.append, "after")
        hold.arrived()
        assert order == ["before"]
        assert [queue.pending for queue in gpus.queues(0)] == [0, 2]
    stream.synchronize()
    assert order == ["before", "after"]


def test_a_stream_does_its_work_in_order_also_with_a_lag():
    with SimulatedGpus(count=1, lag=1) as gpus:
        stream, order = gpus.cupy.cuda.Stream(), []
        for number in range(50):
            stream.launch_host_func(order.append, number)
        stream.synchronize()
    assert order == list(range(50))


def test_a_lag_is_waited_before_every_piece_of_work():
    asked = []

    def lag():
        asked.append(threading.current_thread().name)
        return 0.0

    with SimulatedGpus(count=1, lag=lag) as gpus:
        stream = gpus.cupy.cuda.Stream(non_blocking=True)
        stream.launch_host_func(asked.append, "work")
        stream.synchronize()
    assert asked[:3] == ["gpu-0-stream-1", "work", "gpu-0-stream-1"]


def test_work_goes_on_while_the_host_does_something_else(gpus, cupy, two_streams):
    a, b = two_streams
    reached = threading.Event()
    with gpus.hold(a):
        b.launch_host_func(lambda _: reached.set(), None)
        assert reached.wait(DEADLINE_S)


# --- what orders streams -----------------------------------------------------------------------------------


def producer_and_consumer(gpus, cupy, streams, *, with_event):
    """What another stream reads while the one that writes is held, and after it."""
    writes, reads = streams
    waiting = gpus.queues(0)[2]
    x = cupy.zeros(3)
    cupy.cuda.runtime.deviceSynchronize()
    with gpus.hold(writes) as hold:
        with writes:
            x.fill(7)
        event = writes.record()
        if with_event:
            reads.wait_event(event)
        with reads:
            y = x + 1
        if with_event:
            assert waiting.pending == 2  # the wait, which cannot be over, and the sum
            hold.release()
        return y.get(stream=reads).tolist()


def test_a_missing_event_shows_stale_data(gpus, cupy, two_streams):
    assert producer_and_consumer(gpus, cupy, two_streams, with_event=False) == [1, 1, 1]


def test_an_event_orders_two_streams(gpus, cupy, two_streams):
    assert producer_and_consumer(gpus, cupy, two_streams, with_event=True) == [8, 8, 8]


def test_an_event_orders_streams_of_two_devices(gpus, cupy):
    first = cupy.cuda.Stream(non_blocking=True)
    with cupy.cuda.Device(1):
        second = cupy.cuda.Stream(non_blocking=True)
    order = []
    with gpus.hold(first):
        first.launch_host_func(order.append, 0)
        second.wait_event(first.record())
        second.launch_host_func(order.append, 1)
        assert gpus.queues(1)[1].pending == 2
    second.synchronize()
    assert order == [0, 1]


def test_an_event_is_done_when_its_stream_got_there(gpus, cupy):
    stream, event = cupy.cuda.Stream(), cupy.cuda.Event()
    assert event.done
    with gpus.hold(stream):
        event.record(stream)
        assert not event.done
    event.synchronize()
    assert event.done


def test_waiting_for_an_event_means_its_last_recording_before_the_call(gpus, cupy, two_streams):
    a, b = two_streams
    event = a.record()
    b.wait_event(event)
    with gpus.hold(a):
        event.record(a)
        b.synchronize()
        assert not event.done


def test_waiting_for_an_event_that_was_never_recorded_is_nothing(cupy):
    stream = cupy.cuda.Stream()
    stream.wait_event(cupy.cuda.Event())
    stream.synchronize()


@pytest.mark.parametrize("non_blocking", [False, True])
def test_the_null_stream_waits_for_blocking_streams_only(gpus, cupy, non_blocking):
    stream = cupy.cuda.Stream(non_blocking=non_blocking)
    order = []
    with gpus.hold(stream):
        stream.launch_host_func(order.append, "stream")
        cupy.cuda.Stream.null.launch_host_func(order.append, "null")
        if non_blocking:
            cupy.cuda.Stream.null.synchronize()
    cupy.cuda.runtime.deviceSynchronize()
    assert order == (["null", "stream"] if non_blocking else ["stream", "null"])


@pytest.mark.parametrize("non_blocking", [False, True])
def test_blocking_streams_only_wait_for_the_null_stream(gpus, cupy, non_blocking):
    stream = cupy.cuda.Stream(non_blocking=non_blocking)
    order = []
    with gpus.hold(cupy.cuda.Stream.null):
        cupy.cuda.Stream.null.launch_host_func(order.append, "null")
        stream.launch_host_func(order.append, "stream")
        if non_blocking:
            stream.synchronize()
    cupy.cuda.runtime.deviceSynchronize()
    assert order == (["stream", "null"] if non_blocking else ["null", "stream"])


def test_the_null_streams_of_two_devices_do_not_wait_for_each_other(gpus, cupy):
    with gpus.hold(cupy.cuda.Stream.null), cupy.cuda.Device(1):
        assert cupy.ones(3).sum().item() == 3


def test_the_time_between_two_events_is_that_of_the_stream(cupy):
    stream = cupy.cuda.Stream()
    start, end = stream.record(), stream.record()
    end.synchronize()
    assert cupy.cuda.get_elapsed_time(start, end) >= 0


def test_the_time_between_events_needs_two_that_are_done_and_keep_it(gpus, cupy):
    stream, timeless = cupy.cuda.Stream(), cupy.cuda.Event(disable_timing=True)
    start = stream.record()
    error = cupy.cuda.runtime.CUDARuntimeError
    with pytest.raises(error, match="cudaErrorInvalidResourceHandle"):
        cupy.cuda.get_elapsed_time(start, stream.record(timeless))
    with gpus.hold(stream):
        end = stream.record()
        with pytest.raises(error, match="cudaErrorNotReady"):
            cupy.cuda.get_elapsed_time(start, end)


# --- C libraries -------------------------------------------------------------------------------------------


LIBRARY = r"""
typedef struct DiscoStream {
    int (*enqueue)(struct DiscoStream *self, void (*work)(void *argument), void *argument);
} DiscoStream;
static void double_it(void *number) { *(int *)number *= 2; }
int twice(DiscoStream *stream, int *number) { return stream->enqueue(stream, double_it, number); }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if shutil.which("gcc") is None:
        pytest.skip("there is no compiler")
    path = tmp_path_factory.mktemp("library") / "library.so"
    command = ["gcc", "-x", "c", "-shared", "-fPIC", "-o", str(path), "-"]
    subprocess.run(command, input=LIBRARY, text=True, check=True)  # noqa: S603 - our own code
    library = ctypes.CDLL(str(path))
    library.twice.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
    return library


def test_a_library_in_c_puts_work_on_a_stream_by_its_address(gpus, cupy, library):
    stream, number = cupy.cuda.Stream(), ctypes.c_int(21)
    with gpus.hold(stream):
        assert library.twice(stream.ptr, ctypes.byref(number)) == 0
        assert (number.value, stream.done) == (21, False)
    stream.synchronize()
    assert number.value == 42


def test_work_in_c_is_refused_on_a_broken_device(gpus, cupy, library):
    stream, number = cupy.cuda.Stream(), ctypes.c_int(21)
    gpus.fail(0, ValueError("made up"))
    assert library.twice(stream.ptr, ctypes.byref(number)) != 0
    with pytest.raises(RuntimeError, match="made up"):
        stream.synchronize()
    assert number.value == 21


def test_work_in_c_that_was_put_before_is_done_on_a_broken_device(gpus, cupy, library):
    stream, number, other = cupy.cuda.Stream(), ctypes.c_int(21), []
    with gpus.hold(stream):
        library.twice(stream.ptr, ctypes.byref(number))
        stream.launch_host_func(other.append, 1)
        gpus.fail(0, ValueError("made up"))
        with pytest.raises(RuntimeError, match="made up"):
            cupy.zeros(3)
    gpus.close()
    assert (number.value, other) == (42, [])


def test_the_null_stream_has_no_address_and_others_are_the_address_of_a_struct(cupy):
    stream = cupy.cuda.Stream()
    assert (cupy.cuda.Stream.null.ptr, cupy.cuda.Stream(null=True).ptr) == (0, 0)
    assert DiscoStream.from_address(stream.ptr).enqueue
