"""Streams, events and devices of the simulated GPU do what CUDA's do, and nothing in a more helpful order."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest

from disco_magic.testing.gpu import DiscoStream, SimulatedGpus

DEADLINE_S = 60


def gpu_threads():
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("gpu-")}


def elsewhere(function):
    """What `function` gives in a thread of its own."""
    given = []
    thread = threading.Thread(target=lambda: given.append(function()))
    thread.start()
    thread.join(DEADLINE_S)
    return given[0]


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


# --- current device and stream -----------------------------------------------------------------------------


def test_current_device_and_stream_are_each_threads_own(cupy):
    cupy.cuda.Device(1).use()
    stream = cupy.cuda.Stream().use()
    current = cupy.cuda.get_current_stream
    assert (cupy.cuda.Device().id, current()) == (1, stream)
    assert elsewhere(lambda: (cupy.cuda.Device().id, current())) == (0, cupy.cuda.Stream.null)


def test_one_stream_can_be_entered_by_two_threads_at_a_time(cupy):
    stream = cupy.cuda.Stream()
    inside, left = threading.Event(), threading.Event()

    def other():
        with stream:
            inside.set()
            left.wait(DEADLINE_S)
            return cupy.cuda.get_current_stream() == stream

    given = []
    thread = threading.Thread(target=lambda: given.append(other()))
    with stream:
        thread.start()
        assert inside.wait(DEADLINE_S)
    assert cupy.cuda.get_current_stream() == cupy.cuda.Stream.null
    left.set()
    thread.join(DEADLINE_S)
    assert given == [True]


def test_each_device_has_a_current_stream_of_its_own(cupy):
    stream = cupy.cuda.Stream()
    with stream:
        with cupy.cuda.Device(1):
            assert cupy.cuda.get_current_stream() == cupy.cuda.Stream.null
            assert cupy.cuda.get_current_stream(0) == stream
        assert cupy.cuda.get_current_stream() == stream


def test_a_stream_that_was_made_current_by_use_is_forgotten_by_a_with_block(cupy, two_streams):
    """As CuPy does, whose tests name it: what `use` sets is not on the stack that ``with`` goes back to."""
    a, b = two_streams
    a.use()
    with b:
        assert cupy.cuda.get_current_stream() == b
    assert cupy.cuda.get_current_stream() == cupy.cuda.Stream.null
    with a:
        b.use()
        with cupy.cuda.Stream():
            pass
        assert cupy.cuda.get_current_stream() == a


def test_a_stream_of_another_device_cannot_become_current(cupy):
    stream = cupy.cuda.Stream()
    with cupy.cuda.Device(1):
        with pytest.raises(RuntimeError, match=r"created on \(0\).*current device \(1\)"):
            stream.use()
        with pytest.raises(RuntimeError, match=r"created on \(0\).*current device \(1\)"):
            stream.__enter__()


def test_an_event_of_one_device_cannot_be_recorded_on_a_stream_of_another(cupy):
    event = cupy.cuda.Event()
    with cupy.cuda.Device(1), pytest.raises(RuntimeError, match="an event of device 0, a stream of device 1"):
        event.record()


def test_a_stream_can_be_taken_over_from_another_library(cupy):
    class Foreign:
        def __init__(self, ptr):
            self.ptr = ptr

        def __cuda_stream__(self):
            return 0, self.ptr

    stream = cupy.cuda.Stream()
    same = cupy.cuda.Stream.from_external(Foreign(stream.ptr))
    assert (same, same.device_id, hash(same)) == (stream, 0, hash(stream))
    assert same.__cuda_stream__() == (0, stream.ptr)
    assert cupy.cuda.Stream.from_external(Foreign(0)) == cupy.cuda.Stream.null
    with pytest.raises(RuntimeError, match="0x7 is no stream"):
        cupy.cuda.Stream.from_external(Foreign(7))


def test_devices_are_named_numbered_and_comparable(cupy):
    device = cupy.cuda.Device(1)
    assert (int(device), repr(device), device.pci_bus_id) == (1, "<CUDA Device 1>", "0000:02:00.0")
    assert device == cupy.cuda.Device(device)
    assert len({device, cupy.cuda.Device(0), cupy.cuda.Device(1)}) == 2
    assert (device.compute_capability, device.attributes["MultiProcessorCount"]) == ("90", 4)
    device.synchronize()


def test_a_device_that_is_not_there_is_an_error(cupy):
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="cudaErrorInvalidDevice") as caught:
        cupy.cuda.Device(2).use()
    assert caught.value.status == 101


def test_without_a_device_there_is_nothing():
    with SimulatedGpus(count=0) as gpus:
        runtime = gpus.cupy.cuda.runtime
        assert not gpus.cupy.is_available()
        with pytest.raises(runtime.CUDARuntimeError, match="cudaErrorNoDevice"):
            runtime.getDeviceCount()
        with pytest.raises(runtime.CUDARuntimeError, match="cudaErrorNoDevice"):
            gpus.cupy.zeros(3)


def test_the_runtime_tells_what_the_devices_are(cupy):
    runtime = cupy.cuda.runtime
    assert (runtime.getDeviceCount(), runtime.getDevice(), runtime.is_hip) == (2, 0, False)
    runtime.setDevice(1)
    properties = runtime.getDeviceProperties(1)
    assert (properties["name"], properties["totalGlobalMem"]) == (b"Simulated GPU", 1 << 24)
    assert runtime.deviceGetPCIBusId(runtime.getDevice()) == "0000:02:00.0"
    assert runtime.driverGetVersion() >= runtime.runtimeGetVersion() >= 12000
    assert runtime.deviceCanAccessPeer(0, 1) == 0
    assert cupy.__version__.split(".")[0] == "14"
    assert cupy.is_available()
    assert cupy.cuda.is_available()


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


# --- what goes wrong ---------------------------------------------------------------------------------------


def test_an_exception_of_work_breaks_its_device_for_good(cupy):
    stream, event = cupy.cuda.Stream(), cupy.cuda.Event()
    error = cupy.cuda.runtime.CUDARuntimeError
    stream.launch_host_func(lambda _: 1 // 0, None)
    with pytest.raises(error, match=r"cudaErrorLaunchFailure.*device 0: ZeroDivisionError") as caught:
        stream.synchronize()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    x = []
    for call in (
        lambda: cupy.zeros(3),
        lambda: event.record(stream),
        cupy.cuda.runtime.deviceSynchronize,
        cupy.cuda.Stream,
        lambda: stream.launch_host_func(x.append, 1),
        lambda: cupy.cuda.Device(0).mem_info,
    ):
        with pytest.raises(error, match="cudaErrorLaunchFailure"):
            call()
    with cupy.cuda.Device(1):
        assert cupy.zeros(3).get().tolist() == [0, 0, 0]
    assert x == []
    # As in cupy: who looks whether it is done is told no, and never why.
    assert (stream.done, event.done, cupy.cuda.runtime.eventQuery(event.ptr)) == (False, False, 719)


def test_what_came_after_an_error_on_the_same_device_is_not_done(gpus, cupy, two_streams):
    a, b = two_streams
    done = []
    with gpus.hold(b):
        b.launch_host_func(done.append, 1)
        a.launch_host_func(lambda _: 1 // 0, None)
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            a.synchronize()
    gpus.close()
    assert done == []


def test_closing_tells_of_an_error_that_no_call_has_raised():
    gpus = SimulatedGpus(count=1)
    gpus.cupy.cuda.Stream.null.launch_host_func(lambda _: 1 // 0, None)
    with pytest.raises(RuntimeError, match="device 0 broke unnoticed: ZeroDivisionError"):
        gpus.close()
    gpus.close()
    assert not gpu_threads()


def test_closing_tells_of_a_stream_that_is_held_and_ends_it():
    gpus = SimulatedGpus(count=1)
    gpus.hold(gpus.cupy.cuda.Stream.null)
    with pytest.raises(RuntimeError, match="gpu-0-stream-0 was held"):
        gpus.close()
    assert not gpu_threads()


def test_an_error_inside_of_the_block_is_not_hidden_by_that_of_closing():
    def block():
        with SimulatedGpus(count=1) as gpus:
            gpus.fail(0, ValueError("made up"))
            raise KeyError("the block's")

    with pytest.raises(KeyError, match="the block's"):
        block()


def test_closing_does_what_is_pending_and_leaves_no_thread():
    done = []
    with SimulatedGpus(count=2, lag=5) as gpus:
        stream = gpus.cupy.cuda.Stream()
        for number in range(20):
            stream.launch_host_func(done.append, number)
        assert {"gpu-0-stream-0", "gpu-0-stream-1", "gpu-1-stream-0"} <= gpu_threads()
    assert done == list(range(20))
    assert not gpu_threads()
    with pytest.raises(gpus.cupy.cuda.runtime.CUDARuntimeError, match="was destroyed"):
        stream.synchronize()
    with pytest.raises(gpus.cupy.cuda.runtime.CUDARuntimeError, match="closed"):
        gpus.cupy.cuda.Stream()


def test_a_stream_that_nobody_has_any_more_ends_after_its_work(gpus, cupy):
    stream, done = cupy.cuda.Stream(), []
    with gpus.hold(stream):
        stream.launch_host_func(done.append, 1)
        event = stream.record()
        queue = gpus.queues(0)[1]
        del stream
        assert not done
    queue.thread.join(DEADLINE_S)
    assert (done, event.done, queue.done) == ([1], True, True)
    cupy.cuda.runtime.deviceSynchronize()
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="was destroyed"):
        cupy.cuda.runtime.streamSynchronize(queue.ptr)


def test_whoever_waits_for_a_stream_that_ends_meanwhile_is_woken(cupy, gpus):
    """A marker can come after the queue's last piece: the thread, or who put it, has to finish it."""
    stream = cupy.cuda.Stream()
    queue = gpus.queues(0)[1]
    with gpus.hold(stream) as hold:
        del stream
        late = queue.mark_alone()
        hold.release()
        assert late.wait(DEADLINE_S)
    queue.thread.join(DEADLINE_S)
    assert queue.mark_alone().wait(DEADLINE_S)


