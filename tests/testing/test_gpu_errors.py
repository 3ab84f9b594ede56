"""What goes wrong on the simulated GPU, and how it ends: broken devices, held streams, threads in the way."""

from __future__ import annotations

import subprocess
import sys

import pytest

from disco_magic.testing.gpu import SimulatedGpus
from tests.conftest import DEADLINE_S
from tests.testing.conftest import gpu_threads


def test_an_exception_of_work_breaks_its_device_for_good(cupy):
    stream, event, y = cupy.cuda.Stream(), cupy.cuda.Event(), cupy.zeros(3)
    error = cupy.cuda.runtime.CUDARuntimeError
    stream.launch_host_func(lambda _: 1 // 0, None)
    with pytest.raises(error, match=r"cudaErrorLaunchFailure.*device 0: ZeroDivisionError") as caught:
        stream.synchronize()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    x = []
    for call in (
        lambda: cupy.zeros(3),
        cupy.cuda.Device(0).use,
        lambda: event.record(stream),
        cupy.cuda.runtime.deviceSynchronize,
        cupy.cuda.Stream,
        lambda: stream.launch_host_func(x.append, 1),
        lambda: cupy.cuda.Device(0).mem_info,
    ):
        with pytest.raises(error, match="cudaErrorLaunchFailure"):
            call()
    with pytest.raises(cupy.cuda.driver.CUDADriverError, match="cudaErrorLaunchFailure") as caught:
        y += 1  # a kernel
    assert caught.value.status == 719
    cupy.cuda.Device(1).use()
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
        assert {"gpu-0-stream-0", "gpu-0-stream-1", "gpu-1-stream-0"} <= set(gpu_threads())
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
from disco_magic.workers.injection import inject
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
