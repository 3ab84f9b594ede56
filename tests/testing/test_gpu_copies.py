"""Copies of simulated GPUs by address: when they read, whether they wait, what they keep."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

UNIT = 512


def test_pinned_memory_is_a_buffer(cupy):
    pinned = cupy.cuda.alloc_pinned_memory(80)
    host = np.frombuffer(pinned, np.float64, 10)
    host[:] = 3
    assert (pinned.ptr, pinned.size(), pinned.mem.ptr) == (host.ctypes.data, 80, pinned.ptr)
    assert bytes(pinned) == host.tobytes()


def test_pinned_memory_that_was_freed_is_somebody_elses_at_once(cupy):
    pinned = cupy.cuda.alloc_pinned_memory(100)
    np.frombuffer(pinned, np.uint8)[:] = 7
    ptr = pinned.ptr
    view = np.frombuffer(pinned, np.uint8)
    del pinned
    assert cupy.cuda.alloc_pinned_memory(100).ptr != ptr
    del view
    gc.collect()
    again = cupy.cuda.alloc_pinned_memory(200)
    assert (again.ptr, bytes(again)[0]) == (ptr, 7)


def test_the_pool_of_pinned_memory_can_be_emptied(cupy):
    pool = cupy.get_default_pinned_memory_pool()
    ptr = cupy.cuda.alloc_pinned_memory(100).ptr
    gc.collect()
    assert pool.n_free_blocks() == 1
    pool.free_all_blocks()
    assert pool.n_free_blocks() == 0
    assert cupy.cuda.alloc_pinned_memory(100).ptr != ptr


@pytest.fixture
def pinned(cupy):
    """Pinned memory and an array over it."""
    memory = cupy.cuda.alloc_pinned_memory(32)
    return memory, np.frombuffer(memory, np.float64)


def test_a_copy_from_pinned_memory_reads_when_it_is_made(gpus, cupy, two_streams, pinned):
    (stream, _), (memory, host), runtime = two_streams, pinned, cupy.cuda.runtime
    x = cupy.zeros(4)
    host[:] = 1
    with gpus.hold(stream):
        runtime.memcpyAsync(x.data.ptr, memory.ptr, 32, runtime.memcpyHostToDevice, stream.ptr)
        host[:] = 2
    assert x.get(stream=stream).tolist() == [2, 2, 2, 2]


def test_a_copy_does_not_keep_pinned_memory(gpus, cupy, two_streams):
    (stream, _), host = two_streams, np.frombuffer(cupy.cuda.alloc_pinned_memory(32), np.float64)
    x = cupy.zeros(4)
    host[:] = 1
    with gpus.hold(stream):
        x.set(host, stream=stream)
        del host
        gc.collect()
        np.frombuffer(cupy.cuda.alloc_pinned_memory(32), np.float64)[:] = 2
    assert x.get(stream=stream).tolist() == [2, 2, 2, 2]


def test_a_copy_from_pageable_memory_takes_what_is_there_at_the_call(gpus, cupy, two_streams):
    (stream, _), runtime = two_streams, cupy.cuda.runtime
    x, host = cupy.zeros(4), np.ones(4)
    with gpus.hold(stream):
        runtime.memcpyAsync(x.data.ptr, host.ctypes.data, 32, runtime.memcpyHostToDevice, stream.ptr)
        host[:] = 2
    assert x.get(stream=stream).tolist() == [1, 1, 1, 1]


def test_a_copy_into_pinned_memory_does_not_wait(gpus, cupy, two_streams, pinned):
    (stream, _), (memory, host), runtime = two_streams, pinned, cupy.cuda.runtime
    x = cupy.ones(4)
    cupy.cuda.runtime.deviceSynchronize()
    host[:] = 5
    with gpus.hold(stream):
        runtime.memcpyAsync(memory.ptr, x.data.ptr, 32, runtime.memcpyDeviceToHost, stream.ptr)
        assert x.get(stream=stream, out=host, blocking=False) is host
        assert host.tolist() == [5, 5, 5, 5]
    stream.synchronize()
    assert host.tolist() == [1, 1, 1, 1]


def test_a_copy_into_pinned_memory_that_is_to_block_does(gpus, cupy, pinned):
    stream, (_, host), given = cupy.cuda.Stream(non_blocking=True), pinned, []
    with stream:
        x = cupy.ones(4)
    thread = threading.Thread(target=lambda: given.append(x.get(stream=stream, out=host).tolist()))
    with gpus.hold(stream):
        thread.start()
        while gpus.queues(0)[1].pending < 3 and thread.is_alive():
            pass  # the hold, the copy, and the point that is waited for
    thread.join()
    assert given == [[1, 1, 1, 1]]


def test_a_copy_into_pageable_memory_waits_whatever_was_asked_for(gpus, cupy, two_streams, background):
    stream, _ = two_streams
    with stream:
        x = cupy.ones(4)
    with gpus.hold(stream) as hold:
        copy = background(lambda: x.get(stream=stream, blocking=False))
        hold.arrived()
        hold.release()
        assert copy().tolist() == [1, 1, 1, 1]


def test_copies_on_the_null_stream_wait_for_the_host_and_for_blocking_streams(gpus, cupy):
    stream, runtime = cupy.cuda.Stream(), cupy.cuda.runtime
    x, y, host = cupy.zeros(4), cupy.zeros(4), np.zeros(4)
    with stream:
        x.fill(3)
    runtime.memcpy(y.data.ptr, x.data.ptr, 32, runtime.memcpyDeviceToDevice)
    runtime.memcpy(host.ctypes.data, y.data.ptr, 32, runtime.memcpyDeviceToHost)
    assert host.tolist() == [3, 3, 3, 3]
    runtime.memcpy(x.data.ptr, (host * 2).ctypes.data, 32, runtime.memcpyHostToDevice)
    assert x.get().tolist() == [6, 6, 6, 6]


@pytest.mark.parametrize(("target", "source"), [("x", "y"), ("x", "host"), ("host", "x"), ("host", "other")])
def test_the_kind_of_a_copy_can_be_left_to_the_addresses(cupy, target, source):
    arrays = {"x": cupy.ones(4), "y": cupy.full(4, 2.0), "host": np.full(4, 3.0), "other": np.full(4, 4.0)}
    to, of = arrays[target], arrays[source]
    before = of if source in ("host", "other") else of.get()
    pointers = [each.ctypes.data if isinstance(each, np.ndarray) else each.data.ptr for each in (to, of)]
    stream, runtime = cupy.cuda.Stream(), cupy.cuda.runtime
    runtime.memcpyAsync(*pointers, 32, runtime.memcpyDefault, stream.ptr)
    stream.synchronize()
    after = to if target == "host" else to.get()
    assert after.tolist() == before.tolist()


def test_bytes_can_be_set(cupy):
    x, stream, runtime = cupy.empty(8, np.uint8), cupy.cuda.Stream(), cupy.cuda.runtime
    runtime.memset(x.data.ptr, 1, 8)
    runtime.memsetAsync(x.data.ptr + 2, 0x1FF, 2, stream.ptr)
    assert x.get(stream=stream).tolist() == [1, 1, 255, 255, 1, 1, 1, 1]


@pytest.mark.parametrize("call", ["memset", "target", "source"])
def test_an_address_that_is_not_the_devices_breaks_it_when_the_stream_gets_there(gpus, cupy, call):
    x, host, runtime = cupy.zeros(4), np.zeros(4), cupy.cuda.runtime
    stream = cupy.cuda.Stream()
    runtime.deviceSynchronize()
    with gpus.hold(stream):
        if call == "memset":
            runtime.memsetAsync(host.ctypes.data, 0, 8, stream.ptr)
        elif call == "target":
            runtime.memcpyAsync(host.ctypes.data, x.data.ptr, 8, runtime.memcpyDeviceToDevice, stream.ptr)
        else:
            beyond = x.data.ptr + UNIT - 8
            runtime.memcpyAsync(x.data.ptr, beyond, 16, runtime.memcpyDeviceToDevice, stream.ptr)
    with pytest.raises(runtime.CUDARuntimeError, match=r"cudaErrorIllegalAddress.*bytes at 0x") as caught:
        stream.synchronize()
    assert caught.value.status == 700


def test_the_runtime_knows_what_memory_an_address_is_of(cupy, pinned):
    runtime, (memory, _), host = cupy.cuda.runtime, pinned, np.zeros(1)
    with cupy.cuda.Device(1):
        x = cupy.zeros(4)
    on_device = runtime.pointerGetAttributes(x.data.ptr)
    assert (on_device.type, on_device.device) == (runtime.memoryTypeDevice, 1)
    assert runtime.pointerGetAttributes(memory.ptr).type == runtime.memoryTypeHost == 1
    assert runtime.pointerGetAttributes(host.ctypes.data).type == runtime.memoryTypeUnregistered