INJECTIONS = """
import threading

from disco_magic.errors import WorkerInterrupt
from disco_magic.injection import inject
from disco_magic.testing.gpu import SimulatedGpus

def work(started):
    try:
        with stream:
            x = cupy.zeros(8)
            while True:
                x += 1
                started.set()
    except WorkerInterrupt:
        pass

with SimulatedGpus(count=1) as gpus:
    cupy = gpus.cupy
    stream = cupy.cuda.Stream(non_blocking=True)
    for _ in range(100):
        started = threading.Event()
        thread = threading.Thread(target=work, args=(started,))
        thread.start()
        started.wait()
        inject(thread.ident)
        thread.join()
        stream.synchronize()
        assert stream.done
    print(cupy.get_default_memory_pool().n_free_blocks() > 0)
"""


def test_an_injected_exception_leaves_a_stream_in_order():
    """It strikes between any two bytecodes; each piece is then in the queue, or not, but never half.

    In a process of its own: on Python 3.11 threads that coverage traces can hang while one is injected.
    """
    command = [sys.executable, "-c", INJECTIONS]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_S)  # noqa: S603
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_a_wait_of_the_host_ends_with_an_error_that_names_the_stream(gpus, cupy, monkeypatch):
    monkeypatch.setattr("disco_magic.testing.gpu.streams.DEADLINE_S", 0.0)
    monkeypatch.setattr("disco_magic.testing.gpu.pieces.DEADLINE_S", 0.0)
    stream = cupy.cuda.Stream()
    with gpus.hold(stream):
        with pytest.raises(TimeoutError, match="gpu-0-stream-1"):
            stream.synchronize()
        second = gpus.hold(stream)
        with pytest.raises(TimeoutError, match="did not come to the hold"):
            second.arrived()
        second.release()


# --- the module --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("", "fft"),
        ("cuda", "nccl"),
        ("cuda.runtime", "graphLaunch"),
        ("random", "rand"),
        ("cuda.memory", "x"),
    ],
)
def test_what_is_not_simulated_says_so_by_name(cupy, path, name):
    module = cupy
    for part in filter(None, path.split(".")):
        module = getattr(module, part)
    with pytest.raises(NotImplementedError, match=rf"cupy.*\b{name}\b"):
        getattr(module, name)
    assert not hasattr(module, name)


def test_a_test_can_bring_its_own_nccl(cupy):
    cupy.cuda.nccl = object()
    assert hasattr(cupy.cuda, "nccl")


def test_streams_per_thread_are_refused(cupy):
    with pytest.raises(NotImplementedError, match="per-thread"):
        cupy.cuda.Stream(ptds=True)


def test_an_event_for_other_processes_keeps_no_time(cupy):
    with pytest.raises(ValueError, match="Timing must be disabled"):
        cupy.cuda.Event(interprocess=True)
